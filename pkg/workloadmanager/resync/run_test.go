package resync_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/agentcube/agentcube/pkg/sandbox"
	"github.com/agentcube/agentcube/pkg/session"
	"github.com/agentcube/agentcube/pkg/workloadmanager/resync"
)

type observedEntry = observer.LoggedEntry

func stringField(key, value string) zapcore.Field { return zap.String(key, value) }

// running runs the Resyncer, and returns what stops it and waits for it.
func (w *world) running() (stop func()) {
	ctx, cancel := context.WithCancel(w.t.Context())
	done := make(chan error, 1)
	go func() { done <- w.r.Run(ctx) }()
	synctest.Wait()
	return func() {
		cancel()
		require.NoError(w.t, <-done)
	}
}

func TestRun(t *testing.T) {
	t.Parallel()
	cases := map[string]func(w *world){
		"the first pass is at the start, the next after the interval": func(w *world) {
			stop := w.running()
			defer stop()
			assert.Equal(w.t, 1, w.lister.lists())
			w.sleep(5*time.Minute - time.Nanosecond)
			assert.Equal(w.t, 1, w.lister.lists())
			w.sleep(time.Nanosecond)
			assert.Equal(w.t, 2, w.lister.lists())
		},
		"several triggers are one pass, soon": func(w *world) {
			stop := w.running()
			defer stop()
			for range 5 {
				w.r.Trigger()
			}
			w.sleep(time.Second)
			assert.Equal(w.t, 2, w.lister.lists())
		},
		"a trigger during a pass is not lost": func(w *world) {
			w.object(nil) // so that the pass waits
			stop := w.running()
			defer stop()
			w.r.Trigger()
			w.sleep(grace)
			assert.Equal(w.t, 2, w.lister.lists(), "the two lists of one pass")
			w.sleep(time.Second)
			assert.Equal(w.t, 3, w.lister.lists())
		},
		"a pass that failed is tried again soon": func(w *world) {
			s := w.lost()
			w.store.FailNext("Now", session.ErrUnavailable)
			stop := w.running()
			defer stop()
			w.rowIs(s, true, "the store did not answer")
			w.sleep(10 * time.Second)
			w.rowIs(s, false, "it answers again")
		},
		"the end does not wait for the grace period": func(w *world) {
			o := w.object(nil)
			begun := w.clock.Now()
			w.running()()
			assert.Zero(w.t, w.clock.Since(begun))
			w.objectIs(o, true, "it was looked at once only")
		},
		"an operator's leave is noticed within seconds": func(w *world) {
			w.many(30, func() { w.lost() })
			stop := w.running()
			defer stop()
			w.sleep(time.Minute)
			assert.Equal(w.t, 1, w.lister.lists(), "no pass is made for nothing")
			w.record.confirm(w.record.data("brake-token"))
			w.sleep(5 * time.Second)
			assert.Empty(w.t, w.fake.Rows())
		},
		"every replica says that the brake is on, and one that leads counts it": func(w *world) {
			w.many(30, func() { w.lost() })
			other := w.resyncer(ours)
			w.r = w.resyncer(ours)
			require.NoError(w.t, other.Held(w.t.Context()))
			stop := w.running()
			require.Error(w.t, w.r.Held(w.t.Context()))
			require.Error(w.t, other.Held(w.t.Context()))
			assert.InDelta(w.t, 1, w.gauge("agentcube_resync_brake"), 0)
			stop()
			require.Error(w.t, w.r.Held(w.t.Context()))
			assert.InDelta(w.t, 0, w.gauge("agentcube_resync_brake"), 0)
			w.record.confirm(w.record.data("brake-token"))
			w.r = w.resyncer(ours)
			w.running()()
			require.NoError(w.t, w.r.Held(w.t.Context()))
			require.NoError(w.t, other.Held(w.t.Context()))
		},
	}
	for behaviour, test := range cases {
		t.Run(behaviour, func(t *testing.T) {
			t.Parallel()
			in(t, test)
		})
	}
}

func TestIdentify(t *testing.T) {
	t.Parallel()
	const id = ours
	note := func(id string) *sandbox.Note { return &sandbox.Note{Data: map[string]string{"installation": id}} }
	cases := map[string]struct {
		note  *sandbox.Note
		store string
		fail  map[string]error
		want  string // empty: a new one
		after string // in the store; empty: as want
	}{
		"the very first start makes one, for both sides":                 {},
		"the record decides over a store that was emptied":               {note: note(id), want: id, after: "none"},
		"the record decides over a store of another":                     {note: note(id), store: theirs, want: id, after: theirs},
		"the id that an earlier release kept in the store is taken over": {store: id, want: id},
		"a record without an id gets one":                                {note: &sandbox.Note{}, store: id, want: id},
		"whoever is beaten to it takes the other's":                      {store: id, fail: map[string]error{"Create": sandbox.ErrExists}, want: id},
	}
	for behaviour, c := range cases {
		t.Run(behaviour, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.record.note, w.record.fail = c.note, c.fail
			require.NoError(t, w.fake.SetInstallation(t.Context(), c.store))
			got, err := resync.Identify(t.Context(), w.store, w.record)
			require.NoError(t, err)
			if c.want != "" {
				assert.Equal(t, c.want, got)
			}
			assert.True(t, session.ValidID(got))
			assert.Equal(t, got, w.record.data("installation"))
			stored, err := w.fake.Installation(t.Context())
			require.NoError(t, err)
			switch c.after {
			case "":
				assert.Equal(t, got, stored)
			case "none":
				assert.Empty(t, stored, "whether that store is right is for the resync to say")
			default:
				assert.Equal(t, c.after, stored)
			}
			again, err := resync.Identify(t.Context(), w.store, w.record)
			require.NoError(t, err)
			assert.Equal(t, got, again)
		})
	}
}

func TestIdentifyFailsWithEitherSide(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.record.fail = map[string]error{"Get": sandbox.ErrUnavailable}
	_, err := resync.Identify(t.Context(), w.store, w.record)
	require.ErrorIs(t, err, sandbox.ErrUnavailable)
	w.store.FailNext("Installation", session.ErrUnavailable)
	_, err = resync.Identify(t.Context(), w.store, w.record)
	require.ErrorIs(t, err, session.ErrUnavailable)
	assert.Nil(t, w.record.note, "an id that the store may contradict is not recorded")
}
