package sessiontest

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentcube/agentcube/pkg/session"
)

// Keyed gives a session a key.
func Keyed(name, body string) func(*session.Session) {
	return func(s *session.Session) { s.Key = session.RetryKey{Name: name, Body: body} }
}

// names asserts which session the key names; empty: none.
func (s Subject) names(t *testing.T, key, id string) {
	t.Helper()
	holder, err := s.KeyHolder(t.Context(), key)
	if id == "" {
		require.ErrorIs(t, err, session.ErrNotFound)
		return
	}
	require.NoError(t, err)
	assert.Equal(t, id, holder.ID)
}

var keyCases = map[string]func(*testing.T, Subject){
	"a key that nobody used is free": func(t *testing.T, s Subject) {
		s.create(t, 1)
		s.names(t, "k", "")
	},
	"a reservation takes its key, and says what it was asked for with": func(t *testing.T, s Subject) {
		row := s.create(t, 1, Keyed("k", "b"))
		holder, err := s.KeyHolder(t.Context(), "k")
		require.NoError(t, err)
		assert.Equal(t, session.KeyHolder{ID: row.ID, Body: "b"}, holder)
		got, err := s.Get(t.Context(), row.ID)
		require.NoError(t, err)
		assert.Equal(t, session.RetryKey{Name: "k", Body: "b"}, got.Key)
		s.check(t)
	},
	"a reservation whose answer was lost takes its key once": func(t *testing.T, s Subject) {
		row := Reserved(1, s.now(t))
		Keyed("k", "b")(&row)
		for range 2 {
			_, err := s.Create(t.Context(), row)
			require.NoError(t, err)
		}
		s.names(t, "k", row.ID)
	},
	"a key that is taken lets no second reservation in, which leaves nothing": func(t *testing.T, s Subject) {
		first := s.create(t, 1, Keyed("k", "b"))
		second := Reserved(2, s.now(t))
		Keyed("k", "b")(&second)
		_, err := s.Create(t.Context(), second)
		require.ErrorIs(t, err, session.ErrKeyTaken)
		require.ErrorIs(t, err, session.ErrExists)
		_, err = s.Get(t.Context(), second.ID)
		require.ErrorIs(t, err, session.ErrNotFound)
		s.names(t, "k", first.ID)
		s.check(t)
	},
	"of fifty reservations with one key one is made": func(t *testing.T, s Subject) {
		var made atomic.Int32
		var all sync.WaitGroup
		now := s.now(t)
		for n := range 50 {
			all.Go(func() {
				row := Reserved(n, now)
				Keyed("k", "b")(&row)
				if _, err := s.Create(t.Context(), row); err == nil {
					made.Add(1)
				} else {
					assert.ErrorIs(t, err, session.ErrKeyTaken)
				}
			})
		}
		all.Wait()
		assert.EqualValues(t, 1, made.Load())
		assert.Len(t, s.Rows(t), 1)
	},
	"other keys are free": func(t *testing.T, s Subject) {
		s.create(t, 1, Keyed("k", "b"))
		row := s.create(t, 2, Keyed("l", "b"))
		s.names(t, "l", row.ID)
	},
	"the commit and what follows leave the key": func(t *testing.T, s Subject) {
		row := s.ready(t, 1, Keyed("k", "b"))
		s.names(t, "k", row.ID)
		_, err := s.Update(t.Context(), row.ID, session.Delete(session.ReasonDeleted, time.Time{}))
		require.NoError(t, err)
		s.names(t, "k", row.ID)
	},
	"a create that failed frees its key at once, and another takes it": func(t *testing.T, s Subject) {
		first := s.create(t, 1, Keyed("k", "b"))
		_, err := s.Update(t.Context(), first.ID, session.Delete(session.ReasonFailed, time.Time{}))
		require.NoError(t, err)
		s.names(t, "k", "")
		second := s.create(t, 2, Keyed("k", "b"))
		// What is left of the first does nothing to the key of the second.
		_, err = s.Update(t.Context(), first.ID, count)
		require.NoError(t, err)
		require.NoError(t, s.Remove(t.Context(), first.ID, always))
		s.names(t, "k", second.ID)
		s.check(t)
	},
	"the placeholder of a dead creator is ended with its key": func(t *testing.T, s Subject) {
		row := s.create(t, 1, Keyed("k", "b"))
		_, err := s.End(t.Context(), row.ID, time.Time{}, session.Abandon(row.Creator, row.CreatedAt))
		require.NoError(t, err)
		s.names(t, "k", "")
		_, err = s.Update(t.Context(), row.ID, session.Commit(row.Creator.Token, Ready(row, "10.0.0.7")))
		require.ErrorIs(t, err, session.ErrStale)
	},
	"a placeholder that is removed frees its key": func(t *testing.T, s Subject) {
		row := s.create(t, 1, Keyed("k", "b"))
		require.NoError(t, s.Remove(t.Context(), row.ID, always))
		s.names(t, "k", "")
	},
	"a session that has ended keeps its key": func(t *testing.T, s Subject) {
		row := s.ready(t, 1, Keyed("k", "b"))
		require.NoError(t, s.Remove(t.Context(), row.ID, always))
		s.names(t, "k", row.ID)
		again := Reserved(2, s.now(t))
		Keyed("k", "b")(&again)
		_, err := s.Create(t.Context(), again)
		require.ErrorIs(t, err, session.ErrKeyTaken)
	},
	"a session that has ended is not made again by its own late reservation": func(t *testing.T, s Subject) {
		row := s.ready(t, 1, Keyed("k", "b"))
		require.NoError(t, s.Remove(t.Context(), row.ID, always))
		late := Reserved(1, row.CreatedAt)
		Keyed("k", "b")(&late)
		_, err := s.Create(t.Context(), late)
		require.ErrorIs(t, err, session.ErrExists)
		assert.Empty(t, s.Rows(t))
	},
	"a row without the record of its key gets it back, unless its create failed": func(t *testing.T, s Subject) {
		row, failed := s.ready(t, 1), s.create(t, 2)
		row.Key, failed.Key = session.RetryKey{Name: "k", Body: "b"}, session.RetryKey{Name: "l", Body: "b"}
		failed.State = session.StateDeleting
		s.Put(t, row)
		s.Put(t, failed)
		healed, err := s.Index(t.Context())
		require.NoError(t, err)
		assert.Positive(t, healed)
		s.names(t, "k", row.ID)
		s.names(t, "l", "")
		_, err = s.Index(t.Context())
		require.NoError(t, err)
		healed, err = s.Index(t.Context())
		require.NoError(t, err)
		assert.Zero(t, healed)
	},
}
