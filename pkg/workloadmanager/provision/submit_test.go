package provision_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/agentcube/agentcube/pkg/sandbox"
	"github.com/agentcube/agentcube/pkg/session"
	"github.com/agentcube/agentcube/pkg/workloadmanager/clustertest"
	"github.com/agentcube/agentcube/pkg/workloadmanager/provision"
)

var (
	key      = session.RetryKey{Name: "key", Body: "body"}
	refusal  = &sandbox.RejectedError{Kind: sandbox.RejectQuota, Message: "exceeded quota"}
	slow     = 20 * time.Second // how long a slow sandbox takes to be ready
	deadline = 40 * time.Second // for the take-over of a dead creator: its heartbeat, and two periods of it
)

// ordered is a call for what is ordered; asked counts how often.
func ordered(k session.RetryKey, asked *int) provision.Call {
	return provision.Call{Key: k, Order: func(context.Context) (provision.Request, error) {
		if asked != nil {
			*asked++
		}
		return direct(), nil
	}}
}

func async(call provision.Call) provision.Call {
	call.Async = true
	return call
}

// replica is another process on the same store and cluster.
func (w *world) replica(process string) *provision.Provisioner {
	return provision.New(w.clock, zap.NewNop(), w.store, w.cluster, w.cluster.Cache(), w.cluster, w.prober,
		provision.Options{Process: process, Installation: installation})
}

// beat keeps a process alive until the test ends, or stop is called.
func (w *world) beat(process string) (stop func()) {
	ctx, cancel := context.WithCancel(w.t.Context())
	require.NoError(w.t, w.fake.Beat(ctx, process))
	go func() {
		ticker := w.clock.NewTicker(5 * time.Second)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C():
				_ = w.fake.Beat(ctx, process)
			}
		}
	}()
	return cancel
}

// drained is the end of all that goes on without a request.
func (w *world) drained(all ...*provision.Provisioner) {
	w.t.Helper()
	for _, p := range append(all, w.p) {
		p.Drain(w.t.Context())
		require.NoError(w.t, p.Wait(w.t.Context()))
	}
}

func (w *world) keyIsFree() {
	w.t.Helper()
	_, err := w.fake.KeyHolder(w.t.Context(), key.Name)
	require.ErrorIs(w.t, err, session.ErrNotFound)
}

func TestFiftyEqualCallsOnTwoReplicasMakeOneSession(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, w *world) {
		defer w.beat(process)()
		defer w.beat("manager-2")()
		w.cluster.OnCreate(w.after(slow, ready))
		other := w.replica("manager-2")
		replicas := []*provision.Provisioner{w.p, other}
		got := make([]session.Session, 50)
		var all sync.WaitGroup
		for i := range got {
			all.Go(func() {
				var err error
				got[i], err = replicas[i%2].Submit(t.Context(), ordered(key, nil))
				assert.NoError(t, err)
			})
		}
		all.Wait()
		row := w.row()
		for _, s := range got {
			assert.Equal(t, row, s)
		}
		assert.Equal(t, row.ID, w.only().SessionID)
		assert.Equal(t, 1, w.cluster.Calls("Create"))
		assert.LessOrEqual(t, w.took(), slow+time.Second)
		w.drained(other)
	})
}

func TestALaterCallGetsTheSessionOfItsKey(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, w *world) {
		asked := 0
		first, err := w.p.Submit(t.Context(), ordered(key, &asked))
		require.NoError(t, err)
		w.pass(time.Hour)
		again, err := w.replica("manager-2").Submit(t.Context(), ordered(key, &asked))
		require.NoError(t, err)
		assert.Equal(t, first, again)
		assert.Equal(t, 1, asked, "the template may be gone by then")

		_, err = w.p.Submit(t.Context(), ordered(session.RetryKey{Name: key.Name, Body: "another"}, &asked))
		require.ErrorIs(t, err, provision.ErrKeyReused)
		other, err := w.p.Submit(t.Context(), ordered(session.RetryKey{Name: "other", Body: key.Body}, nil))
		require.NoError(t, err)
		assert.NotEqual(t, first.ID, other.ID)
		w.drained()
	})
}

func TestAKeyIsRefusedToAnotherBodyWhileItsSessionIsMade(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, w *world) {
		w.cluster.OnCreate(w.after(slow, ready))
		go func() { _, _ = w.p.Submit(t.Context(), ordered(key, nil)) }()
		synctest.Wait()
		_, err := w.p.Submit(t.Context(), ordered(session.RetryKey{Name: key.Name, Body: "another"}, nil))
		require.ErrorIs(t, err, provision.ErrKeyReused)
		assert.Zero(t, w.took())
		w.drained()
	})
}

func TestAClientThatHangsUpWithAKeyFindsItsSession(t *testing.T) {
	t.Parallel()
	for name, arm := range moments {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in(t, func(t *testing.T, w *world) {
				ctx, hangUp := context.WithCancel(t.Context())
				defer hangUp()
				arm(w, hangUp)
				switch name { // whose objects get ready only if somebody makes them
				case "before the answer":
					w.cluster.OnCreate(func(o sandbox.Object) { hangUp(); w.makeReady(o) })
				case "while the sandbox starts":
					w.cluster.OnCreate(w.after(slow, ready))
				}
				_, err := w.p.Submit(ctx, ordered(key, nil))
				if err != nil { // it hung up before the session was there
					require.ErrorIs(t, err, provision.ErrClientGone)
				}
				again, err := w.p.Submit(t.Context(), ordered(key, nil))
				require.NoError(t, err)
				assert.Equal(t, w.row(), again)
				assert.Equal(t, session.StateReady, again.State)
				assert.Equal(t, 1, w.cluster.Calls("Create"))
				w.drained()
			})
		})
	}
}

func TestACreateThatFailedFreesItsKey(t *testing.T) {
	t.Parallel()
	t.Run("and the next call is a new attempt", func(t *testing.T) {
		t.Parallel()
		in(t, func(t *testing.T, w *world) {
			w.cluster.FailNext("Create", refusal)
			_, err := w.p.Submit(t.Context(), ordered(key, nil))
			require.ErrorIs(t, err, refusal)
			w.keyIsFree()
			w.nothingLeft()
			s, err := w.p.Submit(t.Context(), ordered(key, nil))
			require.NoError(t, err)
			assert.Equal(t, w.row(), s)
			w.drained()
		})
	})
	t.Run("and who waited for it makes an attempt", func(t *testing.T) {
		t.Parallel()
		in(t, func(t *testing.T, w *world) {
			defer w.beat(process)()
			fail := w.after(slow, func(o *sandbox.Object) { o.Failure = &sandbox.Failure{Reason: "PodFailed"} })
			w.cluster.OnCreate(func(o sandbox.Object) {
				w.cluster.OnCreate(w.makeReady) // the next one
				fail(o)
			})
			var failed *provision.FailedError
			ended := make(chan error, 1)
			go func() {
				_, err := w.p.Submit(t.Context(), ordered(key, nil))
				ended <- err
			}()
			synctest.Wait()
			other := w.replica("manager-2")
			s, err := other.Submit(t.Context(), ordered(key, nil))
			require.NoError(t, err)
			require.ErrorAs(t, <-ended, &failed)
			assert.Equal(t, w.row(), s)
			assert.Equal(t, s.ID, w.only().SessionID)
			w.drained(other)
		})
	})
	t.Run("also while what it made may still appear", func(t *testing.T) {
		t.Parallel()
		in(t, func(t *testing.T, w *world) {
			w.cluster.FailNext("Create", clustertest.ErrUnanswered)
			_, err := w.p.Submit(t.Context(), ordered(key, nil))
			require.Error(t, err)
			assert.Equal(t, session.StateDeleting, w.row().State)
			w.keyIsFree()
			s, err := w.p.Submit(t.Context(), ordered(key, nil))
			require.NoError(t, err)
			holder, err := w.fake.KeyHolder(t.Context(), key.Name)
			require.NoError(t, err)
			assert.Equal(t, s.ID, holder.ID)
			w.drained()
			w.pass(unknownBound)
			for id, row := range w.fake.Rows() {
				if row.State == session.StateDeleting {
					require.NoError(t, w.p.Finish(t.Context(), row, true), id)
				}
			}
			assert.Equal(t, s, w.row())
			assert.Equal(t, s.ID, w.only().SessionID)
		})
	})
	t.Run("also when nobody knows whether it was reserved", func(t *testing.T) {
		t.Parallel()
		in(t, func(t *testing.T, w *world) {
			w.store.FailAfter("Create", session.ErrUnavailable)
			_, err := w.p.Submit(t.Context(), ordered(key, nil))
			require.ErrorIs(t, err, session.ErrUnavailable)
			w.nothingLeft()
			w.keyIsFree()
		})
	})
}

func TestASessionThatWasDeletedWhileItWasMadeFreesItsKey(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, w *world) {
		w.cluster.OnCreate(never)
		ended := make(chan error, 1)
		go func() { _, err := w.p.Submit(t.Context(), ordered(key, nil)); ended <- err }()
		synctest.Wait()
		require.NoError(t, w.p.Delete(t.Context(), w.row().ID, session.ReasonDeleted))
		w.keyIsFree()
		require.ErrorIs(t, <-ended, provision.ErrDeleted)
		w.drained()
		w.nothingLeft()
	})
}

func TestTheKeyOfASessionThatEnded(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, w *world) {
		first, err := w.p.Submit(t.Context(), ordered(key, nil))
		require.NoError(t, err)
		w.cluster.Before("Delete", func() { // the row is deleting
			_, err := w.p.Submit(t.Context(), ordered(key, nil))
			assert.ErrorIs(t, err, provision.ErrEnded)
		})
		require.NoError(t, w.p.Delete(t.Context(), first.ID, session.ReasonDeleted))
		w.pass(time.Hour - time.Millisecond)
		_, err = w.p.Submit(t.Context(), ordered(key, nil))
		require.ErrorIs(t, err, provision.ErrEnded)
		_, err = w.p.Submit(t.Context(), ordered(session.RetryKey{Name: key.Name, Body: "another"}, nil))
		require.ErrorIs(t, err, provision.ErrKeyReused)
		w.pass(time.Millisecond)
		next, err := w.p.Submit(t.Context(), ordered(key, nil))
		require.NoError(t, err)
		assert.NotEqual(t, first.ID, next.ID)
		w.drained()
	})
}

func TestASessionWhoseTimeIsOverHasEnded(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, w *world) {
		_, err := w.p.Submit(t.Context(), ordered(key, nil))
		require.NoError(t, err)
		w.pass(8 * time.Hour) // and nobody has collected it
		_, err = w.p.Submit(t.Context(), ordered(key, nil))
		require.ErrorIs(t, err, provision.ErrEnded)
		w.drained()
	})
}

func TestTheKeyOfACreatorThatDiedIsTakenOver(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, w *world) {
		stop := w.beat("dead")
		w.cluster.OnCreate(never)
		dead := w.replica("dead")
		died, die := context.WithCancel(t.Context())
		defer die()
		lost := make(chan error, 1)
		go func() { _, err := dead.Submit(died, ordered(key, nil)); lost <- err }()
		synctest.Wait()
		stop()
		w.cluster.OnCreate(w.makeReady)

		s, err := w.p.Submit(t.Context(), ordered(key, nil))
		require.NoError(t, err)
		assert.LessOrEqual(t, w.took(), deadline)
		assert.GreaterOrEqual(t, w.took(), 20*time.Second, "while it had a heartbeat it might have lived")
		// It was only slow, as it turns out: its create is lost all the same.
		require.ErrorIs(t, <-lost, provision.ErrDeleted)
		w.drained(dead)
		assert.Equal(t, s, w.row())
		assert.Equal(t, s.ID, w.only().SessionID)
		holder, err := w.fake.KeyHolder(t.Context(), key.Name)
		require.NoError(t, err)
		assert.Equal(t, s.ID, holder.ID)
	})
}

func TestWhatATakeOverLeavesIsUndoneByTheCollector(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, w *world) {
		row := session.Session{
			ID:     "3f8a4c1e-0000-4000-8000-000000000001",
			Object: session.ObjectRef{Kind: session.KindSandbox, Namespace: namespace, Name: "echo-dead0000"},
			State:  session.StateCreating, CreatedAt: w.start.UTC(), Key: key,
			Creator: session.Creator{Process: "dead", Token: "token"},
		}
		_, err := w.fake.Create(t.Context(), row)
		require.NoError(t, err)
		s, err := w.p.Submit(t.Context(), ordered(key, nil))
		require.NoError(t, err)
		left := w.fake.Rows()[row.ID]
		assert.Equal(t, session.StateDeleting, left.State)
		assert.Equal(t, session.ReasonFailed, left.Reason)
		assert.Equal(t, w.clock.Now().Add(unknownBound).UTC(), left.UnknownUntil, "its last call may still be carried out")
		w.indexesAgree()
		assert.NotEqual(t, row.ID, s.ID)
		w.drained()
	})
}

func TestACreatorThatLivesIsWaitedFor(t *testing.T) {
	t.Parallel()
	for name, silence := range map[string]time.Duration{
		"and beats": 0,
		"and cannot beat for a while, as all can": 9 * time.Second,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in(t, func(t *testing.T, w *world) {
				other := w.replica("manager-2")
				w.cluster.OnCreate(w.after(100*time.Second, ready))
				if silence == 0 {
					defer w.beat("manager-2")()
				} else {
					w.clock.AfterFunc(silence, func() { w.beat("manager-2") })
				}
				go func() { _, _ = other.Submit(t.Context(), ordered(key, nil)) }()
				synctest.Wait()
				s, err := w.p.Submit(t.Context(), ordered(key, nil))
				require.NoError(t, err)
				assert.Equal(t, "manager-2", s.Creator.Process)
				assert.Equal(t, w.row(), s)
				w.drained(other)
			})
		})
	}
}

func TestAWaitHasTheBoundOfACreate(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, w *world) {
		defer w.beat("manager-2")()
		row := session.Session{
			ID:     "3f8a4c1e-0000-4000-8000-000000000001",
			Object: session.ObjectRef{Kind: session.KindSandbox, Namespace: namespace, Name: "echo-slow0000"},
			State:  session.StateCreating, CreatedAt: w.start.UTC(), Key: key,
			Creator: session.Creator{Process: "manager-2", Token: "token"},
		}
		_, err := w.fake.Create(t.Context(), row)
		require.NoError(t, err)
		_, err = w.p.Submit(t.Context(), ordered(key, nil))
		timeout := &provision.TimeoutError{}
		require.ErrorAs(t, err, &timeout)
		assert.Equal(t, "the create that began with this idempotency key", timeout.Waiting)
		assert.Equal(t, createBound, w.took())

		ctx, hangUp := context.WithTimeoutCause(t.Context(), time.Second, context.Canceled)
		defer hangUp()
		_, err = w.p.Submit(ctx, ordered(key, nil))
		require.ErrorIs(t, err, provision.ErrClientGone)
		assert.Equal(t, row.ID, w.row().ID, "it is not ours to undo")
	})
}

func TestAStoreThatIsAwayEndsAWait(t *testing.T) {
	t.Parallel()
	for _, method := range []string{"KeyHolder", "Get", "Alive"} {
		t.Run(method, func(t *testing.T) {
			t.Parallel()
			in(t, func(t *testing.T, w *world) {
				row := session.Session{
					ID:     "3f8a4c1e-0000-4000-8000-000000000001",
					Object: session.ObjectRef{Kind: session.KindSandbox, Namespace: namespace, Name: "echo-slow0000"},
					State:  session.StateCreating, CreatedAt: w.start.UTC(), Key: key,
					Creator: session.Creator{Process: "manager-2", Token: "token"},
				}
				_, err := w.fake.Create(t.Context(), row)
				require.NoError(t, err)
				w.store.FailNext(method, session.ErrUnavailable)
				_, err = w.p.Submit(t.Context(), ordered(key, nil))
				require.ErrorIs(t, err, session.ErrUnavailable)
				assert.Equal(t, session.StateCreating, w.row().State)
			})
		})
	}
}

// told is a follower of the store that tells at once.
type told struct{ changed chan struct{} }

func (c told) Subscribe(string) (<-chan struct{}, func()) { return c.changed, func() {} }

func TestWhoIsToldOfChangesWaitsNoLonger(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, w *world) {
		w.cluster.OnCreate(w.after(1300*time.Millisecond, ready))
		c := told{make(chan struct{})}
		other := provision.New(w.clock, zap.NewNop(), w.store, w.cluster, w.cluster.Cache(), w.cluster, w.prober,
			provision.Options{Process: "manager-2", Installation: installation, Changes: c})
		go func() {
			_, err := w.p.Submit(t.Context(), ordered(key, nil))
			assert.NoError(t, err)
			c.changed <- struct{}{}
		}()
		synctest.Wait()
		_, err := other.Submit(t.Context(), ordered(key, nil))
		require.NoError(t, err)
		assert.Equal(t, 1300*time.Millisecond, w.took())
		w.drained(other)
	})
}
