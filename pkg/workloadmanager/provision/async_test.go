package provision_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentcube/agentcube/pkg/sandbox"
	"github.com/agentcube/agentcube/pkg/session"
	"github.com/agentcube/agentcube/pkg/workloadmanager/provision"
)

func TestAnAsyncCreateAnswersWithTheReservationAndGoesOn(t *testing.T) {
	t.Parallel()
	for name, k := range map[string]session.RetryKey{"with a key": key, "without one": {}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in(t, func(t *testing.T, w *world) {
				w.cluster.OnCreate(w.after(slow, ready))
				ctx, answered := context.WithCancel(t.Context())
				s, err := w.p.Submit(ctx, async(ordered(k, nil)))
				answered()
				require.NoError(t, err)
				assert.Zero(t, w.took())
				assert.Equal(t, session.StateCreating, s.State)
				assert.True(t, session.ValidID(s.ID))
				assert.NotEmpty(t, s.Object.Name)
				w.drained()
				assert.Equal(t, slow, w.took())
				assert.Equal(t, s.ID, w.row().ID)
				assert.Equal(t, session.StateReady, w.row().State)
				assert.Equal(t, s.ID, w.only().SessionID)
			})
		})
	}
}

func TestAnAsyncCreateThatFailsIsUndone(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, w *world) {
		w.cluster.OnCreate(never)
		_, err := w.p.Submit(t.Context(), async(ordered(key, nil)))
		require.NoError(t, err)
		w.drained()
		assert.Equal(t, createBound, w.took())
		w.keyIsFree()
		w.nothingLeft()
	})
}

func TestWhatFailsBeforeTheReservationIsAnswered(t *testing.T) {
	t.Parallel()
	failed := errors.New("no such template")
	cases := map[string]struct {
		arm  func(*world, *provision.Call)
		want error
	}{
		"the order": {func(_ *world, call *provision.Call) {
			call.Order = func(context.Context) (provision.Request, error) { return provision.Request{}, failed }
		}, failed},
		"the warm pool": {func(_ *world, call *provision.Call) {
			call.Order = func(context.Context) (provision.Request, error) {
				r := warm()
				r.Prepare = func(context.Context) error { return failed }
				return r, nil
			}
		}, failed},
		"the reservation": {func(w *world, _ *provision.Call) {
			w.store.FailNext("Create", session.ErrUnavailable)
		}, session.ErrUnavailable},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in(t, func(t *testing.T, w *world) {
				call := async(ordered(key, nil))
				c.arm(w, &call)
				_, err := w.p.Submit(t.Context(), call)
				require.ErrorIs(t, err, c.want)
				w.drained()
				w.nothingLeft()
				w.keyIsFree()
			})
		})
	}
}

func TestOneKeyAndBothManners(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, w *world) {
		defer w.beat(process)()
		w.cluster.OnCreate(w.after(slow, ready))
		other := w.replica("manager-2")
		first, err := w.p.Submit(t.Context(), async(ordered(key, nil)))
		require.NoError(t, err)
		again, err := other.Submit(t.Context(), async(ordered(key, nil)))
		require.NoError(t, err)
		assert.Equal(t, first.ID, again.ID)
		assert.Equal(t, session.StateCreating, again.State)
		assert.Zero(t, w.took())
		waited, err := other.Submit(t.Context(), ordered(key, nil))
		require.NoError(t, err)
		assert.Equal(t, w.row(), waited)
		late, err := w.p.Submit(t.Context(), async(ordered(key, nil)))
		require.NoError(t, err)
		assert.Equal(t, waited, late)
		w.drained(other)
	})
}

func TestAnAsyncClientThatHangsUpBeforeItIsToldIsForgotten(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, w *world) {
		ctx, hangUp := context.WithCancel(t.Context())
		defer hangUp()
		call := async(ordered(session.RetryKey{}, nil))
		call.Order = func(context.Context) (provision.Request, error) {
			r := warm()
			r.Prepare = func(ctx context.Context) error {
				hangUp()
				<-ctx.Done()
				return ctx.Err()
			}
			return r, nil
		}
		_, err := w.p.Submit(ctx, call)
		require.ErrorIs(t, err, provision.ErrClientGone)
		w.drained()
		assert.Zero(t, w.took())
		w.nothingLeft()
	})
}

func TestADrainFinishesCreatesOrUndoesThem(t *testing.T) {
	t.Parallel()
	for name, bound := range map[string]time.Duration{"finishes": slow, "undoes": slow - time.Second} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in(t, func(t *testing.T, w *world) {
				w.cluster.OnCreate(func(o sandbox.Object) {
					w.clock.AfterFunc(slow, func() {
						if _, err := w.cluster.Get(t.Context(), o.Ref); err == nil {
							w.makeReady(o)
						}
					})
				})
				_, err := w.p.Submit(t.Context(), async(ordered(key, nil)))
				require.NoError(t, err)
				ctx, hangUp := context.WithCancel(t.Context())
				gone := make(chan error, 1)
				go func() {
					_, err := w.p.Submit(ctx, ordered(session.RetryKey{Name: "other", Body: "b"}, nil))
					gone <- err
				}()
				synctest.Wait()
				hangUp()
				require.ErrorIs(t, <-gone, provision.ErrClientGone)
				drain, cancel := context.WithTimeout(t.Context(), bound+time.Millisecond)
				defer cancel()
				w.p.Drain(drain)
				require.NoError(t, w.p.Wait(t.Context()))
				if name == "finishes" {
					require.Len(t, w.fake.Rows(), 2)
					for _, row := range w.fake.Rows() {
						assert.Equal(t, session.StateReady, row.State)
					}
					return
				}
				assert.Equal(t, bound+time.Millisecond, w.took())
				w.nothingLeft()
				w.keyIsFree()
				w.pass(slow)
				w.nothingLeft()
			})
		})
	}
}
