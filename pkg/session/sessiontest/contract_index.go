package sessiontest

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/agentcube/agentcube/pkg/session"
)

var activityCases = map[string]func(*testing.T, Subject){
	"activity moves forward only": func(t *testing.T, s Subject) {
		row := s.ready(t, 1)
		at := s.now(t).Add(10 * time.Second)
		for _, seen := range []time.Time{at, at.Add(-time.Second), at.Add(-time.Hour), at.Add(999 * time.Millisecond)} {
			require.NoError(t, s.Touch(t.Context(), map[string]time.Time{row.ID: seen}))
			last, err := s.LastActivity(t.Context(), row.ID)
			require.NoError(t, err)
			assert.Equal(t, at, last)
		}
		require.NoError(t, s.Touch(t.Context(), map[string]time.Time{row.ID: at.Add(time.Second)}))
		last, err := s.LastActivity(t.Context(), row.ID)
		require.NoError(t, err)
		assert.Equal(t, at.Add(time.Second), last)
	},
	"a session without a row has none and gets none": func(t *testing.T, s Subject) {
		require.NoError(t, s.Touch(t.Context(), map[string]time.Time{ID(1): s.now(t), "expiry": s.now(t)}))
		require.NoError(t, s.Touch(t.Context(), nil))
		last, err := s.LastActivity(t.Context(), ID(1))
		require.NoError(t, err)
		assert.Zero(t, last)
		assert.Empty(t, s.Indexes(t).Activity)
	},
	"activity within the skew allowed is taken as it is": func(t *testing.T, s Subject) {
		row := s.ready(t, 1)
		at := s.now(t).Add(maxSkew)
		require.NoError(t, s.Touch(t.Context(), map[string]time.Time{row.ID: at}))
		last, err := s.LastActivity(t.Context(), row.ID)
		require.NoError(t, err)
		assert.Equal(t, at, last)
	},
	"activity from a clock far ahead counts as now and is set to now": func(t *testing.T, s Subject) {
		row := s.ready(t, 1)
		before := s.now(t)
		require.NoError(t, s.Touch(t.Context(), map[string]time.Time{row.ID: before.Add(time.Hour)}))
		updated, err := s.Update(t.Context(), row.ID, count)
		require.NoError(t, err)
		latest := s.now(t).Add(15*time.Minute + session.IdleGrace + time.Second)
		assert.False(t, s.Indexes(t).Due[updated.ID].After(latest), "an update does not believe it either")
		last, err := s.LastActivity(t.Context(), row.ID)
		require.NoError(t, err)
		assert.WithinRange(t, last, before, s.now(t))
		assert.Equal(t, last, s.Indexes(t).Activity[row.ID])
	},
}

var queueCases = map[string]func(*testing.T, Subject){
	"what is due comes earliest first, and nothing else": func(t *testing.T, s Subject) {
		now := s.now(t)
		expire := func(at time.Time) func(*session.Session) {
			return func(r *session.Session) { r.CreatedAt, r.ExpiresAt = now.Add(-24*time.Hour), at }
		}
		s.ready(t, 1, expire(now.Add(-time.Second)))
		s.ready(t, 2, expire(now.Add(-time.Hour)))
		s.ready(t, 3, expire(now))
		s.ready(t, 4, expire(now.Add(time.Hour)))
		s.ready(t, 5, expire(time.Time{}))
		due, err := s.Due(t.Context(), 10)
		require.NoError(t, err)
		assert.Equal(t, []session.Due{
			{ID: ID(2), At: now.Add(-time.Hour)}, {ID: ID(1), At: now.Add(-time.Second)}, {ID: ID(3), At: now},
		}, due)
		due, err = s.Due(t.Context(), 2)
		require.NoError(t, err)
		assert.Len(t, due, 2)
	},
	"pages go on until nothing is due": func(t *testing.T, s Subject) {
		now := s.now(t)
		for n := range 25 {
			s.create(t, n, func(r *session.Session) { r.CreatedAt = now.Add(-time.Hour) })
		}
		seen := map[string]bool{}
		for {
			page, err := s.Due(t.Context(), 10)
			require.NoError(t, err)
			if len(page) == 0 {
				break
			}
			for _, d := range page {
				require.False(t, seen[d.ID])
				seen[d.ID] = true
				require.NoError(t, s.Postpone(t.Context(), d.ID, now.Add(time.Hour)))
			}
		}
		assert.Len(t, seen, 25)
		CheckIndexes(t, s.Rows(t), s.Indexes(t), now, 2*time.Hour)
	},
	"a row that is due is claimed once": func(t *testing.T, s Subject) {
		now := s.now(t)
		row := s.create(t, 1, func(r *session.Session) { r.CreatedAt = now.Add(-time.Hour) })
		next := now.Add(time.Minute)
		claimed := make(chan bool)
		for range 8 {
			go func() {
				ok, err := s.Claim(t.Context(), row.ID, next.Add(time.Nanosecond))
				assert.NoError(t, err)
				claimed <- ok
			}()
		}
		won := 0
		for range 8 {
			if <-claimed {
				won++
			}
		}
		assert.Equal(t, 1, won)
		assert.Equal(t, next.Add(time.Second), s.Indexes(t).Due[row.ID])
	},
	"a row that is not due, or is none, is not claimed": func(t *testing.T, s Subject) {
		row := s.create(t, 1)
		before := s.Indexes(t).Due
		for _, id := range []string{row.ID, ID(2)} {
			ok, err := s.Claim(t.Context(), id, s.now(t).Add(time.Hour))
			require.NoError(t, err)
			assert.False(t, ok)
		}
		_, err := s.Claim(t.Context(), row.ID, time.Time{})
		require.Error(t, err)
		assert.Equal(t, before, s.Indexes(t).Due)
	},
	"a postponed row comes up at the full second after the time": func(t *testing.T, s Subject) {
		row := s.create(t, 1)
		at := s.now(t).Add(time.Minute)
		require.NoError(t, s.Postpone(t.Context(), row.ID, at.Add(time.Nanosecond)))
		assert.Equal(t, at.Add(time.Second), s.Indexes(t).Due[row.ID])
		require.NoError(t, s.Postpone(t.Context(), row.ID, at))
		assert.Equal(t, at, s.Indexes(t).Due[row.ID])
		require.Error(t, s.Postpone(t.Context(), row.ID, time.Time{}))
		assert.Equal(t, at, s.Indexes(t).Due[row.ID])
	},
	"a deletion is tried again later with each failure": func(t *testing.T, s Subject) {
		row := s.ready(t, 1)
		before := s.now(t)
		_, err := s.Update(t.Context(), row.ID, session.Delete(session.ReasonDeleted, time.Time{}))
		require.NoError(t, err)
		first := s.Indexes(t).Due[row.ID]
		assert.WithinRange(t, first, before.Add(session.RetryAfter(0)), s.now(t).Add(session.RetryAfter(0)+time.Second))
		_, err = s.Update(t.Context(), row.ID, count)
		require.NoError(t, err)
		assert.WithinRange(t, s.Indexes(t).Due[row.ID],
			before.Add(session.RetryAfter(1)), s.now(t).Add(session.RetryAfter(1)+time.Second))
		s.check(t)
	},
	"placeholders come oldest first, page by page, ties by id": func(t *testing.T, s Subject) {
		now := s.now(t)
		want := make([]session.Placeholder, 0, 12)
		for n := range 12 {
			at := now.Add(-time.Hour).Add(time.Duration(n/5) * time.Second)
			s.create(t, n, func(r *session.Session) { r.CreatedAt = at })
			want = append(want, session.Placeholder{ID: ID(n), CreatedAt: at})
		}
		s.ready(t, 99)
		for limit := 1; limit <= 13; limit++ {
			var got []session.Placeholder
			for after := (session.Placeholder{}); ; after = got[len(got)-1] {
				page, err := s.Creating(t.Context(), after, limit)
				require.NoError(t, err)
				require.LessOrEqual(t, len(page), limit)
				if len(page) == 0 {
					break
				}
				got = append(got, page...)
			}
			assert.Equal(t, want, got, "pages of %d", limit)
		}
	},
	"a placeholder of unknown age comes before all others": func(t *testing.T, s Subject) {
		s.create(t, 1)
		s.create(t, 2, func(r *session.Session) { r.CreatedAt = time.Time{} })
		page, err := s.Creating(t.Context(), session.Placeholder{}, 10)
		require.NoError(t, err)
		require.Len(t, page, 2)
		assert.Equal(t, ID(2), page[0].ID)
	},
}

var indexCases = map[string]func(*testing.T, Subject){
	"rows of a program that knows nothing of our indexes get their entries": func(t *testing.T, s Subject) {
		now := s.now(t)
		placeholder, ready := Reserved(1, now), Reserved(2, now.Add(-time.Hour))
		ready.State = session.StateReady
		unlimited := Reserved(3, now)
		unlimited.State, unlimited.ExpiresAt = session.StateReady, time.Time{}
		for _, row := range []session.Session{placeholder, ready, unlimited} {
			s.Put(t, row)
		}
		healed, err := s.Index(t.Context())
		require.NoError(t, err)
		assert.Equal(t, 4+3+2+3*6, healed, "and each is in six lists")
		s.check(t)
		x := s.Indexes(t)
		assert.WithinRange(t, x.Activity[ready.ID], now, s.now(t), "an unknown activity is not taken for an old one")
		healed, err = s.Index(t.Context())
		require.NoError(t, err)
		assert.Zero(t, healed)
	},
	"entries that are there keep their score": func(t *testing.T, s Subject) {
		row := s.ready(t, 1)
		at := s.now(t).Add(time.Hour)
		require.NoError(t, s.Postpone(t.Context(), row.ID, at))
		before := s.Indexes(t)
		healed, err := s.Index(t.Context())
		require.NoError(t, err)
		assert.Zero(t, healed)
		assert.Equal(t, before, s.Indexes(t))
	},
	"a row that another program took further loses what no longer fits": func(t *testing.T, s Subject) {
		row := s.create(t, 1)
		row.State, row.ExpiresAt = session.StateReady, time.Time{}
		s.Put(t, row)
		healed, err := s.Index(t.Context())
		require.NoError(t, err)
		assert.Equal(t, 4, healed, "the placeholder entry and the expiry, and the lists of both states")
		s.check(t)
	},
	"nothing breaks beside creates, updates and removals": func(t *testing.T, s Subject) {
		var all errgroup.Group
		now := s.now(t)
		for worker := range 4 {
			all.Go(func() error {
				for n := range 20 {
					if err := s.live(t.Context(), Reserved(worker*100+n, now), n%2 == 0); err != nil {
						return err
					}
				}
				return nil
			})
		}
		all.Go(func() error {
			for range 20 {
				if _, err := s.Index(t.Context()); err != nil {
					return err
				}
			}
			return nil
		})
		require.NoError(t, all.Wait())
		assert.Len(t, s.Rows(t), 40)
		s.check(t)
	},
}

// live creates the row, makes it ready, and removes it if asked to.
func (s Subject) live(ctx context.Context, row session.Session, remove bool) error {
	if _, err := s.Create(ctx, row); err != nil {
		return err
	}
	if _, err := s.Update(ctx, row.ID, session.Commit(row.Creator.Token, Ready(row, "10.0.0.7"))); err != nil {
		return err
	}
	if !remove {
		return nil
	}
	return s.Remove(ctx, row.ID, always)
}

var processCases = map[string]func(*testing.T, Subject){
	"who has beaten is alive, who has not is not": func(t *testing.T, s Subject) {
		require.NoError(t, s.Beat(t.Context(), "a"))
		require.NoError(t, s.Beat(t.Context(), "a"))
		alive, err := s.Alive(t.Context(), "a", "b")
		require.NoError(t, err)
		assert.Equal(t, map[string]bool{"a": true, "b": false}, alive)
		alive, err = s.Alive(t.Context())
		require.NoError(t, err)
		assert.Empty(t, alive)
	},
	"a store belongs to nobody until its installation is set": func(t *testing.T, s Subject) {
		for _, want := range []string{"", ID(1), ID(2)} {
			if want != "" {
				require.NoError(t, s.SetInstallation(t.Context(), want))
			}
			id, err := s.Installation(t.Context())
			require.NoError(t, err)
			assert.Equal(t, want, id)
		}
	},
	"it answers": func(t *testing.T, s Subject) {
		require.NoError(t, s.Ping(t.Context()))
	},
}
