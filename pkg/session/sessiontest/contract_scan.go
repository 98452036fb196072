package sessiontest

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentcube/agentcube/pkg/session"
)

// scan reads all pages.
func (s Subject) scan(t *testing.T, between func()) map[string]session.Row {
	t.Helper()
	found := map[string]session.Row{}
	for cursor := uint64(0); ; {
		rows, next, err := s.Scan(t.Context(), cursor)
		require.NoError(t, err)
		for _, row := range rows {
			found[row.ID] = row
		}
		if cursor = next; cursor == 0 {
			return found
		}
		if between != nil {
			between()
		}
	}
}

var scanCases = map[string]func(*testing.T, Subject){
	"an empty store has no rows": func(t *testing.T, s Subject) {
		assert.Empty(t, s.scan(t, nil))
	},
	"a scan tells each row's object, state and time of creation": func(t *testing.T, s Subject) {
		creating, ready := s.create(t, 1), s.ready(t, 2)
		assert.Equal(t, map[string]session.Row{
			creating.ID: {ID: creating.ID, Object: creating.Object, State: session.StateCreating, CreatedAt: creating.CreatedAt},
			ready.ID:    {ID: ready.ID, Object: ready.Object, State: session.StateReady, CreatedAt: ready.CreatedAt},
		}, s.scan(t, nil))
	},
	"the UID of a direct Sandbox is known of rows that record only that of the sandbox": func(t *testing.T, s Subject) {
		row := Reserved(1, s.now(t))
		row.State, row.Creator = session.StateReady, session.Creator{}
		row.Sandbox.UID = "uid"
		s.Put(t, row)
		assert.Equal(t, "uid", s.scan(t, nil)[row.ID].Object.UID)
	},
	"rows that are there all the time are all told, whatever comes meanwhile": func(t *testing.T, s Subject) {
		for n := range 1500 {
			s.Put(t, Reserved(n, s.now(t)))
		}
		late := 1500
		found := s.scan(t, func() {
			s.Put(t, Reserved(late, s.now(t))) // the last in order, so that it moves none in the fake
			late++
		})
		for n := range 1500 {
			assert.Contains(t, found, ID(n))
		}
	},
}
