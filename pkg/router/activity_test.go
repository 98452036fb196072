package router

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	clocktesting "k8s.io/utils/clock/testing"
)

// touches hands each write over.
type touches struct {
	mu      sync.Mutex
	err     error
	written chan map[string]time.Time
}

func (s *touches) Touch(_ context.Context, at map[string]time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return s.err
	}
	s.written <- maps.Clone(at)
	return nil
}

func (s *touches) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
}

func newRecorder() (*Recorder, *touches, *clocktesting.FakeClock) {
	clk := clocktesting.NewFakeClock(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	store := &touches{written: make(chan map[string]time.Time, 100)}
	return NewRecorder(clk, store, zap.NewNop()), store, clk
}

// second lets a second pass and does what Run does then.
func second(t *testing.T, r *Recorder, clk *clocktesting.FakeClock) error {
	t.Helper()
	clk.Step(time.Second)
	r.keep()
	return r.flush(t.Context())
}

func TestARequestThatReachedTheSandboxIsWrittenWithItsStart(t *testing.T) {
	t.Parallel()
	r, store, clk := newRecorder()
	start := clk.Now()
	f := r.Begin("a")
	clk.Step(300 * time.Millisecond)
	f.Connected()
	f.Reached()
	f.End()

	require.NoError(t, second(t, r, clk))
	assert.Equal(t, map[string]time.Time{"a": start}, <-store.written)
	require.NoError(t, second(t, r, clk))
	assert.Empty(t, store.written, "nothing new, nothing written")
}

func TestManyRequestsAreOneWriteOfTheLatest(t *testing.T) {
	t.Parallel()
	r, store, clk := newRecorder()
	var last time.Time
	for range 100 {
		last = clk.Now()
		f := r.Begin("a")
		f.Reached()
		f.End()
		clk.Step(time.Millisecond)
	}
	early := r.Begin("b")
	clk.Step(time.Millisecond)
	late := r.Begin("b")
	late.Reached()
	early.Reached() // a slow answer to an earlier request

	require.NoError(t, second(t, r, clk))
	assert.Equal(t, map[string]time.Time{"a": last, "b": late.started}, <-store.written)
}

func TestARequestThatDidNotReachTheSandboxIsNoActivity(t *testing.T) {
	t.Parallel()
	r, store, clk := newRecorder()
	for range 10 {
		f := r.Begin("a")
		require.NoError(t, second(t, r, clk))
		f.Connected()
		for range 5 { // a dead sandbox may take so long to be noticed
			require.NoError(t, second(t, r, clk))
		}
		f.End()
	}
	assert.Empty(t, store.written)
}

func TestAStreamIsActivityForAsLongAsItGoesOn(t *testing.T) {
	t.Parallel()
	for sentence, reached := range map[string]bool{"an answer that goes on": true, "an answer that is long in coming": false} {
		t.Run(sentence, func(t *testing.T) {
			t.Parallel()
			r, store, clk := newRecorder()
			f := r.Begin("a")
			f.Connected()
			if reached {
				f.Reached()
			}
			var last time.Time
			for range 120 {
				require.NoError(t, second(t, r, clk))
				for len(store.written) > 0 {
					last = (<-store.written)["a"]
				}
				if clk.Since(f.started) > silentInterval+keepInterval {
					require.LessOrEqual(t, clk.Since(last), keepInterval)
				}
			}
			f.Reached()
			end := clk.Now()
			f.End()
			require.NoError(t, second(t, r, clk))
			assert.Equal(t, end, (<-store.written)["a"])
			for range 10 {
				require.NoError(t, second(t, r, clk))
			}
			assert.Empty(t, store.written, "it is over")
		})
	}
}

func TestActivityOutlivesAStoreThatIsDown(t *testing.T) {
	t.Parallel()
	r, store, clk := newRecorder()
	down := errors.New("down")
	store.fail(down)
	begin := func(id string) time.Time {
		f := r.Begin(id)
		f.Reached()
		f.End()
		return f.started
	}
	first := begin("a")
	require.ErrorIs(t, second(t, r, clk), down)
	again := begin("b")
	require.ErrorIs(t, second(t, r, clk), down)
	later := begin("b")
	require.True(t, later.After(again))

	store.fail(nil)
	require.NoError(t, second(t, r, clk))
	assert.Equal(t, map[string]time.Time{"a": first, "b": later}, <-store.written)
}

func TestWhatIsKeptForAStoreThatIsDownIsBounded(t *testing.T) {
	t.Parallel()
	r, store, clk := newRecorder()
	store.fail(errors.New("down"))
	for i := range maxPending + 10 {
		r.mark(fmt.Sprint(i), clk.Now())
	}
	require.Error(t, second(t, r, clk))
	assert.Len(t, r.pending, maxPending)
	assert.Equal(t, 10, r.takeLost())
	r.mark("0", clk.Now()) // a session that is known is no further one
	assert.Equal(t, clk.Now(), r.pending["0"])
}

func TestRunWritesOnceASecondAndAtTheEnd(t *testing.T) {
	t.Parallel()
	r, store, clk := newRecorder()
	core, logs := observer.New(zap.InfoLevel)
	r.log = zap.New(core)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	require.Eventually(t, clk.HasWaiters, deadline, time.Millisecond)
	f := r.Begin("a")
	f.Reached()
	clk.Step(flushInterval)
	assert.Contains(t, <-store.written, "a")

	f = r.Begin("b")
	f.Reached()
	cancel()
	require.NoError(t, <-done)
	assert.Contains(t, <-store.written, "b")
	assert.Zero(t, logs.Len())
}

func TestRunTellsOfAnOutageOnce(t *testing.T) {
	t.Parallel()
	r, store, clk := newRecorder()
	core, logs := observer.New(zap.InfoLevel)
	r.log = zap.New(core)
	store.fail(errors.New("down"))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	require.Eventually(t, clk.HasWaiters, deadline, time.Millisecond)
	r.Begin("a").Reached()
	clk.Step(flushInterval)
	require.Eventually(t, func() bool { return logs.Len() == 1 }, deadline, time.Millisecond)
	store.fail(nil)
	clk.Step(flushInterval)
	<-store.written
	require.Eventually(t, func() bool { return logs.Len() == 2 }, deadline, time.Millisecond)
	cancel()
	require.NoError(t, <-done)
	assert.Equal(t, zap.WarnLevel, logs.All()[0].Level)
	assert.Equal(t, "activity is written down again", logs.All()[1].Message)
}
