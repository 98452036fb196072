package store

import (
	"context"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentcube/agentcube/pkg/session"
	"github.com/agentcube/agentcube/pkg/session/sessiontest"
)

func TestKeysAreThoseOfExistingInstallations(t *testing.T) {
	t.Parallel()
	r, server := openMini(t)
	row, err := r.Create(t.Context(), sessiontest.Reserved(1, time.Unix(1796072044, 410533519)))
	require.NoError(t, err)
	require.NoError(t, r.Beat(t.Context(), "p"))
	require.NoError(t, r.SetInstallation(t.Context(), "i"))
	assert.ElementsMatch(t, []string{
		"session:" + row.ID, "session:expiry", "session:last_activity",
		"agentcube:due", "agentcube:creating", "agentcube:process:p", "agentcube:installation",
		"agentcube:list", "agentcube:list:namespace:default", "agentcube:list:kind:AgentRuntime", "agentcube:list:name:echo",
		"agentcube:list:state:creating", "agentcube:list:owner:4c1029697ee358715d3a14a2add817c4",
	}, server.Keys())
	scores := map[string]float64{
		"session:expiry": 1796072044 + 8*3600 + 1, "session:last_activity": 1796072044,
		"agentcube:due": 1796072044 + 120 + 1, "agentcube:creating": 1796072044 + 1,
	}
	for key, want := range scores {
		got, err := server.ZScore(key, row.ID)
		require.NoError(t, err)
		assert.InDelta(t, want, got, 0, key)
	}
	assert.Zero(t, server.TTL("session:"+row.ID), "a row has no TTL")
}

func TestAHeartbeatLastsTwentySeconds(t *testing.T) {
	t.Parallel()
	r, server := openMini(t)
	require.NoError(t, r.Beat(t.Context(), "p"))
	server.FastForward(20*time.Second - time.Millisecond)
	alive, err := r.Alive(t.Context(), "p")
	require.NoError(t, err)
	assert.True(t, alive["p"])
	require.NoError(t, r.Beat(t.Context(), "p"))
	server.FastForward(20 * time.Second)
	alive, err = r.Alive(t.Context(), "p")
	require.NoError(t, err)
	assert.False(t, alive["p"])
}

func TestTheStoresClockDecides(t *testing.T) {
	t.Parallel()
	r, server := openMini(t)
	now := time.Date(2026, 3, 4, 5, 6, 7, 890_000_000, time.UTC)
	server.SetTime(now)
	got, err := r.Now(t.Context())
	require.NoError(t, err)
	assert.Equal(t, now, got)

	row, err := r.Create(t.Context(), sessiontest.Reserved(1, now.Truncate(time.Second)))
	require.NoError(t, err)
	server.SetTime(now.Add(119 * time.Second))
	due, err := r.Due(t.Context(), 10)
	require.NoError(t, err)
	assert.Empty(t, due)
	server.SetTime(now.Truncate(time.Second).Add(120 * time.Second))
	due, err = r.Due(t.Context(), 10)
	require.NoError(t, err)
	assert.Equal(t, []Due{{ID: row.ID, At: now.Truncate(time.Second).Add(120 * time.Second)}}, due)

	_, err = r.Update(t.Context(), row.ID, session.Commit(row.Creator.Token, sessiontest.Ready(row, "10.0.0.7")))
	require.NoError(t, err)
	last, err := r.LastActivity(t.Context(), row.ID)
	require.NoError(t, err)
	assert.Equal(t, now.Truncate(time.Second).Add(120*time.Second), last)
}

func TestActivityAheadIsBelievedUpToTheSkew(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	for ahead, want := range map[time.Duration]time.Time{
		59 * time.Second: now.Add(59 * time.Second),
		60 * time.Second: now.Add(60 * time.Second),
		61 * time.Second: now,
	} {
		t.Run(ahead.String(), func(t *testing.T) {
			t.Parallel()
			r, server := openMini(t)
			server.SetTime(now)
			row, err := r.Create(t.Context(), sessiontest.Reserved(1, now))
			require.NoError(t, err)
			_, err = r.Update(t.Context(), row.ID, session.Commit(row.Creator.Token, sessiontest.Ready(row, "10.0.0.7")))
			require.NoError(t, err)
			require.NoError(t, r.Touch(t.Context(), map[string]time.Time{row.ID: now.Add(ahead)}))
			_, err = r.Update(t.Context(), row.ID, func(s *session.Session) error { s.Message = "m"; return nil })
			require.NoError(t, err)
			assert.Equal(t, want.Add(15*time.Minute+5*time.Second), index(t, r, "agentcube:due")[row.ID])
			last, err := r.LastActivity(t.Context(), row.ID)
			require.NoError(t, err)
			assert.Equal(t, want, last)
		})
	}
}

func TestAnEndComparesSeconds(t *testing.T) {
	t.Parallel()
	seen := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	cases := map[string]struct {
		idleSince time.Time
		want      error
	}{
		"the activity that was seen":         {seen, nil},
		"one within the same second":         {seen.Add(999 * time.Millisecond), nil},
		"a newer one than there is":          {seen.Add(time.Second), nil},
		"an older one, by a second":          {seen.Add(-time.Second), ErrStale},
		"an older one, by less":              {seen.Add(-time.Nanosecond), ErrStale},
		"none, since it does not rest on it": {time.Time{}, nil},
	}
	for what, c := range cases {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			r, _ := openMini(t)
			row, err := r.Create(t.Context(), sessiontest.Reserved(1, seen))
			require.NoError(t, err)
			_, err = r.End(t.Context(), row.ID, c.idleSince, session.Delete(session.ReasonIdle, time.Time{}))
			require.ErrorIs(t, err, c.want)
		})
	}
}

func TestAnUpdateThatAlwaysLosesGivesUp(t *testing.T) {
	t.Parallel()
	r, _ := openMini(t)
	row, err := r.Create(t.Context(), sessiontest.Reserved(1, time.Now()))
	require.NoError(t, err)
	tries := 0
	_, err = r.Update(t.Context(), row.ID, func(s *session.Session) error {
		tries++
		other := *s
		other.Revision += 1000
		put(t, r, other)
		s.Attempts++
		return nil
	})
	require.ErrorIs(t, err, ErrUnavailable)
	assert.Equal(t, conflicts, tries)
}

func TestLeftoverEntriesOfAnAbsentRowGoWithItsRemoval(t *testing.T) {
	t.Parallel()
	r, _ := openMini(t)
	for _, key := range r.keys.indexes() {
		require.NoError(t, r.client.ZAdd(t.Context(), key, redis.Z{Score: 1, Member: sessiontest.ID(1)}).Err())
	}
	err := r.Remove(t.Context(), sessiontest.ID(1), func(session.Session) error { return nil })
	require.ErrorIs(t, err, ErrNotFound)
	for _, key := range r.keys.indexes() {
		assert.Empty(t, index(t, r, key), key)
	}
}

func TestRecordedRowsAreServedChangedAndRemoved(t *testing.T) {
	t.Parallel()
	for _, recorded := range recordedRows(t) {
		t.Run(recorded.Name, func(t *testing.T) {
			t.Parallel()
			r, _ := openMini(t)
			id := strings.TrimPrefix(recorded.Key, "session:")
			require.NoError(t, r.client.Set(t.Context(), recorded.Key, recorded.Value, 0).Err())
			_, err := r.Index(t.Context())
			require.NoError(t, err)
			got, err := r.Get(t.Context(), id)
			require.NoError(t, err)
			assert.Zero(t, got.Revision)
			got, err = r.Update(t.Context(), id, session.Delete(session.ReasonDeleted, time.Time{}))
			require.NoError(t, err)
			assert.Equal(t, int64(1), got.Revision)
			row, err := r.client.Get(t.Context(), recorded.Key).Result()
			require.NoError(t, err)
			theirs := names(t, recorded.Value)
			assert.Equal(t, theirs, names(t, row)[:len(theirs)])
			assert.Contains(t, row, `"entryPoints":null`)
			sessiontest.CheckIndexes(t, rows(t, r), subject(r).Indexes(t), time.Now(), 0)
			require.NoError(t, r.Remove(t.Context(), id, session.Names(got.Object)))
			assert.Empty(t, r.client.Keys(t.Context(), "session:*").Val())
		})
	}
}

func TestScoresAreFullSeconds(t *testing.T) {
	t.Parallel()
	at := time.Unix(100, 0)
	assert.Empty(t, ceil(time.Time{}))
	assert.Equal(t, "100", ceil(at))
	assert.Equal(t, "101", ceil(at.Add(1)))
	assert.Equal(t, "100", ceil(at.Add(-1)))
	assert.Equal(t, "100", floor(at.Add(time.Second-1)))
	assert.Equal(t, "99", floor(at.Add(-1)))
}

func TestAScoreIsATimeWhateverItIs(t *testing.T) {
	t.Parallel()
	cases := map[string]time.Time{
		"1796072044":   time.Unix(1796072044, 0).UTC(),
		"1.5":          time.Unix(1, 500_000_000).UTC(),
		"0":            time.Unix(0, 0).UTC(),
		"-1":           time.Unix(-1, 0).UTC(),
		"inf":          time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC),
		"-inf":         {},
		"253402300799": time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC),
		"253402300800": time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC),
	}
	for score, want := range cases {
		got, err := parseScore(score)
		require.NoError(t, err)
		assert.True(t, want.Equal(got), "%s: %s", score, got)
	}
	for _, score := range []string{"", "soon", "nan"} {
		_, err := parseScore(score)
		require.ErrorIs(t, err, ErrCorrupt, score)
	}
	assert.Equal(t, moment(math.Inf(1)), moment(maxSeconds))
}

func TestAClockThatMakesNoSenseIsAnError(t *testing.T) {
	t.Parallel()
	now, err := clockOf([]any{"7", "8"})
	require.NoError(t, err)
	assert.Equal(t, time.Unix(7, 8000).UTC(), now)
	for _, answer := range []any{nil, "7", []any{"7"}, []any{"x", "8"}, []any{"7", "x"}} {
		_, err := clockOf(answer)
		require.ErrorIs(t, err, ErrCorrupt)
	}
}

func TestErrorsSayWhatWasBeingDone(t *testing.T) {
	t.Parallel()
	r, _ := openMini(t)
	_, err := r.Get(t.Context(), sessiontest.ID(1))
	require.EqualError(t, err, "reading session "+sessiontest.ID(1)+": session not found")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	assert.EqualError(t, r.Ping(ctx), "pinging: context canceled")
}
