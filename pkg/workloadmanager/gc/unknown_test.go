package gc_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentcube/agentcube/pkg/session"
	"github.com/agentcube/agentcube/pkg/workloadmanager/gc"
)

// The creator lives, and has undone a create whose outcome it does not know.
func TestUnknownOutcomes(t *testing.T) {
	t.Parallel()
	unknown := func(w *world) session.Session {
		return w.session(func(s *session.Session) {
			creating(s)
			s.State, s.UnknownUntil = session.StateDeleting, w.start.Add(unknownBound)
		})
	}
	t.Run("go with the object that was made late", func(t *testing.T) {
		t.Parallel()
		in(t, func(t *testing.T, w *world) {
			s := unknown(w)
			w.pass(session.RetryAfter(0))
			w.beat()
			assert.Equal(t, gc.Stats{Due: 1, Ended: 1}, w.collect())
			w.gone(s, "its object came, and went")
		})
	})
	t.Run("stay while the object may still come, and no longer", func(t *testing.T) {
		t.Parallel()
		in(t, func(t *testing.T, w *world) {
			s := unknown(w)
			w.cluster.Kill(s.Object)
			w.pass(session.RetryAfter(0))
			w.beat()
			assert.Equal(t, gc.Stats{Due: 1, Failed: 1}, w.collect())
			require.Contains(t, w.fake.Rows(), s.ID)
			assert.Zero(t, w.fake.Rows()[s.ID].Attempts, "waiting is no failed attempt")
			w.pass(unknownBound)
			w.beat()
			assert.Equal(t, gc.Stats{Due: 1, Ended: 1}, w.collect())
			w.gone(s, "no object can come any more")
		})
	})
}
