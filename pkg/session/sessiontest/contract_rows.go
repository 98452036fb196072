package sessiontest

import (
	"encoding/json"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentcube/agentcube/pkg/session"
)

var createCases = map[string]func(*testing.T, Subject){
	"what was created can be read, and counts as active since then": func(t *testing.T, s Subject) {
		created := s.create(t, 1)
		got, err := s.Get(t.Context(), created.ID)
		require.NoError(t, err)
		assert.Equal(t, created, got)
		assert.Equal(t, int64(1), got.Revision)
		last, err := s.LastActivity(t.Context(), created.ID)
		require.NoError(t, err)
		assert.Equal(t, created.CreatedAt, last)
		assert.Equal(t, created.CreatedAt.Add(createBound), s.Indexes(t).Due[created.ID])
		s.check(t)
	},
	"an id that is taken is refused and its row untouched": func(t *testing.T, s Subject) {
		first := s.create(t, 1)
		second := Reserved(1, first.CreatedAt)
		second.Creator.Token = "another"
		_, err := s.Create(t.Context(), second)
		require.ErrorIs(t, err, session.ErrExists)
		got, err := s.Get(t.Context(), first.ID)
		require.NoError(t, err)
		assert.Equal(t, first, got)
	},
	"the same call again is the success it was": func(t *testing.T, s Subject) {
		row := Reserved(1, s.now(t))
		first, err := s.Create(t.Context(), row)
		require.NoError(t, err)
		again, err := s.Create(t.Context(), row)
		require.NoError(t, err)
		assert.Equal(t, first, again)
		s.check(t)
	},
	"of many with one id exactly one wins": func(t *testing.T, s Subject) {
		var wins atomic.Int32
		var wg sync.WaitGroup
		now := s.now(t)
		for n := range 16 {
			wg.Go(func() {
				row := Reserved(1, now)
				row.Creator.Token = ID(n)
				_, err := s.Create(t.Context(), row)
				if err == nil {
					wins.Add(1)
				} else {
					assert.ErrorIs(t, err, session.ErrExists)
				}
			})
		}
		wg.Wait()
		assert.Equal(t, int32(1), wins.Load())
		s.check(t)
	},
	"an unlimited session has no expiry entry": func(t *testing.T, s Subject) {
		row := s.create(t, 1, func(r *session.Session) { r.ExpiresAt = time.Time{} })
		assert.NotContains(t, s.Indexes(t).Expiry, row.ID)
		s.check(t)
	},
	"deadlines are rounded up and activity down": func(t *testing.T, s Subject) {
		row := s.create(t, 1, func(r *session.Session) {
			r.CreatedAt = r.CreatedAt.Add(time.Nanosecond)
			r.ExpiresAt = r.ExpiresAt.Add(time.Nanosecond)
		})
		x := s.Indexes(t)
		whole := row.CreatedAt.Add(-time.Nanosecond)
		assert.Equal(t, whole.Add(8*time.Hour+time.Second), x.Expiry[row.ID])
		assert.Equal(t, whole, x.Activity[row.ID])
		assert.Equal(t, whole.Add(time.Second), x.Creating[row.ID])
		s.check(t)
	},
	"a session that no row can hold is refused": func(t *testing.T, s Subject) {
		for _, spoil := range []func(*session.Session){
			func(r *session.Session) { r.ID = "expiry" },
			func(r *session.Session) { r.Object.Kind = "Pod" },
			func(r *session.Session) { r.Metadata = json.RawMessage(`{`) },
		} {
			row := Reserved(1, s.now(t))
			spoil(&row)
			_, err := s.Create(t.Context(), row)
			require.ErrorIs(t, err, session.ErrInvalid)
		}
		assert.Empty(t, s.Rows(t))
	},
	"a row that is not there is not found, whatever the id": func(t *testing.T, s Subject) {
		s.create(t, 1)
		for _, id := range []string{ID(2), "", "*", "expiry", "last_activity", "a\nb"} {
			_, err := s.Get(t.Context(), id)
			require.ErrorIs(t, err, session.ErrNotFound, "%q", id)
			_, err = s.Update(t.Context(), id, count)
			require.ErrorIs(t, err, session.ErrNotFound, "%q", id)
			require.ErrorIs(t, s.Remove(t.Context(), id, always), session.ErrNotFound, "%q", id)
		}
	},
	"a cancelled call says so, not that the store is away": func(t *testing.T, s Subject) {
		_, err := s.Create(cancelled(t), Reserved(1, s.now(t)))
		require.Error(t, err)
		require.NotErrorIs(t, err, session.ErrUnavailable)
		_, err = s.Get(cancelled(t), ID(1))
		require.NotErrorIs(t, err, session.ErrUnavailable)
		assert.NotErrorIs(t, err, session.ErrNotFound)
	},
}

var updateCases = map[string]func(*testing.T, Subject){
	"a change is written and the revision raised": func(t *testing.T, s Subject) {
		row := s.create(t, 1)
		updated, err := s.Update(t.Context(), row.ID, count)
		require.NoError(t, err)
		assert.Equal(t, row.Revision+1, updated.Revision)
		assert.Equal(t, 1, updated.Attempts)
		got, err := s.Get(t.Context(), row.ID)
		require.NoError(t, err)
		assert.Equal(t, updated, got)
		s.check(t)
	},
	"nothing is lost among many": func(t *testing.T, s Subject) {
		row := s.create(t, 1)
		var wg sync.WaitGroup
		for range 16 {
			wg.Go(func() {
				for range 4 {
					_, err := s.Update(t.Context(), row.ID, count)
					assert.NoError(t, err)
				}
			})
		}
		wg.Wait()
		got, err := s.Get(t.Context(), row.ID)
		require.NoError(t, err)
		assert.Equal(t, 64, got.Attempts)
		assert.Equal(t, row.Revision+64, got.Revision)
		s.check(t)
	},
	"a change that loses runs again on the winner's row": func(t *testing.T, s Subject) {
		row := s.create(t, 1)
		runs := 0
		updated, err := s.Update(t.Context(), row.ID, func(r *session.Session) error {
			if runs++; runs == 1 {
				_, err := s.Update(t.Context(), row.ID, func(r *session.Session) error {
					r.Message = "the winner's"
					return nil
				})
				require.NoError(t, err)
			}
			return count(r)
		})
		require.NoError(t, err)
		assert.Equal(t, 2, runs)
		assert.Equal(t, "the winner's", updated.Message)
		assert.Equal(t, 1, updated.Attempts)
	},
	"a change that finds its work done writes nothing": func(t *testing.T, s Subject) {
		row := s.create(t, 1)
		got, err := s.Update(t.Context(), row.ID, func(*session.Session) error { return session.ErrUnchanged })
		require.NoError(t, err)
		assert.Equal(t, row, got)
		got, err = s.Get(t.Context(), row.ID)
		require.NoError(t, err)
		assert.Equal(t, row, got)
	},
	"an error of a change comes back as it is, with the row as it was read": func(t *testing.T, s Subject) {
		row := s.create(t, 1)
		mine := errors.New("mine")
		got, err := s.Update(t.Context(), row.ID, func(r *session.Session) error {
			r.OwnerID, r.Metadata[0] = "spoilt", 'x'
			return mine
		})
		assert.Equal(t, mine, err)
		assert.Equal(t, row, got)
		got, err = s.Get(t.Context(), row.ID)
		require.NoError(t, err)
		assert.Equal(t, row, got)
	},
	"a row removed under a change stays removed": func(t *testing.T, s Subject) {
		row := s.create(t, 1)
		_, err := s.Update(t.Context(), row.ID, func(r *session.Session) error {
			require.NoError(t, s.Remove(t.Context(), row.ID, always))
			return count(r)
		})
		require.ErrorIs(t, err, session.ErrNotFound)
		assert.Empty(t, s.Rows(t))
		s.check(t)
	},
	"a commit counts as activity and leaves the placeholder index": func(t *testing.T, s Subject) {
		row := s.ready(t, 1, func(r *session.Session) { r.CreatedAt = r.CreatedAt.Add(-time.Minute) })
		assert.Equal(t, session.StateReady, row.State)
		last, err := s.LastActivity(t.Context(), row.ID)
		require.NoError(t, err)
		assert.WithinRange(t, last, row.CreatedAt.Add(time.Minute), s.now(t))
		x := s.Indexes(t)
		assert.NotContains(t, x.Creating, row.ID)
		assert.WithinRange(t, x.Due[row.ID], last.Add(15*time.Minute+session.IdleGrace),
			last.Add(15*time.Minute+session.IdleGrace+time.Second))
		_, err = s.Update(t.Context(), row.ID, session.Commit(row.Creator.Token, Ready(row, "10.0.0.7")))
		require.NoError(t, err, "its own earlier success")
	},
	"any other update leaves the activity alone": func(t *testing.T, s Subject) {
		row := s.ready(t, 1)
		at := s.now(t).Add(30 * time.Second)
		require.NoError(t, s.Touch(t.Context(), map[string]time.Time{row.ID: at}))
		_, err := s.Update(t.Context(), row.ID, count)
		require.NoError(t, err)
		last, err := s.LastActivity(t.Context(), row.ID)
		require.NoError(t, err)
		assert.Equal(t, at, last)
		assert.Equal(t, at.Add(15*time.Minute+session.IdleGrace), s.Indexes(t).Due[row.ID])
		s.check(t)
	},
	"a row whose activity is unknown gets none from an update": func(t *testing.T, s Subject) {
		row := Reserved(1, s.now(t))
		row.State = session.StateReady
		s.Put(t, row)
		_, err := s.Update(t.Context(), row.ID, count)
		require.NoError(t, err)
		assert.NotContains(t, s.Indexes(t).Activity, row.ID)
		assert.Equal(t, row.CreatedAt.Add(15*time.Minute+session.IdleGrace), s.Indexes(t).Due[row.ID])
	},
	"lifetimes that change move the indexes": func(t *testing.T, s Subject) {
		row := s.ready(t, 1)
		soon := s.now(t).Add(time.Minute)
		_, err := s.Update(t.Context(), row.ID, func(r *session.Session) error { r.ExpiresAt = soon; return nil })
		require.NoError(t, err)
		assert.Equal(t, soon, s.Indexes(t).Expiry[row.ID])
		assert.Equal(t, soon, s.Indexes(t).Due[row.ID])
		_, err = s.Update(t.Context(), row.ID, func(r *session.Session) error {
			r.ExpiresAt, r.IdleTimeout = time.Time{}, 0
			return nil
		})
		require.NoError(t, err)
		assert.NotContains(t, s.Indexes(t).Expiry, row.ID)
		assert.NotContains(t, s.Indexes(t).Due, row.ID)
		s.check(t)
	},
	"no state without a way in keeps entry points": func(t *testing.T, s Subject) {
		row := s.ready(t, 1)
		require.NotEmpty(t, row.EntryPoints)
		for _, state := range []session.State{session.StateSuspended, session.StateDeleting, session.StateCreating} {
			got, err := s.Update(t.Context(), row.ID, func(r *session.Session) error {
				r.State, r.EntryPoints = state, row.EntryPoints
				return nil
			})
			require.NoError(t, err)
			assert.Nil(t, got.EntryPoints, state)
			got, err = s.Get(t.Context(), row.ID)
			require.NoError(t, err)
			assert.Nil(t, got.EntryPoints, state)
			s.check(t)
		}
	},
	"fields that are not known survive": func(t *testing.T, s Subject) {
		unknown := map[string]json.RawMessage{
			"aList": json.RawMessage(`[]`), "anObject": json.RawMessage(`{ }`),
			"aNumber": json.RawMessage(`123456789012345678901234567890`), "aText": json.RawMessage(`"<\u0041>"`),
		}
		row := s.create(t, 1, func(r *session.Session) { r.Unknown = unknown })
		got, err := s.Update(t.Context(), row.ID, count)
		require.NoError(t, err)
		assert.Equal(t, unknown, got.Unknown)
		got, err = s.Get(t.Context(), row.ID)
		require.NoError(t, err)
		assert.Equal(t, unknown, got.Unknown)
	},
	"a change may not make another session of it": func(t *testing.T, s Subject) {
		row := s.create(t, 1)
		for _, spoil := range []func(*session.Session){
			func(r *session.Session) { r.ID = ID(2) },
			func(r *session.Session) { r.Object.Name = "" },
		} {
			_, err := s.Update(t.Context(), row.ID, func(r *session.Session) error { spoil(r); return nil })
			require.ErrorIs(t, err, session.ErrInvalid)
			require.NotErrorIs(t, err, session.ErrUnavailable)
		}
		assert.Equal(t, map[string]session.Session{row.ID: row}, s.Rows(t))
	},
}

var endCases = map[string]func(*testing.T, Subject){
	"a session idle since the time seen is ended": func(t *testing.T, s Subject) {
		row := s.ready(t, 1)
		last, err := s.LastActivity(t.Context(), row.ID)
		require.NoError(t, err)
		ended, err := s.End(t.Context(), row.ID, last, session.Delete(session.ReasonIdle, time.Time{}))
		require.NoError(t, err)
		assert.Equal(t, session.StateDeleting, ended.State)
		s.check(t)
	},
	"activity between the look and the end wins": func(t *testing.T, s Subject) {
		row := s.ready(t, 1)
		last, err := s.LastActivity(t.Context(), row.ID)
		require.NoError(t, err)
		_, err = s.End(t.Context(), row.ID, last, func(r *session.Session) error {
			require.NoError(t, s.Touch(t.Context(), map[string]time.Time{row.ID: last.Add(time.Second)}))
			return session.Delete(session.ReasonIdle, time.Time{})(r)
		})
		require.ErrorIs(t, err, session.ErrStale)
		got, err := s.Get(t.Context(), row.ID)
		require.NoError(t, err)
		assert.Equal(t, row, got)
	},
	"a decision that does not rest on activity ignores it": func(t *testing.T, s Subject) {
		row := s.ready(t, 1)
		require.NoError(t, s.Touch(t.Context(), map[string]time.Time{row.ID: s.now(t).Add(time.Hour)}))
		ended, err := s.End(t.Context(), row.ID, time.Time{}, session.Delete(session.ReasonExpired, time.Time{}))
		require.NoError(t, err)
		assert.Equal(t, session.ReasonExpired, ended.Reason)
	},
	"the second end finds the first": func(t *testing.T, s Subject) {
		row := s.ready(t, 1)
		last, err := s.LastActivity(t.Context(), row.ID)
		require.NoError(t, err)
		end := session.Delete(session.ReasonIdle, time.Time{})
		first, err := s.End(t.Context(), row.ID, last, end)
		require.NoError(t, err)
		second, err := s.End(t.Context(), row.ID, last, end)
		require.NoError(t, err)
		assert.Equal(t, first, second)
	},
	"a session without a row is not found": func(t *testing.T, s Subject) {
		_, err := s.End(t.Context(), ID(1), s.now(t), count)
		require.ErrorIs(t, err, session.ErrNotFound)
		assert.Empty(t, s.Rows(t))
	},
}

var removeCases = map[string]func(*testing.T, Subject){
	"row and every entry go": func(t *testing.T, s Subject) {
		row, other := s.create(t, 1), s.create(t, 2)
		require.NoError(t, s.Remove(t.Context(), row.ID, session.HeldBy(row.Creator.Token)))
		assert.Equal(t, map[string]session.Session{other.ID: other}, s.Rows(t))
		s.check(t)
	},
	"a guard that refuses keeps all and is told as it is": func(t *testing.T, s Subject) {
		row := s.create(t, 1)
		mine := errors.New("mine")
		var seen session.Session
		err := s.Remove(t.Context(), row.ID, func(r session.Session) error { seen = r; return mine })
		assert.Equal(t, mine, err)
		assert.Equal(t, row, seen)
		assert.Len(t, s.Rows(t), 1)
		s.check(t)
	},
	"a row that changes under the guard is guarded anew": func(t *testing.T, s Subject) {
		row := s.create(t, 1)
		runs := 0
		err := s.Remove(t.Context(), row.ID, func(r session.Session) error {
			if runs++; runs > 1 {
				return session.HeldBy("another")(r)
			}
			_, err := s.Update(t.Context(), row.ID, count)
			require.NoError(t, err)
			return nil
		})
		require.ErrorIs(t, err, session.ErrStale)
		assert.Equal(t, 2, runs)
		assert.Len(t, s.Rows(t), 1)
	},
	"of many exactly one removes it": func(t *testing.T, s Subject) {
		row := s.create(t, 1)
		var wins atomic.Int32
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				if err := s.Remove(t.Context(), row.ID, always); err == nil {
					wins.Add(1)
				} else {
					assert.ErrorIs(t, err, session.ErrNotFound)
				}
			})
		}
		wg.Wait()
		assert.Equal(t, int32(1), wins.Load())
		s.check(t)
	},
	"a removed session is not brought back": func(t *testing.T, s Subject) {
		row := s.ready(t, 1)
		require.NoError(t, s.Remove(t.Context(), row.ID, always))
		_, err := s.Update(t.Context(), row.ID, count)
		require.ErrorIs(t, err, session.ErrNotFound)
		require.NoError(t, s.Touch(t.Context(), map[string]time.Time{row.ID: s.now(t)}))
		require.NoError(t, s.Postpone(t.Context(), row.ID, s.now(t)))
		assert.Empty(t, s.Rows(t))
		s.check(t)
	},
}
