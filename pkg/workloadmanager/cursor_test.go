package workloadmanager

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentcube/agentcube/pkg/api"
	"github.com/agentcube/agentcube/pkg/session"
)

const cursorID = "aea4cea2-6f42-4fbb-b464-82ddb3a1f64b"

func TestACursorIsItsPlace(t *testing.T) {
	t.Parallel()
	q := session.Query{Namespace: "n", Limit: 3}
	for _, at := range []time.Time{
		{},
		time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC),
		time.Date(1969, 12, 31, 23, 59, 59, 999_999_999, time.UTC),
		time.Date(2026, 3, 4, 5, 6, 7, 890_123_456, time.UTC),
		time.Date(9999, 12, 31, 23, 59, 59, 999_999_999, time.UTC),
	} {
		want := session.Position{CreatedAt: at, ID: cursorID}
		got, err := decodeCursor(q, encodeCursor(q, want))
		require.NoError(t, err)
		assert.Equal(t, want, got)
	}
}

func TestAQueryIsPinnedToAnOwner(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		raw, only, owner string
		refused          bool
	}{
		"nobody, who asks for all":         {"", "", "", false},
		"nobody, who asks for another's":   {"owner=owner-b", "", "owner-b", false},
		"somebody, who asks for all":       {"", "owner-a", "owner-a", false},
		"somebody, who asks for its own":   {"owner=owner-a", "owner-a", "owner-a", false},
		"somebody, who asks for another's": {"owner=owner-b", "owner-a", "", true},
	} {
		q, err := parseQuery(c.raw, c.only)
		if c.refused {
			assert.Equal(t, api.CodeForbidden, problemOf(err).code, what)
			continue
		}
		require.NoError(t, err, what)
		assert.Equal(t, c.owner, q.Owner, what)
	}
	all, err := parseQuery("", "")
	require.NoError(t, err)
	_, err = parseQuery("cursor="+encodeCursor(all, session.Position{ID: cursorID}), "owner-a")
	assert.Error(t, err, "a cursor of all is none of one owner's")
}

func FuzzCursor(f *testing.F) {
	q := session.Query{Owner: "owner-a"}
	f.Add(encodeCursor(q, session.Position{CreatedAt: time.Date(2026, 3, 4, 5, 6, 7, 8, time.UTC), ID: cursorID}))
	f.Add(encodeCursor(session.Query{}, session.Position{ID: cursorID}))
	for _, seed := range []string{"", "AQ", "====", "\n", "AQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, cursor string) {
		at, err := decodeCursor(q, cursor)
		if err != nil {
			require.Zero(t, at)
			return
		}
		require.True(t, session.ValidID(at.ID))
		require.GreaterOrEqual(t, at.CreatedAt.Year(), 0)
		require.LessOrEqual(t, at.CreatedAt.Year(), 9999)
		require.Equal(t, cursor, encodeCursor(q, at), "each place has one cursor")
	})
}
