package reconcile

import (
	"fmt"

	"github.com/agentcube/agentcube/pkg/sandbox"
	"github.com/agentcube/agentcube/pkg/session"
)

// Events tells operators of what happened to an object. It neither blocks nor
// fails.
type Events interface {
	Tell(h sandbox.Happening)
}

func (r *Reconciler) tell(h sandbox.Happening) {
	if r.options.Events != nil {
		r.options.Events.Tell(h)
	}
}

func (r *Reconciler) tellRelabelled(id string, ref session.ObjectRef) {
	r.options.Metrics.relabelled()
	r.tell(sandbox.Happening{
		Object: ref, Warning: true, Reason: "SessionLabelRestored", Action: "Label",
		Note: fmt.Sprintf("the label of session %s was taken off or changed, and is put back; delete the session to end it", id),
	})
}

// tellRefreshed tells of a session that ceased to be ready.
func (r *Reconciler) tellRefreshed(before, after session.Session) {
	r.options.Metrics.refreshed(after.State)
	if before.State != session.StateReady || after.State != session.StateNotReady {
		return
	}
	r.tell(sandbox.Happening{
		Object: after.Object, Warning: true, Reason: "SessionNotReady", Action: "Refresh",
		Note: fmt.Sprintf("session %s gets no requests until its sandbox is ready again: %s: %s", after.ID, after.Reason, after.Message),
	})
}

func (r *Reconciler) tellEnded(id string, object sandbox.Object) {
	r.options.Metrics.purged(endReason(object))
	r.tell(sandbox.Happening{
		Object: object.Ref, Reason: "SessionEnded", Action: "Delete",
		Note: fmt.Sprintf("session %s is over: %s: %s", id, object.Failure.Reason, object.Failure.Message),
	})
}
