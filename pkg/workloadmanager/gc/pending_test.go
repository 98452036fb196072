package gc_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentcube/agentcube/pkg/sandbox"
	"github.com/agentcube/agentcube/pkg/session"
)

func TestAChangeOfLifetimesThatWasCutOffIsFinished(t *testing.T) {
	t.Parallel()
	announced := func(w *world) session.Session {
		s := w.session(func(s *session.Session) { s.MaxDuration = 8 * time.Hour })
		end := w.clock.Now().Add(time.Hour)
		_, err := w.fake.Update(w.t.Context(), s.ID, session.Announce("of the dead", session.Change{ExpiresAt: end, Idle: time.Minute}))
		require.NoError(w.t, err)
		return s
	}
	t.Run("soon", func(t *testing.T) {
		t.Parallel()
		in(t, func(t *testing.T, w *world) {
			s := announced(w)
			w.runFor(2 * interval)
			row := w.fake.Rows()[s.ID]
			assert.Equal(t, session.Pending{}, row.Pending)
			assert.Equal(t, sandbox.Lifetimes{ShutdownTime: row.ExpiresAt, Idle: time.Minute}, w.cluster.Lifetimes(s.Object.UID))
			w.indexesAgree()
			w.runFor(time.Minute + 3*interval + session.IdleGrace)
			w.gone(s, "its idle time is over")
		})
	})
	t.Run("less and less often while that fails, and without an effect on its end", func(t *testing.T) {
		t.Parallel()
		in(t, func(t *testing.T, w *world) {
			s := announced(w)
			w.cluster.Down(sandbox.ErrUnavailable)
			w.runFor(time.Minute)
			w.lives(s, "its time is not over")
			assert.Equal(t, 2, w.cluster.Calls("Get"), "15 s, then 30 s after it was announced")
			w.cluster.Down(nil)
			w.pass(time.Minute)
			w.collect()
			w.gone(s, "its idle time is over")
		})
	})
}
