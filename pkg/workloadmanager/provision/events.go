package provision

import (
	"errors"
	"fmt"

	"github.com/agentcube/agentcube/pkg/sandbox"
)

// Events tells operators of what happened to an object. It neither blocks nor
// fails.
type Events interface {
	Tell(h sandbox.Happening)
}

// tellFailed says on the object of a create why that failed. One whose object
// was never sent is known to the caller alone.
func (p *Provisioner) tellFailed(c *creation, err error) {
	if p.options.Events == nil || !c.sent || errors.Is(err, ErrDeleted) {
		return
	}
	p.options.Events.Tell(sandbox.Happening{
		Object: c.row.Object, Warning: true, Reason: "SessionCreateFailed", Action: "Undo",
		Note: fmt.Sprintf("session %s could not be created and is undone: %s", c.row.ID, why(err)),
	})
}

// why is what may be said in public of an error.
func why(err error) string {
	if e, ok := errors.AsType[*TimeoutError](err); ok {
		return e.Error()
	}
	if e, ok := errors.AsType[*FailedError](err); ok {
		return e.Error()
	}
	if _, ok := errors.AsType[*UnreachableError](err); ok {
		return "the sandbox is ready and does not listen"
	}
	if errors.Is(err, ErrClientGone) {
		return "its caller went away"
	}
	return resultOf(err)
}
