package provision_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentcube/agentcube/pkg/sandbox"
	"github.com/agentcube/agentcube/pkg/session"
	"github.com/agentcube/agentcube/pkg/workloadmanager/clustertest"
	"github.com/agentcube/agentcube/pkg/workloadmanager/provision"
)

// notReady is a Ready=False condition.
func notReady(reason, message string) func(*sandbox.Object) {
	return func(o *sandbox.Object) { o.Ready, o.Reason, o.Message = false, reason, message }
}

func TestWhatIsWaitedFor(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		steps map[time.Duration]func(*sandbox.Object)
		took  time.Duration
	}{
		"ready a while later": {map[time.Duration]func(*sandbox.Object){300 * time.Millisecond: ready}, 300 * time.Millisecond},
		"an address that comes after Ready": {map[time.Duration]func(*sandbox.Object){
			time.Second:             func(o *sandbox.Object) { ready(o); o.Addresses = nil },
			1500 * time.Millisecond: ready,
		}, 1500 * time.Millisecond},
		"Ready that comes after an address": {map[time.Duration]func(*sandbox.Object){
			time.Second:     func(o *sandbox.Object) { ready(o); o.Ready = false },
			2 * time.Second: ready,
		}, 2 * time.Second},
		"the name of a claim's sandbox": {map[time.Duration]func(*sandbox.Object){
			time.Second:     func(o *sandbox.Object) { ready(o); o.SandboxName = "" },
			2 * time.Second: ready,
		}, 2 * time.Second},
		"a modified object that passes": {map[time.Duration]func(*sandbox.Object){
			time.Second:     notReady("ReconcilerError", "the object has been modified"),
			3 * time.Second: ready,
		}, 3 * time.Second},
		"a pod that is pending": {map[time.Duration]func(*sandbox.Object){
			time.Second:       notReady("SandboxNotReady", "pod pending"),
			100 * time.Second: ready,
		}, 100 * time.Second},
	} {
		for kind, request := range kinds {
			t.Run(name+", "+kind, func(t *testing.T) {
				t.Parallel()
				in(t, func(t *testing.T, w *world) {
					w.cluster.OnCreate(func(o sandbox.Object) {
						for at, step := range c.steps {
							w.after(at, step)(o)
						}
					})
					s, err := w.p.Create(t.Context(), request())
					require.NoError(t, err)
					assert.Equal(t, c.took, w.took())
					assert.Equal(t, w.only().ResourceVersion, s.ResourceVersion)
				})
			})
		}
	}
}

func TestWhatCannotHealEndsTheWaitAtOnce(t *testing.T) {
	t.Parallel()
	for name, failure := range map[string]sandbox.Failure{
		"a quota":           {Reason: "ReconcilerError", Message: "exceeded quota: pods", Quota: true},
		"rejected metadata": {Reason: "InvalidMetadata", Message: "label not allowed"},
		"a pod that ended":  {Reason: "PodSucceeded", Message: "exit 0", Ended: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in(t, func(t *testing.T, w *world) {
				w.cluster.OnCreate(w.after(time.Second, func(o *sandbox.Object) { o.Failure = &failure }))
				_, err := w.p.Create(t.Context(), direct())
				var failed *provision.FailedError
				require.ErrorAs(t, err, &failed)
				assert.Equal(t, provision.FailedError{Reason: failure.Reason, Message: failure.Message, Quota: failure.Quota}, *failed)
				assert.Equal(t, time.Second, w.took())
				w.nothingLeft()
			})
		})
	}
}

func TestTheBoundNamesWhatWasWaitedFor(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		arm  func(w *world)
		want string
	}{
		"the sandbox": {func(w *world) { w.cluster.OnCreate(never) }, "the sandbox to become ready"},
		"the sandbox, with its condition": {func(w *world) {
			w.cluster.OnCreate(w.after(time.Second, notReady("SandboxNotReady", "pod pending")))
		}, "the sandbox to become ready (SandboxNotReady: pod pending)"},
		"the API server": {func(w *world) { w.cluster.Hang("Create") }, "the API server"},
		"the store":      {func(w *world) { w.store.Block("Create") }, "the store"},
		"the probe, cut short": {func(w *world) {
			w.cluster.OnCreate(w.after(100*time.Second, ready))
			w.prober.probe = func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
		}, "the sandbox to listen"},
		"the commit": {func(w *world) {
			w.cluster.OnCreate(w.after(100*time.Second, ready))
			w.prober.probe = func(context.Context) error {
				w.store.Block("Update")
				return nil
			}
		}, "the store"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in(t, func(t *testing.T, w *world) {
				c.arm(w)
				_, err := w.p.Create(t.Context(), direct())
				var timeout *provision.TimeoutError
				require.ErrorAs(t, err, &timeout)
				assert.Equal(t, c.want, timeout.Waiting)
				assert.GreaterOrEqual(t, w.took(), createBound)
				assert.LessOrEqual(t, w.took(), createBound+answerBound)
				require.NoError(t, w.p.Wait(t.Context()))
				w.pass(unknownBound)
				w.collect()
				w.nothingLeft()
			})
		})
	}
}

func TestAnObjectThatGoesEndsTheWait(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		do   func(w *world)
		took time.Duration
	}{
		"deleted":                     {func(w *world) { w.cluster.Kill(w.only().Ref) }, time.Second},
		"marked for deletion":         {func(w *world) { w.cluster.Edit(w.only().Ref, func(o *sandbox.Object) { o.Deleting = true }) }, time.Second},
		"deleted, and the watch dead": {func(w *world) { w.cluster.Freeze(); w.cluster.Kill(w.only().Ref) }, directRead},
		"replaced, and the watch dead": {func(w *world) {
			w.cluster.Freeze()
			o := w.only()
			w.cluster.Kill(o.Ref)
			w.cluster.Put(sandbox.Object{Ref: session.ObjectRef{Kind: o.Ref.Kind, Namespace: o.Ref.Namespace, Name: o.Ref.Name}})
		}, directRead},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in(t, func(t *testing.T, w *world) {
				w.cluster.OnCreate(never)
				w.clock.AfterFunc(time.Second, func() { c.do(w) })
				_, err := w.p.Create(t.Context(), direct())
				require.ErrorIs(t, err, provision.ErrDeleted)
				assert.Equal(t, c.took, w.took())
				require.NoError(t, w.p.Wait(t.Context()))
				assert.Empty(t, w.fake.Rows())
				for _, o := range w.cluster.Objects() {
					assert.Empty(t, o.SessionID, "only a stranger's object is left")
				}
			})
		})
	}
}

func TestALabelThatIsStrippedDoesNotEndTheWait(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, w *world) {
		w.cluster.OnCreate(never)
		w.clock.AfterFunc(time.Second, func() {
			w.cluster.Edit(w.only().Ref, func(o *sandbox.Object) { o.SessionID = "" })
		})
		w.clock.AfterFunc(4*time.Second, func() { w.makeReady(w.only()) })
		s, err := w.p.Create(t.Context(), direct())
		require.NoError(t, err)
		assert.Equal(t, session.StateReady, s.State)
		assert.Equal(t, 2*directRead, w.took(), "the direct read finds it")
	})
}

func TestTheDirectReadGuardsAgainstASilentWatch(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, w *world) {
		w.cluster.Freeze()
		w.cluster.OnCreate(w.after(4*time.Second, ready))
		s, err := w.p.Create(t.Context(), direct())
		require.NoError(t, err)
		assert.Equal(t, w.only().Ref, s.Object)
		assert.Equal(t, 2*directRead, w.took())
		assert.Equal(t, 2, w.cluster.Calls("Get"))
	})
	t.Run("and does not end the wait when it fails", func(t *testing.T) {
		t.Parallel()
		in(t, func(t *testing.T, w *world) {
			w.cluster.Freeze()
			w.cluster.FailNext("Get", clustertest.ErrDown)
			w.store.FailNext("Get", session.ErrUnavailable)
			w.cluster.OnCreate(w.after(time.Second, ready))
			_, err := w.p.Create(t.Context(), direct())
			require.NoError(t, err)
			assert.Equal(t, 2*directRead, w.took())
		})
	})
	t.Run("and hangs no longer than the client stays", func(t *testing.T) {
		t.Parallel()
		in(t, func(t *testing.T, w *world) {
			ctx, cancel := context.WithTimeoutCause(t.Context(), 10*time.Second, context.Canceled)
			defer cancel()
			w.cluster.Freeze()
			w.cluster.Hang("Get")
			w.cluster.OnCreate(never)
			_, err := w.p.Create(ctx, direct())
			require.ErrorIs(t, err, provision.ErrClientGone)
			assert.Equal(t, 10*time.Second, w.took())
			w.nothingLeft()
		})
	})
}

func TestAPoolThatIsMissing(t *testing.T) {
	t.Parallel()
	missing := notReady("WarmPoolNotFound", "warm pool not found")
	for name, c := range map[string]struct {
		pool func(w *world)
		ends bool
	}{
		"was there before the claim: its controller lags": {func(w *world) { w.cluster.SetPool(namespace, "warm", w.start) }, false},
		"was there for an hour":                           {func(w *world) { w.cluster.SetPool(namespace, "warm", w.start.Add(-time.Hour)) }, false},
		"was made anew after the claim":                   {func(w *world) { w.cluster.SetPool(namespace, "warm", w.start.Add(time.Second)) }, true},
		"is gone":                                         {func(*world) {}, true},
		"cannot be looked at":                             {func(w *world) { w.cluster.FailNext("PoolCreated", clustertest.ErrDown) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in(t, func(t *testing.T, w *world) {
				c.pool(w)
				w.cluster.OnCreate(func(o sandbox.Object) {
					w.after(time.Second, missing)(o)
					w.after(2*time.Second, ready)(o)
				})
				_, err := w.p.Create(t.Context(), warm())
				if !c.ends {
					require.NoError(t, err)
					assert.Equal(t, 2*time.Second, w.took())
					return
				}
				var failed *provision.FailedError
				require.ErrorAs(t, err, &failed)
				assert.Equal(t, "WarmPoolNotFound", failed.Reason)
				assert.Equal(t, "warm pool not found", failed.Message)
				assert.Equal(t, time.Second, w.took())
			})
		})
	}
}

func TestReadingTheUIDOfAClaimsSandboxIsRetried(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, w *world) {
		for range 3 {
			w.cluster.FailNext("SandboxUID", clustertest.ErrDown)
		}
		s, err := w.p.Create(t.Context(), warm())
		require.NoError(t, err)
		assert.Equal(t, adoptedUID, s.Sandbox.UID)
		assert.Less(t, w.took(), time.Second)
	})
}

func TestTheProbeHasItsBound(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, w *world) {
		w.prober.probe = func(ctx context.Context) error { <-ctx.Done(); return errRefused }
		_, err := w.p.Create(t.Context(), direct())
		var unreachable *provision.UnreachableError
		require.ErrorAs(t, err, &unreachable)
		require.ErrorIs(t, err, errRefused)
		assert.Equal(t, probeBound, w.took())
		w.nothingLeft()
	})
}
