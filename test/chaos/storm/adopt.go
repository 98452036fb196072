package storm

import (
	"time"

	"github.com/agentcube/agentcube/pkg/session"
	"github.com/agentcube/agentcube/test/chaos/check"
)

// keptLife is what a session must have left to be taken over: the short-lived
// ones end at a time that the storm does not know.
const keptLife = time.Hour

// roundDone takes over the sessions that nobody was told of, since their
// creator or the way to it was cut off: from here on they must live. What has
// ended and was found to be so is not asked for again.
func (m *model) roundDone(s check.Snapshot) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for id, k := range m.sessions {
		if _, there := s.Store.Rows[id]; !there {
			k.settled = true
		}
	}
	for id, row := range s.Store.Rows {
		k := m.get(id)
		k.asked, k.unknown = 0, 0
		if k.created {
			continue
		}
		expires, err := time.Parse(time.RFC3339, row.ExpiresAt)
		idle, idleErr := time.ParseDuration(row.IdleTimeout)
		if err != nil || idleErr != nil || time.Until(expires) < keptLife || idle < keptLife {
			continue
		}
		k.created, k.why = true, ""
		k.workload = session.WorkloadRef(row.Workload)
		m.place(k, row)
	}
}

// place finds what a session goes with. It needs mu.
func (m *model) place(k *known, row check.Row) {
	for _, s := range m.spaces {
		if s.name != row.Workload.Namespace {
			continue
		}
		k.space = s
		if s.warm != nil && s.warm.name == row.Workload.Name {
			k.template = s.warm
		}
	}
}
