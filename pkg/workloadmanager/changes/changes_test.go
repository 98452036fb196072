package changes

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func signalled(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func TestEachWaiterIsToldOfItsSessionOnly(t *testing.T) {
	t.Parallel()
	h := New()
	one, leaveOne := h.Subscribe("a")
	two, leaveTwo := h.Subscribe("a")
	other, leaveOther := h.Subscribe("b")
	defer leaveOther()
	h.Changed([]string{"a", "c"})
	h.Changed([]string{"a"})
	assert.True(t, signalled(one))
	assert.False(t, signalled(one), "two changes are one signal")
	assert.True(t, signalled(two))
	assert.False(t, signalled(other))

	leaveOne()
	h.Changed([]string{"a"})
	assert.False(t, signalled(one))
	assert.True(t, signalled(two))
	leaveTwo()
	leaveTwo()
	assert.Equal(t, 1, h.Waiters())
}

func TestWhoeverWaitsLooksAgainWhenChangesMayHaveBeenMissed(t *testing.T) {
	t.Parallel()
	h := New()
	changed, leave := h.Subscribe("a")
	defer leave()
	assert.Equal(t, time.Second, h.Recheck(), "nobody tells yet")
	for _, step := range []struct {
		what string
		do   func()
		want time.Duration
	}{
		{"a store that tells", func() { h.Connected(time.Time{}, true) }, 10 * time.Second},
		{"a store that is away", func() { h.Lost(true, errors.New("gone")) }, time.Second},
		{"a store that does not tell", func() { h.Connected(time.Time{}, false) }, time.Second},
		{"a store that tells again", func() { h.Connected(time.Time{}, true) }, 10 * time.Second},
		{"a store that will not be followed", h.Unfollowed, time.Second},
	} {
		step.do()
		assert.True(t, signalled(changed), step.what)
		assert.Equal(t, step.want, h.Recheck(), step.what)
	}
	h.Answered(time.Time{})
	assert.False(t, signalled(changed))
}

func TestCloseEndsAllWaits(t *testing.T) {
	t.Parallel()
	h := New()
	assert.False(t, signalled(h.Done()))
	h.Close()
	h.Close()
	assert.True(t, signalled(h.Done()))
}
