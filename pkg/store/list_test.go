package store

import (
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/agentcube/agentcube/pkg/session"
	"github.com/agentcube/agentcube/pkg/session/sessiontest"
)

func TestMembersAreInTheOrderOfTheirPlaces(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 3, 4, 5, 6, 7, 890_123_456, time.UTC)
	assert.Equal(t, "000000000"+"1"+"00000010"+sessiontest.ID(1),
		member(session.Position{CreatedAt: time.Date(0, 1, 1, 0, 0, 1, 16, time.UTC), ID: sessiontest.ID(1)}))
	places := []session.Position{
		{CreatedAt: time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC), ID: sessiontest.ID(1)},
		{ID: sessiontest.ID(1)},
		{CreatedAt: time.Unix(-1, 999_999_999).UTC(), ID: sessiontest.ID(1)},
		{CreatedAt: time.Unix(0, 0).UTC(), ID: sessiontest.ID(1)},
		{CreatedAt: at, ID: sessiontest.ID(1)},
		{CreatedAt: at, ID: sessiontest.ID(2)},
		{CreatedAt: at.Add(1), ID: sessiontest.ID(1)},
		{CreatedAt: at.Add(time.Second), ID: sessiontest.ID(1)},
		{CreatedAt: time.Date(9999, 12, 31, 23, 59, 59, 999_999_999, time.UTC), ID: sessiontest.ID(1)},
	}
	for i, place := range places {
		got, ok := position(member(place))
		require.True(t, ok, place)
		assert.Equal(t, place, got)
		if i > 0 {
			assert.Less(t, member(places[i-1]), member(place))
			assert.Negative(t, places[i-1].Compare(place))
		}
	}
	good := member(places[4])
	for _, bad := range []any{
		nil, 7, "", good[1:], good + "0", "+" + good[1:], "A" + good[1:], good[:10] + "ffffffff" + good[18:], good[:18] + "x" + good[19:],
	} {
		_, ok := position(bad)
		assert.False(t, ok, bad)
	}
}

// stuff puts entries without a row into lists, at places that are before those
// of all sessions.
func stuff(t *testing.T, r *Redis, n int, names ...string) {
	t.Helper()
	for first := 0; first < n; first += 10_000 {
		var members []redis.Z
		for i := first; i < min(n, first+10_000); i++ {
			members = append(members, redis.Z{Member: member(session.Position{CreatedAt: time.Unix(int64(i), 0), ID: sessiontest.ID(1_000_000 + i)})})
		}
		for _, name := range names {
			require.NoError(t, r.client.ZAdd(t.Context(), name, members...).Err())
		}
	}
}

func TestTheWorkOfAPageIsBounded(t *testing.T) {
	t.Parallel()
	const all, ready = "agentcube:list", "agentcube:list:state:ready"
	for what, c := range map[string]struct {
		query session.Query
		stale int
		lists []string
		// pages until the one session is found: each passes over so many entries.
		pages int
	}{
		"entries of which none is in the other list": {
			session.Query{Kind: session.KindAgentRuntime, State: session.StateCreating, Limit: 10},
			2*listMembers + 100,
			[]string{"agentcube:list:kind:AgentRuntime"},
			1,
		},
		"entries whose rows are gone": {session.Query{Limit: 10}, 2 * listRows, []string{all}, 2},
		"both lists are long":         {session.Query{Namespace: "long", State: session.StateReady, Limit: 10}, 0, []string{ready}, 0},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			r := open(t, realConfig(t))
			row, err := r.Create(t.Context(), sessiontest.Reserved(1, time.Now()))
			require.NoError(t, err)
			stuff(t, r, c.stale, c.lists...)
			if c.pages == 0 { // entries of other sessions, so that the intersection is empty
				stuff(t, r, listMembers+1000, ready)
				long := "agentcube:list:namespace:long"
				_, err := r.client.Pipelined(t.Context(), func(p redis.Pipeliner) error {
					for i := range listMembers + 1000 {
						p.ZAdd(t.Context(), long, redis.Z{Member: member(session.Position{CreatedAt: time.Unix(int64(i), 1), ID: sessiontest.ID(i)})})
					}
					return nil
				})
				require.NoError(t, err)
				page, err := r.List(t.Context(), c.query)
				require.NoError(t, err)
				assert.Empty(t, page.Sessions)
				assert.NotZero(t, page.Next, "it stops in the middle, and says where")
				c.query.After = page.Next
				page, err = r.List(t.Context(), c.query)
				require.NoError(t, err)
				assert.Empty(t, page)
				return
			}
			for n := 1; ; n++ {
				page, err := r.List(t.Context(), c.query)
				require.NoError(t, err)
				if len(page.Sessions) > 0 {
					assert.Equal(t, row.ID, page.Sessions[0].ID)
					assert.Equal(t, c.pages, n)
					return
				}
				require.NotZero(t, page.Next)
				c.query.After = page.Next
			}
		})
	}
}

func TestEntriesOfListsThatNoRowWantsAreDropped(t *testing.T) {
	t.Parallel()
	r := open(t, realConfig(t)) // the embedded one skips members when it is changed while it is scanned
	r.options.Page = 50
	row, err := r.Create(t.Context(), sessiontest.Reserved(1, time.Now()))
	require.NoError(t, err)
	const all, ready, gone = "agentcube:list", "agentcube:list:state:ready", "agentcube:list:namespace:gone"
	stuff(t, r, 300, all, ready, gone) // more than a list that is scanned in one go
	own := row.Position()
	for name, m := range map[string]string{
		ready:                          member(own),
		"agentcube:list:owner:another": member(own),
		all:                            member(session.Position{CreatedAt: own.CreatedAt.Add(1), ID: own.ID}),
		"agentcube:list:kind:":         "no member at all",
	} {
		require.NoError(t, r.client.ZAdd(t.Context(), name, redis.Z{Member: m}).Err())
	}
	healed, err := r.Index(t.Context())
	require.NoError(t, err)
	assert.Equal(t, 3*300+4, healed)
	sessiontest.CheckIndexes(t, rows(t, r), subject(r).Indexes(t), time.Now(), 0)
	assert.Zero(t, r.client.Exists(t.Context(), gone, "agentcube:list:kind:").Val(), "an empty list is no key")
	healed, err = r.Index(t.Context())
	require.NoError(t, err)
	assert.Zero(t, healed)
}

func TestARepairOfListsLosesToWhatHappenedSince(t *testing.T) {
	t.Parallel()
	r, _ := openMini(t)
	row, err := r.Create(t.Context(), sessiontest.Reserved(1, time.Now()))
	require.NoError(t, err)
	before := subject(r).Indexes(t)
	m := member(row.Position())
	changed, err := r.relist(t.Context(), dropEntries, []relisting{
		{id: row.ID, row: "another row", member: m, lists: []string{"agentcube:list"}},
		{id: row.ID, member: m, lists: []string{"agentcube:list"}}, // taken for an orphan before it was created
	})
	require.NoError(t, err)
	assert.Zero(t, changed)
	changed, err = r.relist(t.Context(), addEntries, []relisting{
		{id: sessiontest.ID(2), row: "removed", member: "x", lists: []string{"agentcube:list"}},
	})
	require.NoError(t, err)
	assert.Zero(t, changed)
	assert.Equal(t, before, subject(r).Indexes(t))
}

func TestARowThatCannotBeReadKeepsItsEntriesAndIsNotListed(t *testing.T) {
	t.Parallel()
	r, _ := openMini(t)
	for n := range 3 {
		_, err := r.Create(t.Context(), sessiontest.Reserved(n, time.Now()))
		require.NoError(t, err)
	}
	require.NoError(t, r.client.Set(t.Context(), "session:"+sessiontest.ID(0), "garbage", 0).Err())
	require.NoError(t, r.client.Del(t.Context(), "session:"+sessiontest.ID(1)).Err())
	require.NoError(t, r.client.SAdd(t.Context(), "session:"+sessiontest.ID(1), "x").Err())
	before := lists(t, r)
	_, err := r.Index(t.Context())
	require.ErrorIs(t, err, ErrCorrupt)
	assert.Equal(t, before, lists(t, r))
	page, err := r.List(t.Context(), session.Query{Limit: 3})
	require.NoError(t, err)
	require.Len(t, page.Sessions, 1)
	assert.Equal(t, sessiontest.ID(2), page.Sessions[0].ID)
}

func TestAListOfTenThousandBesideChangesIsWhole(t *testing.T) {
	t.Parallel()
	r := open(t, realConfig(t))
	const n, limit = 10_000, 500
	created := time.Now().Add(-time.Hour).UTC()
	row := func(i int) session.Session {
		s := sessiontest.Reserved(i, created.Add(time.Duration(i/7)*time.Microsecond)) // many of one moment
		s.State = session.StateReady
		return s
	}
	var loading errgroup.Group
	for w := range 8 {
		loading.Go(func() error {
			for i := w; i < n; i += 8 {
				if _, err := r.Create(t.Context(), row(i)); err != nil {
					return err
				}
			}
			return nil
		})
	}
	require.NoError(t, loading.Wait())

	// Of ten sessions one is removed, one changes its state back and forth, and
	// eight are written without a change of what they are listed by; as many
	// are created. So it goes on until every query was walked.
	done := make(chan struct{})
	var changing errgroup.Group
	for w := range 2 {
		changing.Go(func() error {
			for i := w; ; i = (i + 2) % n {
				select {
				case <-done:
					return nil
				default:
				}
				if err := disturb(t, r, row, i, n); err != nil {
					return fmt.Errorf("session %d: %w", i, err)
				}
			}
		})
	}
	for _, q := range []session.Query{
		{},
		{State: session.StateReady},
		{Namespace: "default", Kind: session.KindAgentRuntime, Name: "echo", Owner: "owner", State: session.StateReady},
	} {
		q.Limit = limit
		seen := map[string]bool{}
		last := session.Position{}
		for {
			page, err := r.List(t.Context(), q)
			require.NoError(t, err)
			for _, s := range page.Sessions {
				require.Positive(t, s.Position().Compare(last), "out of order, or twice: %s", s.ID)
				last = s.Position()
				seen[s.ID] = true
			}
			if page.Next == (session.Position{}) {
				break
			}
			q.After = page.Next
		}
		for i := range n {
			if i%10 > 1 {
				require.True(t, seen[sessiontest.ID(i)], "session %d lived all the time and is missing", i)
			}
		}
	}
	close(done)
	require.NoError(t, changing.Wait())
	sessiontest.CheckIndexes(t, rows(t, r), subject(r).Indexes(t), time.Now(), time.Hour)
}

// disturb does to session i what becomes of it.
func disturb(t *testing.T, r *Redis, row func(int) session.Session, i, n int) error {
	t.Helper()
	switch i % 10 {
	case 0:
		if err := r.Remove(t.Context(), sessiontest.ID(i), func(session.Session) error { return nil }); err != nil {
			return nil //nolint:nilerr // it was removed when its turn came before
		}
		_, err := r.Create(t.Context(), row(n+i))
		return err
	case 1:
		_, err := r.Update(t.Context(), sessiontest.ID(i), func(s *session.Session) error {
			if s.State == session.StateReady {
				s.State = session.StateNotReady
			} else {
				s.State = session.StateReady
			}
			return nil
		})
		return err
	default:
		_, err := r.Update(t.Context(), sessiontest.ID(i), func(s *session.Session) error {
			s.Generation++
			return nil
		})
		return err
	}
}
