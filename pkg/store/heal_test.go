package store

import (
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentcube/agentcube/pkg/session/sessiontest"
)

// oldRow is the ready row of an existing installation.
func oldRow(id string, created time.Time) string {
	return fmt.Sprintf(`{"kind":"Sandbox","sandboxId":"u","sandboxNamespace":"default","name":"o",`+
		`"entryPoints":[{"path":"/","protocol":"HTTP","endpoint":"10.0.0.7:8080"}],"sessionId":%q,`+
		`"createdAt":%q,"expiresAt":%q,"idleTimeout":"15m0s","status":"ready"}`,
		id, created.Format(time.RFC3339Nano), created.Add(8*time.Hour).Format(time.RFC3339Nano))
}

func TestTenThousandRowsOfAnExistingInstallationAreIndexed(t *testing.T) {
	t.Parallel()
	r := open(t, realConfig(t))
	const n = 10_000
	created := time.Now().Truncate(time.Second).UTC()
	_, err := r.client.Pipelined(t.Context(), func(p redis.Pipeliner) error {
		for i := range n {
			id := sessiontest.ID(i)
			p.Set(t.Context(), "session:"+id, oldRow(id, created), 0)
			p.ZAdd(t.Context(), "session:expiry", redis.Z{Score: float64(created.Add(8 * time.Hour).Unix()), Member: id})
			p.ZAdd(t.Context(), "session:last_activity", redis.Z{Score: float64(created.Unix()), Member: id})
		}
		return nil
	})
	require.NoError(t, err)
	healed, err := r.Index(t.Context())
	require.NoError(t, err)
	assert.Equal(t, n+3*n, healed, "they lack the due entry, and stand in no list: all, namespace, state")
	x := subject(r).Indexes(t)
	assert.Len(t, x.Due, n)
	assert.Empty(t, x.Creating)
	for _, at := range x.Due {
		require.Equal(t, created.Add(15*time.Minute+5*time.Second), at)
	}
	healed, err = r.Index(t.Context())
	require.NoError(t, err)
	assert.Zero(t, healed)
}

func TestEntriesWithoutARowAreDropped(t *testing.T) {
	t.Parallel()
	r, _ := openMini(t)
	r.options.Page = 10
	kept, err := r.Create(t.Context(), sessiontest.Reserved(1000, time.Now()))
	require.NoError(t, err)
	indexes := []string{"session:expiry", "session:last_activity", "agentcube:due", "agentcube:creating"}
	for i := range 25 {
		for _, key := range indexes {
			require.NoError(t, r.client.ZAdd(t.Context(), key, redis.Z{Score: 1, Member: sessiontest.ID(i)}).Err())
		}
	}
	healed, err := r.Index(t.Context())
	require.NoError(t, err)
	assert.Equal(t, 25*len(indexes), healed)
	for _, key := range indexes {
		assert.Len(t, index(t, r, key), 1, key)
	}
	sessiontest.CheckIndexes(t, rows(t, r), subject(r).Indexes(t), time.Now(), 0)
	assert.Contains(t, rows(t, r), kept.ID)
}

func TestARepairLosesToWhatHappenedSince(t *testing.T) {
	t.Parallel()
	r, _ := openMini(t)
	row, err := r.Create(t.Context(), sessiontest.Reserved(1, time.Now()))
	require.NoError(t, err)
	before := subject(r).Indexes(t)
	healed, err := r.heal(t.Context(), []repair{
		{id: row.ID, row: "another row"},
		{id: row.ID}, // taken for an orphan before it was created
		{id: sessiontest.ID(2), row: "removed", want: [4]string{"1", "1", "1", "1"}},
	})
	require.NoError(t, err)
	assert.Zero(t, healed)
	assert.Equal(t, before, subject(r).Indexes(t))
}

func TestRowsThatCannotBeReadArePassedOverAndReported(t *testing.T) {
	t.Parallel()
	r, _ := openMini(t)
	require.NoError(t, r.client.Set(t.Context(), "session:"+sessiontest.ID(1), "garbage", 0).Err())
	require.NoError(t, r.client.SAdd(t.Context(), "session:"+sessiontest.ID(2), "x").Err())
	require.NoError(t, r.client.Set(t.Context(), "session:somebody-elses", "garbage", 0).Err())
	id := sessiontest.ID(3)
	require.NoError(t, r.client.Set(t.Context(), "session:"+id, oldRow(id, time.Now()), 0).Err())
	healed, err := r.Index(t.Context())
	require.ErrorIs(t, err, ErrCorrupt)
	require.ErrorContains(t, err, "2 rows were passed over")
	assert.Equal(t, 3+3, healed, "the one that can be read gets expiry, activity and due, and three lists")

	for n, id := range []string{sessiontest.ID(1), sessiontest.ID(2)} {
		_, err := r.Get(t.Context(), id)
		require.ErrorIs(t, err, ErrCorrupt, n)
		require.ErrorContains(t, err, id)
		require.NotErrorIs(t, err, ErrNotFound)
		require.NotErrorIs(t, err, ErrUnavailable)
		for _, method := range []string{"Get", "Update", "End", "Remove"} {
			if id == sessiontest.ID(1) {
				require.ErrorIs(t, calls[method](t.Context(), r), ErrCorrupt, method)
			}
		}
	}
	assert.Len(t, r.client.Keys(t.Context(), "session:*").Val(), 4+2, "nothing was removed")
}

func TestIndexHealsAnActivityThatLiesAhead(t *testing.T) {
	t.Parallel()
	r, server := openMini(t)
	now := time.Date(2026, 3, 4, 5, 6, 7, 8, time.UTC)
	server.SetTime(now)
	id := sessiontest.ID(1)
	require.NoError(t, r.client.Set(t.Context(), "session:"+id, oldRow(id, now), 0).Err())
	require.NoError(t, r.client.ZAdd(t.Context(), "session:last_activity",
		redis.Z{Score: float64(now.Add(time.Hour).Unix()), Member: id}).Err())
	_, err := r.Index(t.Context())
	require.NoError(t, err)
	assert.Equal(t, now.Truncate(time.Second).Add(15*time.Minute+5*time.Second), index(t, r, "agentcube:due")[id])
}
