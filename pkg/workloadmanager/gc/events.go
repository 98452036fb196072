package gc

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

// tellEnded says that, and why, a session is ended.
func (c *Collector) tellEnded(row session.Session, cause string) {
	c.options.Metrics.endedFor(cause)
	if c.options.Events == nil {
		return
	}
	h := sandbox.Happening{Object: row.Object, Reason: "SessionEnded", Action: "Delete"}
	switch cause {
	case session.ReasonIdle:
		h.Note = fmt.Sprintf("session %s was idle for longer than %s", row.ID, row.IdleTimeout)
	case session.ReasonExpired:
		h.Note = fmt.Sprintf("the time of session %s is over", row.ID)
	default:
		h.Warning, h.Reason = true, "SessionAbandoned"
		h.Note = fmt.Sprintf("session %s is undone: whoever created it is gone (%s)", row.ID, row.Creator.Process)
	}
	c.options.Events.Tell(h)
}
