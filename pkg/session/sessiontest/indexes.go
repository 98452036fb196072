package sessiontest

import (
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/agentcube/agentcube/pkg/session"
)

// all in one order: expiry, activity, due, creating.
func (x Indexes) all() [4]map[string]time.Time {
	return [4]map[string]time.Time{x.Expiry, x.Activity, x.Due, x.Creating}
}

// entriesOf are the entries that follow from a row, in that order; zero means
// none.
func entriesOf(s session.Session, activity, now time.Time) [4]time.Time {
	e := [4]time.Time{0: ceil(s.ExpiresAt), 2: ceil(s.NextLook(activity, now, createBound))}
	if s.State == session.StateCreating {
		e[3] = ceil(s.CreatedAt)
		if s.CreatedAt.IsZero() {
			e[3] = time.Unix(0, 0).UTC() // unknown: older than any other
		}
	}
	return e
}

// healEntry makes an entry exist or not, and returns how many it changed.
func healEntry(index map[string]time.Time, id string, want time.Time) int {
	_, have := index[id]
	switch {
	case have && want.IsZero():
		delete(index, id)
		return 1
	case !have && !want.IsZero():
		index[id] = want
		return 1
	default:
		return 0
	}
}

// CheckIndexes asserts that rows and indexes agree: no entry without its row;
// of each row the entries that it must have, and no other; and no row that the
// collector would look at too late. tolerance is what a Postpone may have
// added to the last.
func CheckIndexes(t *testing.T, rows map[string]session.Session, x Indexes, now time.Time, tolerance time.Duration) {
	t.Helper()
	for i, name := range []string{"expiry", "last activity", "due", "creating"} {
		for id := range x.all()[i] {
			_, ok := rows[id] // Contains would go through all rows
			assert.True(t, ok, "the %s index has an entry of %s without a row", name, id)
		}
	}
	for id, s := range rows {
		_, ok := x.Activity[id]
		assert.True(t, ok, "every row has an activity, but %s", id)
		want := entriesOf(s, x.Activity[id], now)
		assert.Equal(t, want[0], x.Expiry[id], "expiry of a %s row", s.State)
		assert.Equal(t, want[3], x.Creating[id], "placeholder entry of a %s row", s.State)
		assert.Equal(t, want[2].IsZero(), x.Due[id].IsZero(), "a %s row has a due time or none", s.State)
		assert.False(t, x.Due[id].After(want[2].Add(tolerance)),
			"a %s row would be looked at too late: %s, not %s", s.State, x.Due[id], want[2])
	}
	want := Lists{}
	for _, s := range rows {
		want.add(s)
	}
	assert.Equal(t, want, x.Lists, "every row is in its lists, and nothing else is")
}

// ceil is how deadlines are kept, floor is how activity is.
func ceil(t time.Time) time.Time {
	if whole := t.Truncate(time.Second); !whole.Equal(t) {
		return whole.Add(time.Second).UTC()
	}
	return t.UTC()
}

func floor(t time.Time) time.Time { return t.Truncate(time.Second).UTC() }

func equal(a, b session.Session) bool { return reflect.DeepEqual(a, b) }
