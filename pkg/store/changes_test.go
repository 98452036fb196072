package store

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentcube/agentcube/pkg/session/sessiontest"
)

// signalled reports whether there is a signal now.
func signalled(changed <-chan struct{}) bool {
	select {
	case <-changed:
		return true
	default:
		return false
	}
}

func TestWhoWaitsForARowIsToldOfItAlone(t *testing.T) {
	t.Parallel()
	c := NewChanges()
	one, done := c.Subscribe(sessiontest.ID(1))
	same, sameDone := c.Subscribe(sessiontest.ID(1))
	other, otherDone := c.Subscribe(sessiontest.ID(2))
	defer otherDone()
	defer sameDone()

	c.Changed([]string{sessiontest.ID(1)})
	c.Changed([]string{sessiontest.ID(1), sessiontest.ID(3)})
	assert.True(t, signalled(one))
	assert.False(t, signalled(one), "two changes that nobody saw are one signal")
	assert.True(t, signalled(same), "all who wait are told")
	assert.False(t, signalled(other))

	done()
	c.Changed([]string{sessiontest.ID(1)})
	assert.False(t, signalled(one))
	assert.True(t, signalled(same))

	c.Connected(time.Time{}, true)
	assert.True(t, signalled(same), "something may have been missed")
	assert.True(t, signalled(other))
	sameDone()
	otherDone()
	assert.Empty(t, c.waiting, "nobody is remembered")
}

func TestAChangeByAnotherIsTold(t *testing.T) {
	t.Parallel()
	needReal(t)
	config := realConfig(t)
	r, writer := open(t, config), open(t, config)
	c := NewChanges()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	changed, unsubscribe := c.Subscribe(sessiontest.ID(1))
	defer unsubscribe()
	go func() { ended <- r.Follow(ctx, c) }()
	<-changed // connected
	_, err := writer.Create(t.Context(), sessiontest.Reserved(1, time.Now()))
	require.NoError(t, err)
	<-changed
	cancel()
	require.NoError(t, <-ended)
}
