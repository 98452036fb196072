package store

import (
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentcube/agentcube/pkg/session"
	"github.com/agentcube/agentcube/pkg/session/sessiontest"
)

// keyed writes a session with the key k.
func keyed(t *testing.T, r *Redis, n int, ready bool) session.Session {
	t.Helper()
	row := sessiontest.Reserved(n, time.Now())
	sessiontest.Keyed("k", "b")(&row)
	row, err := r.Create(t.Context(), row)
	require.NoError(t, err)
	if ready {
		row, err = r.Update(t.Context(), row.ID, session.Commit(row.Creator.Token, sessiontest.Ready(row, "10.0.0.7")))
		require.NoError(t, err)
	}
	return row
}

func keyIsFree(t *testing.T, r *Redis) {
	t.Helper()
	_, err := r.KeyHolder(t.Context(), "k")
	require.ErrorIs(t, err, ErrNotFound)
}

func TestAKeyLastsAsLongAsItsSessionAndAnHour(t *testing.T) {
	t.Parallel()
	r, server := openMini(t)
	row := keyed(t, r, 1, true)
	assert.Zero(t, server.TTL("agentcube:key:k"), "no end while there is a row")
	server.FastForward(1000 * time.Hour)
	holder, err := r.KeyHolder(t.Context(), "k")
	require.NoError(t, err)
	assert.Equal(t, row.ID, holder.ID)

	require.NoError(t, r.Remove(t.Context(), row.ID, func(session.Session) error { return nil }))
	server.FastForward(time.Hour - time.Millisecond)
	_, err = r.KeyHolder(t.Context(), "k")
	require.NoError(t, err)
	server.FastForward(time.Millisecond)
	keyIsFree(t, r)
	assert.Empty(t, server.Keys(), "nothing is left")
}

func TestTheKeyOfARowThatSomebodyRemovedEndsAnHourAfterItIsFound(t *testing.T) {
	t.Parallel()
	r, server := openMini(t)
	r.options.Page = 1
	row := keyed(t, r, 1, true)
	healed, err := r.Index(t.Context())
	require.NoError(t, err)
	require.Zero(t, healed)
	server.Del("session:" + row.ID)
	_, err = r.Index(t.Context())
	require.NoError(t, err)
	assert.Equal(t, time.Hour, server.TTL("agentcube:key:k"))
	server.FastForward(10 * time.Minute)
	healed, err = r.Index(t.Context())
	require.NoError(t, err)
	assert.Zero(t, healed)
	assert.Equal(t, 50*time.Minute, server.TTL("agentcube:key:k"), "it is not put off")
}

func TestARecordThatNamesNoSession(t *testing.T) {
	t.Parallel()
	for what, record := range map[string]string{
		"nothing":         "",
		"an id alone":     sessiontest.ID(1),
		"no body":         sessiontest.ID(1) + " ",
		"no id":           strings.Repeat("x", session.IDLength) + " b",
		"another divider": sessiontest.ID(1) + "\tb",
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			r, server := openMini(t)
			require.NoError(t, server.Set("agentcube:key:k", record))
			_, err := r.KeyHolder(t.Context(), "k")
			require.ErrorIs(t, err, ErrCorrupt)
			_, err = r.Index(t.Context())
			require.NoError(t, err)
			assert.Equal(t, time.Hour, server.TTL("agentcube:key:k"), "it does not stay for ever")
		})
	}
}

func TestAMendedKeyLosesToWhatHappenedSince(t *testing.T) {
	t.Parallel()
	cases := map[string]func(t *testing.T, r *Redis, server *miniredis.Miniredis, page []indexedRow){
		"a create that failed meanwhile does not get its key back": func(t *testing.T, r *Redis, _ *miniredis.Miniredis, page []indexedRow) {
			_, err := r.Update(t.Context(), page[0].id, session.Delete(session.ReasonFailed, time.Time{}))
			require.NoError(t, err)
			n, err := r.restoreKeys(t.Context(), page)
			require.NoError(t, err)
			assert.Zero(t, n)
			keyIsFree(t, r)
		},
		"a key that another has taken meanwhile stays with that": func(t *testing.T, r *Redis, server *miniredis.Miniredis, page []indexedRow) {
			server.Del("agentcube:key:k")
			other := keyed(t, r, 2, false)
			n, err := r.restoreKeys(t.Context(), page)
			require.NoError(t, err)
			assert.Zero(t, n)
			holder, err := r.KeyHolder(t.Context(), "k")
			require.NoError(t, err)
			assert.Equal(t, other.ID, holder.ID)
		},
	}
	for behaviour, check := range cases {
		t.Run(behaviour, func(t *testing.T) {
			t.Parallel()
			r, server := openMini(t)
			row := keyed(t, r, 1, false)
			page, err := r.indexed(t.Context(), []string{"session:" + row.ID})
			require.NoError(t, err)
			check(t, r, server, page)
		})
	}
}
