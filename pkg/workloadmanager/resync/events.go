package resync

import (
	"github.com/agentcube/agentcube/pkg/sandbox"
	"github.com/agentcube/agentcube/pkg/session"
)

// Events tells operators of what happened to an object. It neither blocks nor
// fails.
type Events interface {
	Tell(h sandbox.Happening)
}

// tell says it on the ConfigMap that holds the brake.
func (r *Resyncer) tell(warning bool, reason, note string) {
	if r.options.Events == nil {
		return
	}
	r.options.Events.Tell(sandbox.Happening{
		Object:  session.ObjectRef{Kind: sandbox.KindConfigMap, Namespace: r.options.Namespace, Name: r.options.Name},
		Warning: warning, Reason: reason, Action: "Resync", Note: note,
	})
}
