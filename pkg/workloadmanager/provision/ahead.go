package provision

import (
	"context"

	"github.com/agentcube/agentcube/pkg/sandbox"
)

// lookAhead is a read of a Sandbox's UID that goes on while the claim's
// controller still adopts it, so that a warm create does not wait for it.
type lookAhead struct {
	name string
	// uid gets one value: empty if the read failed, and is to be repeated.
	uid chan string
}

// lookAhead reads the sandbox that the claim's controller has picked, once for
// each it picks.
func (p *Provisioner) lookAhead(ctx context.Context, c *creation, object *sandbox.Object) {
	name := object.Assigned
	if name == "" || object.SandboxUID != "" || (c.ahead != nil && c.ahead.name == name) {
		return
	}
	ahead := &lookAhead{name: name, uid: make(chan string, 1)}
	c.ahead = ahead
	namespace := object.Ref.Namespace
	p.background.Go(func() {
		uid, err := p.cluster.SandboxUID(ctx, namespace, name)
		if err != nil {
			uid = ""
		}
		ahead.uid <- uid
	})
}
