package store

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentcube/agentcube/pkg/session"
	"github.com/agentcube/agentcube/pkg/session/sessiontest"
)

func TestAScanTellsOfRowsThatCannotBeRead(t *testing.T) {
	t.Parallel()
	cases := map[string]func(*testing.T, *Redis, string){
		"no JSON":      func(t *testing.T, r *Redis, key string) { set(t, r, key, "{") },
		"null":         func(t *testing.T, r *Redis, key string) { set(t, r, key, "null") },
		"another's id": func(t *testing.T, r *Redis, key string) { set(t, r, key, `{"sessionId":"x"}`) },
		"no object":    func(t *testing.T, r *Redis, key string) { set(t, r, key, `{"kind":"Sandbox","sandboxNamespace":"a"}`) },
		"no string": func(t *testing.T, r *Redis, key string) {
			require.NoError(t, r.client.RPush(t.Context(), key, "x").Err())
		},
	}
	for what, write := range cases {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			r, _ := openMini(t)
			write(t, r, "session:"+sessiontest.ID(1))
			rows, next, err := r.Scan(t.Context(), 0)
			require.NoError(t, err)
			assert.Zero(t, next)
			assert.Equal(t, []session.Row{{ID: sessiontest.ID(1), Unreadable: true}}, rows)
		})
	}
}

func TestAScanAgreesWithTheRowsItTellsOf(t *testing.T) {
	t.Parallel()
	for _, recorded := range recordedRows(t) {
		t.Run(recorded.Name, func(t *testing.T) {
			t.Parallel()
			r, _ := openMini(t)
			require.NoError(t, r.client.Set(t.Context(), recorded.Key, recorded.Value, 0).Err())
			rows, _, err := r.Scan(t.Context(), 0)
			require.NoError(t, err)
			require.Len(t, rows, 1)
			whole, err := r.Get(t.Context(), rows[0].ID)
			require.NoError(t, err)
			assert.Equal(t, session.RowOf(whole), rows[0])
		})
	}
}

func TestAScanHoldsOnePageAtATime(t *testing.T) {
	t.Parallel()
	needReal(t)
	config := realConfig(t)
	config.Options.Page = 10
	r := open(t, config)
	for n := range 1000 {
		put(t, r, sessiontest.Reserved(n, time.Unix(1, 0)))
	}
	found := map[string]bool{}
	for cursor := uint64(0); ; {
		rows, next, err := r.Scan(t.Context(), cursor)
		require.NoError(t, err)
		assert.LessOrEqual(t, len(rows), 20, "a page is about what was asked for")
		for _, row := range rows {
			found[row.ID] = true
		}
		if cursor = next; cursor == 0 {
			break
		}
	}
	assert.Len(t, found, 1000)
}

func set(t *testing.T, r *Redis, key, value string) {
	t.Helper()
	require.NoError(t, r.client.Set(t.Context(), key, value, 0).Err())
}
