package sessiontest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentcube/agentcube/pkg/session"
)

// walk reads all pages of a query and returns the ids, in order. between, if
// not nil, runs between two pages.
func (s Subject) walk(t *testing.T, q session.Query, between func()) []string {
	t.Helper()
	ids := []string{}
	for {
		page, err := s.List(t.Context(), q)
		require.NoError(t, err)
		require.LessOrEqual(t, len(page.Sessions), q.Limit)
		for _, found := range page.Sessions {
			ids = append(ids, found.ID)
		}
		if page.Next == (session.Position{}) {
			return ids
		}
		require.Positive(t, page.Next.Compare(q.After), "a walk goes on")
		q.After = page.Next
		if between != nil {
			between()
		}
	}
}

// of makes sessions unlike each other.
func of(kind, namespace, name, owner string) func(*session.Session) {
	return func(s *session.Session) {
		s.Object.Namespace, s.OwnerID = namespace, owner
		s.Workload = session.WorkloadRef{Kind: kind, Namespace: namespace, Name: name}
	}
}

// createdAt places a session in the order.
func createdAt(at time.Time) func(*session.Session) {
	return func(s *session.Session) { s.CreatedAt = at }
}

func ids(numbers ...int) []string {
	all := []string{}
	for _, n := range numbers {
		all = append(all, ID(n))
	}
	return all
}

var listCases = map[string]func(*testing.T, Subject){
	"an empty store lists nothing": func(t *testing.T, s Subject) {
		page, err := s.List(t.Context(), session.Query{Limit: 10})
		require.NoError(t, err)
		assert.Empty(t, page)
	},
	"a page of nothing is a mistake": func(t *testing.T, s Subject) {
		_, err := s.List(t.Context(), session.Query{})
		require.ErrorIs(t, err, session.ErrInvalid)
	},
	"sessions come in the order of creation, to the nanosecond, then of ids, in pages of any size": func(t *testing.T, s Subject) {
		now := s.now(t)
		for n, at := range map[int]time.Time{
			1: now.Add(2), 2: now.Add(1), 3: now.Add(1), 4: now, 5: now.Add(-time.Hour), 6: now.Add(1), 7: now.Add(time.Second),
		} {
			s.create(t, n, createdAt(at))
		}
		s.create(t, 8, createdAt(time.Time{}))
		s.create(t, 9, createdAt(time.Date(1969, 7, 20, 20, 17, 40, 0, time.UTC)))
		for limit := 1; limit <= 10; limit++ {
			assert.Equal(t, ids(8, 9, 5, 4, 2, 3, 6, 1, 7), s.walk(t, session.Query{Limit: limit}, nil), "pages of %d", limit)
		}
		page, err := s.List(t.Context(), session.Query{Limit: 9})
		require.NoError(t, err)
		assert.Zero(t, page.Next, "nothing follows, and the page says so")
	},
	"a session is listed as it is read, with its last activity": func(t *testing.T, s Subject) {
		row := s.ready(t, 1)
		at := s.now(t).Add(10 * time.Second)
		require.NoError(t, s.Touch(t.Context(), map[string]time.Time{row.ID: at}))
		page, err := s.List(t.Context(), session.Query{Limit: 1})
		require.NoError(t, err)
		assert.Equal(t, []session.Listed{{Session: row, LastActivity: at}}, page.Sessions)
	},
	"activity from a clock far ahead counts as now": func(t *testing.T, s Subject) {
		row := s.ready(t, 1)
		before := s.now(t)
		require.NoError(t, s.Touch(t.Context(), map[string]time.Time{row.ID: before.Add(time.Hour)}))
		page, err := s.List(t.Context(), session.Query{Limit: 1})
		require.NoError(t, err)
		require.Len(t, page.Sessions, 1)
		assert.WithinRange(t, page.Sessions[0].LastActivity, before, s.now(t))
	},
	"each filter, and all together, let pass what they name": func(t *testing.T, s Subject) {
		s.ready(t, 1, of(session.KindAgentRuntime, "red", "echo", "owner-a"))
		s.ready(t, 2, of(session.KindCodeInterpreter, "red", "echo", "owner-b"))
		s.create(t, 3, of(session.KindAgentRuntime, "blue", "echo", "owner-a"))
		s.ready(t, 4, of(session.KindAgentRuntime, "blue", "other", ""))
		s.ready(t, 5, of("", "blue", "", "owner-a"))
		for what, c := range map[string]struct {
			query session.Query
			want  []string
		}{
			"none":           {session.Query{}, ids(1, 2, 3, 4, 5)},
			"namespace":      {session.Query{Namespace: "blue"}, ids(3, 4, 5)},
			"kind":           {session.Query{Kind: session.KindAgentRuntime}, ids(1, 3, 4)},
			"name":           {session.Query{Name: "echo"}, ids(1, 2, 3)},
			"state":          {session.Query{State: session.StateReady}, ids(1, 2, 4, 5)},
			"owner":          {session.Query{Owner: "owner-a"}, ids(1, 3, 5)},
			"two":            {session.Query{Owner: "owner-a", State: session.StateReady}, ids(1, 5)},
			"nobody's owner": {session.Query{Owner: "owner-c"}, ids()},
			"nothing common": {session.Query{Kind: session.KindCodeInterpreter, Namespace: "blue"}, ids()},
			"all": {session.Query{
				Namespace: "red", Kind: session.KindCodeInterpreter, Name: "echo", State: session.StateReady, Owner: "owner-b",
			}, ids(2)},
		} {
			for limit := 1; limit <= 6; limit++ {
				c.query.Limit = limit
				assert.Equal(t, c.want, s.walk(t, c.query, nil), "%s, pages of %d", what, limit)
			}
		}
	},
	"a session is in the list of its state, whatever changes it": func(t *testing.T, s Subject) {
		states := func(want session.State) {
			t.Helper()
			counts, err := s.States(t.Context())
			require.NoError(t, err)
			for _, state := range session.States {
				n := 0
				if state == want {
					n = 1
				}
				assert.Equal(t, n, counts[state], state)
				assert.Len(t, s.walk(t, session.Query{State: state, Limit: 1}, nil), n, state)
			}
			s.check(t)
		}
		states("")
		row := s.create(t, 1)
		states(session.StateCreating)
		_, err := s.Update(t.Context(), row.ID, session.Commit(row.Creator.Token, Ready(row, "10.0.0.7")))
		require.NoError(t, err)
		states(session.StateReady)
		for _, state := range []session.State{session.StateNotReady, session.StateSuspended} {
			_, err = s.Update(t.Context(), row.ID, func(s *session.Session) error { s.State = state; return nil })
			require.NoError(t, err)
			states(state)
		}
		_, err = s.End(t.Context(), row.ID, time.Time{}, session.Delete(session.ReasonDeleted, time.Time{}))
		require.NoError(t, err)
		states(session.StateDeleting)
		require.NoError(t, s.Remove(t.Context(), row.ID, always))
		states("")
		assert.Empty(t, s.Indexes(t).Lists, "nothing is left of empty lists")
	},
	"a change of what sessions are listed by moves the session": func(t *testing.T, s Subject) {
		row := s.ready(t, 1, of(session.KindAgentRuntime, "red", "echo", "owner-a"))
		_, err := s.Update(t.Context(), row.ID, func(s *session.Session) error {
			of(session.KindCodeInterpreter, "blue", "other", "")(s)
			s.CreatedAt = s.CreatedAt.Add(time.Second)
			return nil
		})
		require.NoError(t, err)
		s.check(t)
	},
	"a walk beside changes finds all that lived throughout, and nothing twice": func(t *testing.T, s Subject) {
		now := s.now(t)
		for n := range 60 {
			s.ready(t, n, createdAt(now.Add(time.Duration(n/3)*time.Second)))
		}
		gone := 0
		next := 60
		found := s.walk(t, session.Query{State: session.StateReady, Limit: 7}, func() {
			for range 3 { // from the front: what was listed, what a page begins with, what comes
				require.NoError(t, s.Remove(t.Context(), ID(gone), always))
				gone += 2
			}
			s.ready(t, next, createdAt(now.Add(time.Duration(next%20)*time.Second)))
			next++
		})
		seen := map[string]bool{}
		for _, id := range found {
			assert.False(t, seen[id], "twice: %s", id)
			seen[id] = true
		}
		for n := 1; n < 60; n += 2 {
			assert.True(t, seen[ID(n)], "missing: %d", n)
		}
	},
	"rows without entries are listed once they are indexed": func(t *testing.T, s Subject) {
		row := Reserved(1, s.now(t))
		row.Workload, row.OwnerID, row.State = session.WorkloadRef{}, "", session.StateReady
		s.Put(t, row)
		healed, err := s.Index(t.Context())
		require.NoError(t, err)
		assert.Equal(t, 3+3, healed, "expiry, activity and due; all, its namespace and its state")
		s.check(t)
		assert.Equal(t, ids(1), s.walk(t, session.Query{Namespace: "default", State: session.StateReady, Limit: 1}, nil))
		assert.Empty(t, s.walk(t, session.Query{Kind: session.KindAgentRuntime, Limit: 1}, nil))
	},
	"an entry that does not fit its row is passed over, and healed": func(t *testing.T, s Subject) {
		row := s.ready(t, 1)
		s.ready(t, 2)
		row.State, row.OwnerID = session.StateNotReady, "another"
		s.Put(t, row)
		for limit := 1; limit <= 2; limit++ {
			assert.Equal(t, ids(2), s.walk(t, session.Query{State: session.StateReady, Limit: limit}, nil))
			assert.Equal(t, ids(2), s.walk(t, session.Query{Owner: "owner", Limit: limit}, nil))
		}
		healed, err := s.Index(t.Context())
		require.NoError(t, err)
		assert.Equal(t, 4, healed, "two lists to leave, two to join")
		s.check(t)
		assert.Equal(t, ids(1), s.walk(t, session.Query{State: session.StateNotReady, Owner: "another", Limit: 1}, nil))
	},
	"an owner may have any name": func(t *testing.T, s Subject) {
		for n, owner := range []string{"a:b", "*", " ", "\x00", "ü", "a\nb"} {
			s.create(t, n, of(session.KindAgentRuntime, "default", "echo", owner))
			assert.Equal(t, ids(n), s.walk(t, session.Query{Owner: owner, Limit: 5}, nil), "%q", owner)
		}
		s.check(t)
	},
}
