package sessiontest

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentcube/agentcube/pkg/session"
)

var endedCases = map[string]func(*testing.T, Subject){
	"a session that was marked ended for the reason of the mark": func(t *testing.T, s Subject) {
		row := s.ready(t, 1)
		_, err := s.Update(t.Context(), row.ID, session.Delete(session.ReasonIdle, time.Time{}))
		require.NoError(t, err)
		_, err = s.Ended(t.Context(), row.ID)
		require.ErrorIs(t, err, session.ErrNotFound, "it is there")
		require.NoError(t, s.Remove(t.Context(), row.ID, always))
		ending, err := s.Ended(t.Context(), row.ID)
		require.NoError(t, err)
		assert.Equal(t, session.ReasonIdle, ending.Reason)
		assert.True(t, ending.VisibleTo("owner"))
		assert.False(t, ending.VisibleTo("another"))
	},
	"a session that nobody had marked was deleted in the cluster": func(t *testing.T, s Subject) {
		row := s.ready(t, 1, func(r *session.Session) { r.OwnerID = "" })
		require.NoError(t, s.Remove(t.Context(), row.ID, always))
		ending, err := s.Ended(t.Context(), row.ID)
		require.NoError(t, err)
		assert.Equal(t, session.Ending{Reason: session.ReasonDeletedInCluster}, ending)
	},
	"a second removal does not know better": func(t *testing.T, s Subject) {
		row := s.ready(t, 1)
		_, err := s.Update(t.Context(), row.ID, session.Delete(session.ReasonExpired, time.Time{}))
		require.NoError(t, err)
		require.NoError(t, s.Remove(t.Context(), row.ID, always))
		require.ErrorIs(t, s.Remove(t.Context(), row.ID, always), session.ErrNotFound)
		ending, err := s.Ended(t.Context(), row.ID)
		require.NoError(t, err)
		assert.Equal(t, session.ReasonExpired, ending.Reason)
	},
	"a removal that is refused ends nothing": func(t *testing.T, s Subject) {
		row := s.ready(t, 1)
		require.Error(t, s.Remove(t.Context(), row.ID, func(session.Session) error { return session.ErrStale }))
		_, err := s.Ended(t.Context(), row.ID)
		require.ErrorIs(t, err, session.ErrNotFound)
	},
	"of a session that never was nothing is known, whatever the id": func(t *testing.T, s Subject) {
		for _, id := range []string{ID(1), "", "*", "a\nb", "expiry"} {
			require.ErrorIs(t, s.Remove(t.Context(), id, always), session.ErrNotFound)
			_, err := s.Ended(t.Context(), id)
			require.ErrorIs(t, err, session.ErrNotFound, "%q", id)
		}
	},
}

var lookCases = map[string]func(*testing.T, Subject){
	"a look shows the row, its activity and the store's clock": func(t *testing.T, s Subject) {
		row := s.ready(t, 1)
		last, err := s.LastActivity(t.Context(), row.ID)
		require.NoError(t, err)
		before, err := s.Now(t.Context())
		require.NoError(t, err)
		seen, err := s.Look(t.Context(), row.ID)
		require.NoError(t, err)
		after, err := s.Now(t.Context())
		require.NoError(t, err)
		assert.Equal(t, row, seen.Session)
		assert.Equal(t, last, seen.LastActivity)
		assert.False(t, seen.Now.Before(before) || seen.Now.After(after), "%s is not from %s to %s", seen.Now, before, after)
	},
	"an activity too far ahead looks like now": func(t *testing.T, s Subject) {
		row := s.ready(t, 1)
		require.NoError(t, s.Touch(t.Context(), map[string]time.Time{row.ID: s.now(t).Add(time.Hour)}))
		seen, err := s.Look(t.Context(), row.ID)
		require.NoError(t, err)
		assert.Equal(t, floor(seen.Now), seen.LastActivity)
	},
	"what is not there is not found, whatever the id": func(t *testing.T, s Subject) {
		for _, id := range []string{ID(1), "", "*", "expiry"} {
			_, err := s.Look(t.Context(), id)
			require.ErrorIs(t, err, session.ErrNotFound, "%q", id)
			require.ErrorIs(t, s.Keep(t.Context(), id, anyway), session.ErrNotFound, "%q", id)
		}
		assert.Empty(t, s.Indexes(t).Activity)
	},
}

var keepCases = map[string]func(*testing.T, Subject){
	"a kept session was active now, and its row is as it was": func(t *testing.T, s Subject) {
		row := s.create(t, 1, func(r *session.Session) { r.CreatedAt = r.CreatedAt.Add(-time.Hour) })
		before := s.now(t)
		require.NoError(t, s.Keep(t.Context(), row.ID, anyway))
		last, err := s.LastActivity(t.Context(), row.ID)
		require.NoError(t, err)
		assert.False(t, last.Before(before) || last.After(s.now(t)), "%s", last)
		got, err := s.Get(t.Context(), row.ID)
		require.NoError(t, err)
		assert.Equal(t, row, got)
		s.check(t)
	},
	"it does not go back": func(t *testing.T, s Subject) {
		row := s.ready(t, 1)
		ahead := s.now(t).Add(30 * time.Second)
		require.NoError(t, s.Touch(t.Context(), map[string]time.Time{row.ID: ahead}))
		require.NoError(t, s.Keep(t.Context(), row.ID, anyway))
		last, err := s.LastActivity(t.Context(), row.ID)
		require.NoError(t, err)
		assert.Equal(t, ahead, last)
	},
	"a guard that refuses keeps nothing and is told as it is": func(t *testing.T, s Subject) {
		row := s.create(t, 1, func(r *session.Session) { r.CreatedAt = r.CreatedAt.Add(-time.Hour) })
		mine := errors.New("mine")
		assert.Equal(t, mine, s.Keep(t.Context(), row.ID, func(session.Snapshot) error { return mine }))
		last, err := s.LastActivity(t.Context(), row.ID)
		require.NoError(t, err)
		assert.Equal(t, floor(row.CreatedAt), last)
	},
	"one that ends in between is not kept": func(t *testing.T, s Subject) {
		row := s.ready(t, 1)
		runs := 0
		err := s.Keep(t.Context(), row.ID, func(r session.Snapshot) error {
			if runs++; runs > 1 {
				require.Equal(t, session.StateDeleting, r.State)
				return session.ErrStale
			}
			_, err := s.Update(t.Context(), row.ID, session.Delete(session.ReasonIdle, time.Time{}))
			require.NoError(t, err)
			return nil
		})
		require.ErrorIs(t, err, session.ErrStale)
		assert.Equal(t, 2, runs)
	},
	"one that is kept is not ended by who saw it idle": func(t *testing.T, s Subject) {
		row := s.create(t, 1, func(r *session.Session) { r.CreatedAt = r.CreatedAt.Add(-time.Hour) })
		last, err := s.LastActivity(t.Context(), row.ID)
		require.NoError(t, err)
		require.NoError(t, s.Keep(t.Context(), row.ID, anyway))
		_, err = s.End(t.Context(), row.ID, last, session.Delete(session.ReasonIdle, time.Time{}))
		require.ErrorIs(t, err, session.ErrStale)
	},
	"a row without an activity has one then": func(t *testing.T, s Subject) {
		row := Reserved(1, s.now(t))
		row.State = session.StateReady
		s.Put(t, row)
		require.NoError(t, s.Keep(t.Context(), row.ID, anyway))
		assert.Contains(t, s.Indexes(t).Activity, row.ID)
	},
}

// anyway is a guard that lets everything be kept.
func anyway(session.Snapshot) error { return nil }
