package reconcile_test

import (
	"context"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"k8s.io/utils/clock"

	"github.com/agentcube/agentcube/pkg/sandbox"
	"github.com/agentcube/agentcube/pkg/session"
	"github.com/agentcube/agentcube/pkg/session/sessiontest"
	"github.com/agentcube/agentcube/pkg/workloadmanager/clustertest"
	"github.com/agentcube/agentcube/pkg/workloadmanager/provision"
	"github.com/agentcube/agentcube/pkg/workloadmanager/reconcile"
)

const (
	namespace  = "team"
	address    = "10.0.0.7"
	newAddress = "10.0.0.8"
	adopted    = "pool-x7k2p"
	syncBound  = 30 * time.Second
)

// world is a running Reconciler over a store and a cluster in memory.
type world struct {
	t       *testing.T
	clock   clock.RealClock
	start   time.Time
	fake    *sessiontest.Fake
	store   *sessiontest.Faulty
	cluster *clustertest.Cluster
	r       *reconcile.Reconciler
	stop    func()
}

func in(t *testing.T, test func(t *testing.T, w *world), change ...func(*reconcile.Options)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t}
		w.start = w.clock.Now()
		w.fake = sessiontest.NewFake(w.clock)
		w.store = sessiontest.NewFaulty(w.fake)
		w.cluster = clustertest.New(w.clock)
		finisher := provision.New(w.clock, zap.NewNop(), w.store, w.cluster, w.cluster.Cache(), w.cluster, nil, provision.Options{})
		options := reconcile.Options{Workers: 4, SyncBound: syncBound, Newer: newer}
		for _, c := range change {
			c(&options)
		}
		w.r = reconcile.New(w.clock, zap.NewNop(), w.store, w.cluster, w.cluster.Cache(), finisher, options)
		w.cluster.OnEvent(w.r.Enqueue)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- w.r.Run(ctx) }()
		stopped := false
		w.stop = func() {
			if stopped {
				return
			}
			stopped = true
			cancel()
			require.NoError(t, <-done)
		}
		test(t, w)
		w.stop()
		sessiontest.CheckIndexes(t, w.fake.Rows(), w.fake.Indexes(), w.clock.Now(), 0)
	})
}

func newer(a, b string) bool {
	x, err1 := strconv.Atoi(a)
	y, err2 := strconv.Atoi(b)
	return err1 == nil && err2 == nil && x > y
}

// settle waits until everything that can be done without time passing is done.
func (w *world) settle() {
	w.t.Helper()
	synctest.Wait()
}

func (w *world) pass(d time.Duration) {
	w.t.Helper()
	timer := w.clock.NewTimer(d)
	<-timer.C()
	synctest.Wait()
}

// session makes an object of the kind, and the row that a create leaves.
func (w *world) session(kind string) session.Session {
	w.t.Helper()
	id := uuid.NewString()
	o := sandbox.Object{
		Ref:       session.ObjectRef{Kind: kind, Namespace: namespace, Name: "echo-" + id[:8]},
		SessionID: id, Ready: true, Addresses: []string{address},
	}
	if kind == session.KindSandboxClaim {
		o.SandboxName = adopted
		w.cluster.SetSandbox(namespace, adopted, "uid-of-adopted")
	}
	o = w.cluster.Put(o)
	ref := session.SandboxRef{Name: adopted, UID: "uid-of-adopted"}
	if kind == session.KindSandbox {
		ref = session.SandboxRef{Name: o.Ref.Name, UID: o.Ref.UID}
		o = w.cluster.Edit(o.Ref, func(o *sandbox.Object) { o.SandboxName, o.SandboxUID = ref.Name, ref.UID })
	}
	w.settle()
	ports := []session.Port{{Path: "/", Protocol: "HTTP", Port: 8080}}
	s, err := w.fake.Create(w.t.Context(), session.Session{
		ID: id, Object: o.Ref, Sandbox: ref, State: session.StateReady, CreatedAt: w.clock.Now().UTC(),
		Ports: ports, EntryPoints: session.EntryPoints(ports, address), IdleTimeout: time.Hour,
		Creator: session.Creator{Process: "manager-1", Token: "token"}, Generation: 1, ResourceVersion: o.ResourceVersion,
	})
	require.NoError(w.t, err)
	return s
}

func (w *world) row(s session.Session) session.Session {
	w.t.Helper()
	row, ok := w.fake.Rows()[s.ID]
	require.True(w.t, ok, "the row is there")
	return row
}

func (w *world) purged(s session.Session) {
	w.t.Helper()
	assert.NotContains(w.t, w.fake.Rows(), s.ID)
}

func (w *world) change(s session.Session, change func(*session.Session)) session.Session {
	w.t.Helper()
	row, err := w.fake.Update(w.t.Context(), s.ID, func(s *session.Session) error { change(s); return nil })
	require.NoError(w.t, err)
	return row
}

func eachKind(t *testing.T, test func(t *testing.T, w *world, kind string)) {
	t.Helper()
	for _, kind := range []string{session.KindSandbox, session.KindSandboxClaim} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			in(t, func(t *testing.T, w *world) { test(t, w, kind) })
		})
	}
}

func endpoints(address string) []session.EntryPoint {
	return []session.EntryPoint{{Path: "/", Protocol: "HTTP", Endpoint: address + ":8080"}}
}

func TestAnObjectThatGoesTakesItsSessionAlong(t *testing.T) {
	t.Parallel()
	eachKind(t, func(t *testing.T, w *world, kind string) {
		other, s := w.session(kind), w.session(kind)
		w.cluster.Kill(s.Object)
		w.settle()
		w.purged(s)
		assert.Equal(t, other, w.row(other), "others are untouched")
		assert.Zero(t, w.clock.Since(w.start), "at once")
	})
}

func TestAnObjectMarkedForDeletionTakesItsSessionAlong(t *testing.T) {
	t.Parallel()
	eachKind(t, func(t *testing.T, w *world, kind string) {
		s := w.session(kind)
		w.cluster.Edit(s.Object, func(o *sandbox.Object) { o.Deleting = true })
		w.settle()
		w.purged(s)
		require.Len(t, w.cluster.Objects(), 1, "whoever deletes it, finishes it")
	})
}

func TestAnObjectThatGoesInAnyState(t *testing.T) {
	t.Parallel()
	for _, state := range []session.State{
		session.StateCreating, session.StateReady, session.StateNotReady, session.StateSuspended, session.StateDeleting,
	} {
		t.Run(string(state), func(t *testing.T) {
			t.Parallel()
			in(t, func(_ *testing.T, w *world) {
				s := w.session(session.KindSandbox)
				w.change(s, func(s *session.Session) { s.State = state })
				w.cluster.Kill(s.Object)
				w.settle()
				w.purged(s)
			})
		})
	}
}

func TestAnotherAddressIsAnotherGeneration(t *testing.T) {
	t.Parallel()
	eachKind(t, func(t *testing.T, w *world, kind string) {
		s := w.session(kind)
		w.cluster.Edit(s.Object, func(o *sandbox.Object) {
			o.Ready, o.Reason, o.Message, o.Addresses = false, "DependenciesNotReady", "pod gone", nil
		})
		w.settle()
		row := w.row(s)
		assert.Equal(t, session.StateNotReady, row.State)
		assert.Nil(t, row.EntryPoints, "a dead address is not dialled")
		assert.Equal(t, "DependenciesNotReady", row.Reason)
		assert.Equal(t, "pod gone", row.Message)
		assert.Equal(t, int64(1), row.Generation)

		o := w.cluster.Edit(s.Object, func(o *sandbox.Object) {
			o.Ready, o.Reason, o.Message, o.Addresses = true, "Ready", "yes", []string{newAddress, "fd00::8"}
		})
		w.settle()
		row = w.row(s)
		assert.Equal(t, session.StateReady, row.State)
		assert.Equal(t, endpoints(newAddress), row.EntryPoints)
		assert.Empty(t, row.Reason+row.Message)
		assert.Equal(t, int64(2), row.Generation)
		assert.Equal(t, o.ResourceVersion, row.ResourceVersion)
		assert.Equal(t, s.Sandbox, row.Sandbox)
	})
}

func TestNotReadyWithAnAddressKeepsIt(t *testing.T) {
	t.Parallel()
	eachKind(t, func(t *testing.T, w *world, kind string) {
		s := w.session(kind)
		w.cluster.Edit(s.Object, func(o *sandbox.Object) { o.Ready, o.Reason = false, "SandboxNotReady" })
		w.settle()
		row := w.row(s)
		assert.Equal(t, session.StateNotReady, row.State)
		assert.Equal(t, endpoints(address), row.EntryPoints)
		assert.Equal(t, int64(1), row.Generation)
	})
}

func TestReadyWithoutAnAddressIsNotReady(t *testing.T) {
	t.Parallel()
	eachKind(t, func(t *testing.T, w *world, kind string) {
		s := w.session(kind)
		w.cluster.Edit(s.Object, func(o *sandbox.Object) { o.Addresses = nil })
		w.settle()
		assert.Equal(t, session.StateNotReady, w.row(s).State)
		assert.Nil(t, w.row(s).EntryPoints)
	})
}

func TestWhatChangesNothingIsNotWritten(t *testing.T) {
	t.Parallel()
	eachKind(t, func(t *testing.T, w *world, kind string) {
		s := w.session(kind)
		w.cluster.Edit(s.Object, func(*sandbox.Object) {})
		w.settle()
		assert.Equal(t, s, w.row(s))
	})
}

func TestAClaimThatBindsAnotherSandbox(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ name, uid string }{
		"of another name":  {"pool-other", "uid-of-other"},
		"of the same name": {adopted, "uid-of-other"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in(t, func(t *testing.T, w *world) {
				s := w.session(session.KindSandboxClaim)
				w.cluster.SetSandbox(namespace, adopted, "")
				w.cluster.SetSandbox(namespace, c.name, c.uid)
				w.cluster.Edit(s.Object, func(o *sandbox.Object) { o.SandboxName = c.name })
				w.settle()
				row := w.row(s)
				assert.Equal(t, session.SandboxRef{Name: c.name, UID: c.uid}, row.Sandbox)
				assert.Equal(t, session.StateReady, row.State)
				assert.Equal(t, int64(2), row.Generation, "its state inside is new, even at the same address")
				assert.Equal(t, s.Object, row.Object)
			})
		})
	}
	t.Run("in steps counts once", func(t *testing.T) {
		t.Parallel()
		in(t, func(t *testing.T, w *world) {
			s := w.session(session.KindSandboxClaim)
			w.cluster.Edit(s.Object, func(o *sandbox.Object) { o.Ready, o.SandboxName, o.Addresses = false, "", nil })
			w.settle()
			assert.Equal(t, session.StateNotReady, w.row(s).State)
			assert.Nil(t, w.row(s).EntryPoints)
			w.cluster.SetSandbox(namespace, "pool-other", "uid-of-other")
			w.cluster.Edit(s.Object, func(o *sandbox.Object) { o.SandboxName = "pool-other" })
			w.settle()
			w.cluster.Edit(s.Object, func(o *sandbox.Object) { o.Ready, o.Addresses = true, []string{newAddress} })
			w.settle()
			row := w.row(s)
			assert.Equal(t, endpoints(newAddress), row.EntryPoints)
			assert.Equal(t, int64(2), row.Generation)
		})
	})
	t.Run("and has not noticed that its own is gone is not dialled", func(t *testing.T) {
		t.Parallel()
		in(t, func(t *testing.T, w *world) {
			s := w.session(session.KindSandboxClaim)
			w.cluster.SetSandbox(namespace, adopted, "")
			w.cluster.Edit(s.Object, func(*sandbox.Object) {})
			w.settle()
			assert.Equal(t, session.StateNotReady, w.row(s).State)
			assert.Nil(t, w.row(s).EntryPoints)
		})
	})
	t.Run("without a name has no address, whatever it says", func(t *testing.T) {
		t.Parallel()
		in(t, func(t *testing.T, w *world) {
			s := w.session(session.KindSandboxClaim)
			w.cluster.Edit(s.Object, func(o *sandbox.Object) { o.SandboxName = "" })
			w.settle()
			assert.Nil(t, w.row(s).EntryPoints)
			assert.Zero(t, w.cluster.Calls("Get"))
		})
	})
}

// Every object comes up after a start, and each question costs a call.
func TestTheSandboxOfAClaimIsAskedOnlyWhenTheRowDoesNotRestOnThisVersion(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		row  func(*session.Session)
		asks int
	}{
		"not when the row rests on this version of the claim": {func(*session.Session) {}, 0},
		"when it rests on another version":                    {func(s *session.Session) { s.ResourceVersion = "0" }, 1},
		"when it records no version":                          {func(s *session.Session) { s.ResourceVersion = "" }, 1},
		"when it names another sandbox":                       {func(s *session.Session) { s.Sandbox.Name = "other" }, 1},
		"when it knows no UID":                                {func(s *session.Session) { s.Sandbox.UID = "" }, 1},
		"when it does not know the claim's own UID":           {func(s *session.Session) { s.Object.UID = "" }, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in(t, func(t *testing.T, w *world) {
				s := w.session(session.KindSandboxClaim)
				before, err := w.fake.Update(t.Context(), s.ID, func(s *session.Session) error { c.row(s); return nil })
				require.NoError(t, err)
				w.r.Enqueue(sandbox.Event{Object: sandbox.Object{Ref: s.Object, SessionID: s.ID}})
				w.settle()
				assert.Equal(t, c.asks, w.cluster.Calls("Get"))
				row := w.row(s)
				assert.Equal(t, session.SandboxRef{Name: adopted, UID: "uid-of-adopted"}, row.Sandbox)
				assert.Equal(t, session.StateReady, row.State)
				assert.Equal(t, before.Generation, row.Generation)
			})
		})
	}
}

func TestARowThatShowsItsObjectIsReadOnceAndNotWritten(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{session.KindSandbox, session.KindSandboxClaim} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			in(t, func(t *testing.T, w *world) {
				s := w.session(kind)
				before, reads := w.row(s), w.store.Calls("Get")
				w.r.Enqueue(sandbox.Event{Object: sandbox.Object{Ref: s.Object, SessionID: s.ID}})
				w.settle()
				assert.Equal(t, reads+1, w.store.Calls("Get"))
				assert.Zero(t, w.store.Calls("Update"))
				assert.Equal(t, before, w.row(s))
			})
		})
	}
}

func TestSuspension(t *testing.T) {
	t.Parallel()
	eachKind(t, func(t *testing.T, w *world, kind string) {
		s := w.session(kind)
		// v0.4.x says Ready without an address; the pod may still be going.
		w.suspend(s, true)
		w.settle()
		row := w.row(s)
		assert.Equal(t, session.StateSuspended, row.State)
		assert.Nil(t, row.EntryPoints)
		w.suspend(s, false)
		w.cluster.Edit(s.Object, func(o *sandbox.Object) { o.Addresses = []string{newAddress} })
		w.settle()
		assert.Equal(t, session.StateReady, w.row(s).State)
		assert.Equal(t, int64(2), w.row(s).Generation)
	})
}

// suspend turns the switch of the Sandbox that serves a session. A claim shows
// only what comes of it.
func (w *world) suspend(s session.Session, suspended bool) {
	w.t.Helper()
	w.editSandbox(s, func(o *sandbox.Object) { o.Suspended = suspended })
}

// editSandbox changes the Sandbox that serves a session, and lets a claim show
// some other change.
func (w *world) editSandbox(s session.Session, change func(*sandbox.Object)) {
	w.t.Helper()
	if s.Object.Kind == session.KindSandbox {
		w.cluster.Edit(s.Object, change)
		return
	}
	w.cluster.EditSandbox(namespace, adopted, change)
	w.cluster.Edit(s.Object, func(*sandbox.Object) {})
}

func TestAResumedSandboxWhoseControllerHasNotLooked(t *testing.T) {
	t.Parallel()
	resumed := func(w *world, kind string) session.Session {
		s := w.session(kind)
		w.suspend(s, true)
		w.settle()
		require.Equal(w.t, session.StateSuspended, w.row(s).State)
		// The status says Ready, at the address of before.
		w.editSandbox(s, func(o *sandbox.Object) { o.Suspended, o.Outdated = false, true })
		w.settle()
		return s
	}
	t.Run("is not ready", func(t *testing.T) {
		t.Parallel()
		eachKind(t, func(t *testing.T, w *world, kind string) {
			row := w.row(resumed(w, kind))
			assert.Equal(t, session.StateNotReady, row.State)
			assert.Nil(t, row.EntryPoints)
			assert.Equal(t, "SandboxStatusOutdated", row.Reason)
			assert.Equal(t, int64(1), row.Generation)
		})
	})
	t.Run("is ready at the new address", func(t *testing.T) {
		t.Parallel()
		eachKind(t, func(t *testing.T, w *world, kind string) {
			s := resumed(w, kind)
			w.editSandbox(s, func(o *sandbox.Object) { o.Outdated, o.Addresses = false, []string{newAddress} })
			w.cluster.Edit(s.Object, func(o *sandbox.Object) { o.Addresses = []string{newAddress} })
			w.settle()
			assert.Equal(t, session.StateReady, w.row(s).State)
			assert.Equal(t, endpoints(newAddress), w.row(s).EntryPoints)
			assert.Equal(t, int64(2), w.row(s).Generation)
		})
	})
	t.Run("is looked at again, should a claim not tell", func(t *testing.T) {
		t.Parallel()
		in(t, func(t *testing.T, w *world) {
			s := resumed(w, session.KindSandboxClaim)
			w.cluster.EditSandbox(namespace, adopted, func(o *sandbox.Object) { o.Outdated = false })
			w.pass(time.Second)
			assert.Equal(t, session.StateReady, w.row(s).State)
		})
	})
}

// A change of the shutdown time is one of the spec too.
func TestASandboxThatServesGoesOnWhileItsStatusIsOutdated(t *testing.T) {
	t.Parallel()
	eachKind(t, func(t *testing.T, w *world, kind string) {
		s := w.session(kind)
		w.editSandbox(s, func(o *sandbox.Object) { o.Outdated = true })
		w.settle()
		assert.Equal(t, s, w.row(s))
	})
}

func TestAnObjectWhoseTimeIsOverEndsItsSession(t *testing.T) {
	t.Parallel()
	for reason, want := range map[string]string{
		"SandboxExpired": session.ReasonExpired, "ClaimExpired": session.ReasonExpired,
		"PodFailed": session.ReasonFailed, "PodSucceeded": session.ReasonFailed,
	} {
		t.Run(reason, func(t *testing.T) {
			t.Parallel()
			eachKind(t, func(t *testing.T, w *world, kind string) {
				s := w.session(kind)
				w.cluster.Before("Delete", func() {
					assert.Equal(t, session.StateDeleting, w.row(s).State)
					assert.Equal(t, want, w.row(s).Reason)
				})
				w.cluster.Edit(s.Object, func(o *sandbox.Object) {
					o.Ready, o.Failure = false, &sandbox.Failure{Reason: reason, Ended: true}
				})
				w.settle()
				w.purged(s)
				assert.Empty(t, w.cluster.Objects())
				assert.Equal(t, 1, w.cluster.Calls("Delete"))
			})
		})
	}
	t.Run("or is left to the collector if the API server is away", func(t *testing.T) {
		t.Parallel()
		in(t, func(t *testing.T, w *world) {
			s := w.session(session.KindSandbox)
			w.cluster.FailNext("Delete", clustertest.ErrDown)
			w.cluster.Edit(s.Object, func(o *sandbox.Object) { o.Failure = &sandbox.Failure{Reason: "PodFailed", Ended: true} })
			w.pass(time.Minute)
			assert.Equal(t, session.StateDeleting, w.row(s).State)
			assert.Len(t, w.cluster.Objects(), 1)
		})
	})
	t.Run("but a failure that is no end is not ready", func(t *testing.T) {
		t.Parallel()
		in(t, func(t *testing.T, w *world) {
			s := w.session(session.KindSandbox)
			w.cluster.Edit(s.Object, func(o *sandbox.Object) {
				o.Ready, o.Failure = false, &sandbox.Failure{Reason: "InvalidMetadata"}
			})
			w.settle()
			assert.Equal(t, session.StateNotReady, w.row(s).State)
		})
	})
	t.Run("and not another's that took the row meanwhile", func(t *testing.T) {
		t.Parallel()
		in(t, func(t *testing.T, w *world) {
			s := w.session(session.KindSandbox)
			w.store.Before("Update", func() {
				w.change(s, func(s *session.Session) { s.Object.UID, s.Sandbox.UID = "uid-new", "uid-new" })
			})
			w.cluster.Edit(s.Object, func(o *sandbox.Object) { o.Failure = &sandbox.Failure{Reason: "PodFailed", Ended: true} })
			w.settle()
			assert.Equal(t, session.StateReady, w.row(s).State)
			assert.Zero(t, w.cluster.Calls("Delete"))
		})
	})
}

func TestALabel(t *testing.T) {
	t.Parallel()
	for name, label := range map[string]string{"taken off": "", "changed": "00000000-0000-4000-8000-000000000000", "changed to nonsense": "x"} {
		t.Run(name+" is restored", func(t *testing.T) {
			t.Parallel()
			eachKind(t, func(t *testing.T, w *world, kind string) {
				s := w.session(kind)
				w.cluster.Edit(s.Object, func(o *sandbox.Object) { o.SessionID = label })
				w.settle()
				assert.Equal(t, s, w.row(s), "the session lives")
				require.Len(t, w.cluster.Objects(), 1)
				assert.Equal(t, s.ID, w.cluster.Objects()[0].SessionID)
			})
		})
	}
	t.Run("of an object that the row does not know by UID is not", func(t *testing.T) {
		t.Parallel()
		in(t, func(t *testing.T, w *world) {
			s := w.session(session.KindSandboxClaim)
			s = w.change(s, func(s *session.Session) { s.Object.UID = "" })
			w.cluster.Edit(s.Object, func(o *sandbox.Object) { o.SessionID = "" })
			w.settle()
			assert.Equal(t, s, w.row(s))
			assert.Zero(t, w.cluster.Calls("SetSessionLabel"))
		})
	})
	t.Run("that cannot be restored is tried again", func(t *testing.T) {
		t.Parallel()
		in(t, func(t *testing.T, w *world) {
			s := w.session(session.KindSandbox)
			w.cluster.FailNext("SetSessionLabel", sandbox.ErrConflict)
			w.cluster.Edit(s.Object, func(o *sandbox.Object) { o.SessionID = "" })
			w.pass(time.Second)
			assert.Equal(t, s.ID, w.cluster.Objects()[0].SessionID)
		})
	})
	t.Run("copied to another object touches nothing", func(t *testing.T) {
		t.Parallel()
		in(t, func(t *testing.T, w *world) {
			s := w.session(session.KindSandbox)
			copied := w.cluster.Put(sandbox.Object{
				Ref:       session.ObjectRef{Kind: session.KindSandbox, Namespace: namespace, Name: "copy"},
				SessionID: s.ID, Ready: true, Addresses: []string{newAddress}, SandboxName: "copy", SandboxUID: "uid-copy",
			})
			w.settle()
			assert.Equal(t, s, w.row(s))
			w.cluster.Edit(copied.Ref, func(o *sandbox.Object) { o.Failure = &sandbox.Failure{Ended: true} })
			w.settle()
			w.cluster.Kill(copied.Ref)
			w.settle()
			assert.Equal(t, s, w.row(s))
			assert.Zero(t, w.cluster.Calls("Delete"), "whose it is, the resync finds out")
		})
	})
}

func TestEventsThatArriveLate(t *testing.T) {
	t.Parallel()
	t.Run("a deletion does not purge the row of an object made anew", func(t *testing.T) {
		t.Parallel()
		in(t, func(t *testing.T, w *world) {
			s := w.session(session.KindSandbox)
			old := w.cluster.Objects()[0]
			w.stop() // a replica that lags
			w.cluster.Kill(s.Object)
			anew := w.cluster.Put(sandbox.Object{
				Ref:       session.ObjectRef{Kind: s.Object.Kind, Namespace: namespace, Name: s.Object.Name},
				SessionID: s.ID,
			})
			s = w.change(s, func(s *session.Session) { s.Object, s.Sandbox = anew.Ref, session.SandboxRef{} })
			w.again(func() { w.r.Enqueue(sandbox.Event{Object: old, Deleted: true, Proof: true}) })
			assert.Equal(t, s.Object, w.row(s).Object)
		})
	})
	t.Run("an object made anew by someone else under the name ends the old session", func(t *testing.T) {
		t.Parallel()
		in(t, func(t *testing.T, w *world) {
			s := w.session(session.KindSandbox)
			w.cluster.Kill(s.Object)
			w.cluster.Put(sandbox.Object{
				Ref:       session.ObjectRef{Kind: s.Object.Kind, Namespace: namespace, Name: s.Object.Name},
				SessionID: s.ID, Ready: true, Addresses: []string{newAddress},
			})
			w.settle()
			w.purged(s)
			assert.Len(t, w.cluster.Objects(), 1, "the stranger's object is untouched")
		})
	})
	t.Run("a tombstone is confirmed by a direct read", func(t *testing.T) {
		t.Parallel()
		in(t, func(t *testing.T, w *world) {
			s := w.session(session.KindSandbox)
			o := w.cluster.Objects()[0]
			w.r.Enqueue(sandbox.Event{Object: o, Deleted: true})
			w.settle()
			assert.Equal(t, s, w.row(s), "it is there")
		})
	})
	t.Run("an object without our label is ignored", func(t *testing.T) {
		t.Parallel()
		in(t, func(t *testing.T, w *world) {
			w.r.Enqueue(sandbox.Event{Object: sandbox.Object{SessionID: ""}})
			w.r.Enqueue(sandbox.Event{Object: sandbox.Object{SessionID: "expiry"}, Deleted: true})
			assert.Zero(t, w.r.Len())
			w.settle()
			assert.Zero(t, w.store.Calls("Get"))
		})
	})
	t.Run("an object that no row names is left to the resync", func(t *testing.T) {
		t.Parallel()
		in(t, func(t *testing.T, w *world) {
			w.cluster.Put(sandbox.Object{
				Ref:       session.ObjectRef{Kind: session.KindSandbox, Namespace: namespace, Name: "orphan"},
				SessionID: uuid.NewString(),
			})
			w.pass(time.Minute)
			assert.Len(t, w.cluster.Objects(), 1)
			assert.Equal(t, 1, w.store.Calls("Get"))
		})
	})
	t.Run("a row that rests on a newer object wins", func(t *testing.T) {
		t.Parallel()
		in(t, func(t *testing.T, w *world) {
			s := w.session(session.KindSandbox)
			s = w.change(s, func(s *session.Session) { s.ResourceVersion = "1000000" })
			w.cluster.Edit(s.Object, func(o *sandbox.Object) { o.Addresses = []string{newAddress} })
			w.pass(time.Minute)
			assert.Equal(t, s, w.row(s))
			assert.Equal(t, 1, w.store.Calls("Update"), "and is not asked again")
		})
	})
	t.Run("a row that was removed is not made anew", func(t *testing.T) {
		t.Parallel()
		in(t, func(t *testing.T, w *world) {
			s := w.session(session.KindSandbox)
			w.store.Before("Update", func() {
				require.NoError(t, w.fake.Remove(t.Context(), s.ID, func(session.Session) error { return nil }))
			})
			w.cluster.Edit(s.Object, func(o *sandbox.Object) { o.Addresses = []string{newAddress} })
			w.pass(time.Minute)
			w.purged(s)
			assert.Equal(t, 1, w.store.Calls("Update"))
		})
	})
}

// again runs another Reconciler over the same store and cluster for a moment.
func (w *world) again(do func()) {
	w.t.Helper()
	w.r = reconcile.New(w.clock, zap.NewNop(), w.store, w.cluster, w.cluster.Cache(), nil, reconcile.Options{
		Workers: 1, SyncBound: syncBound, Newer: newer,
	})
	ctx, cancel := context.WithCancel(w.t.Context())
	done := make(chan error, 1)
	go func() { done <- w.r.Run(ctx) }()
	do()
	synctest.Wait()
	cancel()
	require.NoError(w.t, <-done)
}

func TestTheWatchThatMissedADeletion(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, w *world) {
		s := w.session(session.KindSandbox)
		o := w.cluster.Objects()[0]
		w.cluster.Edit(s.Object, func(o *sandbox.Object) { o.SessionID = "" })
		w.settle()
		require.Equal(t, 1, w.cluster.Calls("SetSessionLabel"))
		w.cluster.Before("Get", func() { w.cluster.Freeze(); w.cluster.Kill(o.Ref) })
		w.cluster.Edit(s.Object, func(o *sandbox.Object) { o.SessionID = "" })
		w.settle()
		w.purged(s)
	})
}

func TestASessionThatIsBeingCreatedIsLookedAtAgain(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, w *world) {
		s := w.session(session.KindSandbox)
		w.change(s, func(s *session.Session) { s.State, s.Generation, s.EntryPoints = session.StateCreating, 0, nil })
		// The creator has seen the first address; this is after it.
		w.cluster.Edit(s.Object, func(o *sandbox.Object) { o.Ready, o.Addresses = false, nil })
		w.settle()
		assert.Equal(t, session.StateCreating, w.row(s).State)
		_, err := w.fake.Update(t.Context(), s.ID, session.Commit("token", session.Observed{
			State: session.StateReady, Object: s.Object, Sandbox: s.Sandbox, Address: address, ResourceVersion: s.ResourceVersion,
		}))
		require.NoError(t, err)
		assert.Equal(t, session.StateReady, w.row(s).State)
		w.pass(time.Second)
		assert.Equal(t, session.StateNotReady, w.row(s).State, "a commit that rests on an older object is mended")
		assert.Nil(t, w.row(s).EntryPoints)
	})
}

func TestASessionThatIsBeingDeletedIsLeftAlone(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, w *world) {
		s := w.session(session.KindSandbox)
		s = w.change(s, func(s *session.Session) { s.State = session.StateDeleting })
		before := w.store.Calls("Get")
		w.cluster.Edit(s.Object, func(o *sandbox.Object) { o.Failure = &sandbox.Failure{Ended: true} })
		w.pass(time.Minute)
		assert.Equal(t, s, w.row(s))
		assert.Equal(t, before+1, w.store.Calls("Get"))
	})
}

func TestWhatFailsIsTriedAgain(t *testing.T) {
	t.Parallel()
	for name, arm := range map[string]func(w *world, s session.Session){
		"the row cannot be read": func(w *world, s session.Session) {
			w.store.FailNext("Get", session.ErrUnavailable)
			w.cluster.Kill(s.Object)
		},
		"the object cannot be read": func(w *world, s session.Session) {
			w.cluster.FailNext("Get", clustertest.ErrDown)
			w.cluster.Kill(s.Object)
		},
		"the row cannot be purged": func(w *world, s session.Session) {
			w.store.FailNext("Remove", session.ErrUnavailable)
			w.cluster.Kill(s.Object)
		},
		"the purge's answer is lost": func(w *world, s session.Session) {
			w.store.FailAfter("Remove", session.ErrUnavailable)
			w.cluster.Kill(s.Object)
		},
		"the row cannot be marked": func(w *world, s session.Session) {
			w.store.FailNext("Update", session.ErrUnavailable)
			w.cluster.Edit(s.Object, func(o *sandbox.Object) { o.Failure = &sandbox.Failure{Ended: true} })
		},
		"the store hangs": func(w *world, s session.Session) {
			release := w.store.Block("Get")
			w.clock.AfterFunc(syncBound+time.Second, release)
			w.cluster.Kill(s.Object)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in(t, func(t *testing.T, w *world) {
				s := w.session(session.KindSandbox)
				arm(w, s)
				w.pass(syncBound + 2*time.Second)
				w.purged(s)
				assert.Empty(t, w.cluster.Objects())
			})
		})
	}
	for name, arm := range map[string]func(w *world){
		"the row cannot be refreshed":        func(w *world) { w.store.FailNext("Update", session.ErrUnavailable) },
		"the claim's sandbox cannot be read": func(w *world) { w.cluster.FailNext("Get", clustertest.ErrDown) },
		"the refresh's answer is lost":       func(w *world) { w.store.FailAfter("Update", session.ErrUnavailable) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in(t, func(t *testing.T, w *world) {
				s := w.session(session.KindSandboxClaim)
				arm(w)
				w.cluster.Edit(s.Object, func(o *sandbox.Object) { o.Addresses = []string{newAddress} })
				w.pass(time.Second)
				assert.Equal(t, endpoints(newAddress), w.row(s).EntryPoints)
				assert.Equal(t, int64(2), w.row(s).Generation)
			})
		})
	}
}

func TestTheBackOffIsCapped(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, w *world) {
		s := w.session(session.KindSandbox)
		w.cluster.Down(clustertest.ErrDown)
		w.cluster.Kill(s.Object)
		w.settle()
		assert.Equal(t, 1, w.cluster.Calls("Get"))
		w.pass(20 * time.Millisecond)
		assert.Equal(t, 2, w.cluster.Calls("Get"), "the first retry comes soon")
		w.pass(20 * time.Minute)
		calls := w.cluster.Calls("Get")
		assert.Less(t, calls, 200)
		w.cluster.Down(nil)
		w.pass(10 * time.Second)
		w.purged(s)
		assert.Equal(t, calls+1, w.cluster.Calls("Get"))
	})
	t.Run("and forgotten once it worked", func(t *testing.T) {
		t.Parallel()
		in(t, func(t *testing.T, w *world) {
			s := w.session(session.KindSandboxClaim)
			w.cluster.Down(clustertest.ErrDown)
			w.cluster.Edit(s.Object, func(o *sandbox.Object) { o.Addresses = []string{newAddress} })
			w.pass(time.Minute)
			w.cluster.Down(nil)
			w.pass(10 * time.Second)
			require.Equal(t, endpoints(newAddress), w.row(s).EntryPoints)
			w.cluster.FailNext("Get", clustertest.ErrDown)
			w.cluster.Edit(s.Object, func(o *sandbox.Object) { o.Addresses = []string{address} })
			w.pass(20 * time.Millisecond)
			assert.Equal(t, endpoints(address), w.row(s).EntryPoints)
		})
	})
}

func TestRunStopsCleanly(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, w *world) {
		s := w.session(session.KindSandbox)
		w.cluster.Hang("Get")
		w.cluster.Kill(s.Object)
		w.settle()
		w.stop()
		assert.Zero(t, w.clock.Since(w.start), "a sync under way ends with the context")
		assert.Contains(t, w.fake.Rows(), s.ID)
		before := w.store.Calls("Get")
		w.r.Enqueue(sandbox.Event{Object: sandbox.Object{Ref: s.Object, SessionID: s.ID}})
		w.settle()
		assert.Equal(t, before, w.store.Calls("Get"))
	})
}

func TestSyncsRunAtATime(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, w *world) {
		var running, most atomic.Int32
		for range 20 {
			s := w.session(session.KindSandbox)
			w.cluster.On("Get", func(ctx context.Context) error {
				most.Store(max(most.Load(), running.Add(1)))
				defer running.Add(-1)
				timer := w.clock.NewTimer(time.Second)
				defer timer.Stop()
				select {
				case <-timer.C():
				case <-ctx.Done():
				}
				return nil
			})
			_ = s
		}
		for _, o := range w.cluster.Objects() {
			w.cluster.Kill(o.Ref)
		}
		w.settle()
		assert.Equal(t, 16, w.r.Len())
		w.pass(5 * time.Second)
		assert.Equal(t, int32(4), most.Load())
		assert.Empty(t, w.fake.Rows())
	})
}

func TestNothingRunsBeforeRunAndNothingIsLost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t}
		w.fake = sessiontest.NewFake(w.clock)
		w.cluster = clustertest.New(w.clock)
		r := reconcile.New(w.clock, zap.NewNop(), w.fake, w.cluster, w.cluster.Cache(), nil, reconcile.Options{
			Workers: 1, SyncBound: syncBound, Newer: newer,
		})
		w.cluster.OnEvent(r.Enqueue)
		s := w.session(session.KindSandbox)
		w.cluster.Kill(s.Object)
		assert.Equal(t, 2, r.Len(), "that it came, and that it went")
		assert.Contains(t, w.fake.Rows(), s.ID)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- r.Run(ctx) }()
		w.settle()
		w.purged(s)
		cancel()
		require.NoError(t, <-done)
		// The bubble fails if a Reconciler that never runs left a goroutine.
		reconcile.New(w.clock, zap.NewNop(), w.fake, w.cluster, w.cluster.Cache(), nil, reconcile.Options{})
	})
}
