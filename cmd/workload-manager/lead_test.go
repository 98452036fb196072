package main

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/clock"
)

// patience is how long a replica may take to see that the lease is free: the
// elector waits up to 2.2 retry periods between two looks.
const patience = 3 * retryPeriod

// leases is the API server of the one lease, with the conflict that a stale
// update meets.
type leases struct {
	mu     sync.Mutex
	stored *coordinationv1.Lease
}

func (l *leases) holder() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stored == nil {
		return ""
	}
	return *l.stored.Spec.HolderIdentity
}

func (l *leases) react(action clienttesting.Action) (bool, runtime.Object, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	resource := schema.GroupResource{Resource: "leases"}
	switch a := action.(type) {
	case clienttesting.UpdateAction: // a CreateAction has the same methods
		lease := a.GetObject().(*coordinationv1.Lease).DeepCopy()
		if action.GetVerb() == "create" && l.stored != nil {
			return true, nil, apierrors.NewAlreadyExists(resource, leaseName)
		}
		version := 0
		if l.stored != nil {
			if lease.ResourceVersion != l.stored.ResourceVersion {
				return true, nil, apierrors.NewConflict(resource, leaseName, errors.New("changed meanwhile"))
			}
			version, _ = strconv.Atoi(l.stored.ResourceVersion)
		}
		lease.ResourceVersion = strconv.Itoa(version + 1)
		l.stored = lease
		return true, lease.DeepCopy(), nil
	default:
		if l.stored == nil {
			return true, nil, apierrors.NewNotFound(resource, leaseName)
		}
		return true, l.stored.DeepCopy(), nil
	}
}

// election is all replicas that want the lease.
type election struct {
	t       *testing.T
	clock   clock.RealClock
	leases  *leases
	working atomic.Int32 // across the replicas
}

// replica is one of them. Its work ends as late as ends says after it was told
// to.
type replica struct {
	*election
	name   string
	ends   time.Duration
	refuse atomic.Pointer[func(clienttesting.Action) error]
	terms  atomic.Int32
	began  chan struct{}
	ended  chan time.Time
	stop   context.CancelFunc
	done   chan error
}

func elect(t *testing.T, test func(e *election)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(&election{t: t, leases: &leases{}}) })
}

func (e *election) replica(name string, ends time.Duration) *replica {
	r := &replica{
		election: e, name: name, ends: ends,
		began: make(chan struct{}, 10), ended: make(chan time.Time, 10), done: make(chan error, 1),
	}
	kube := &fake.Clientset{}
	kube.AddReactor("*", "leases", func(action clienttesting.Action) (bool, runtime.Object, error) {
		if refuse := r.refuse.Load(); refuse != nil {
			if err := (*refuse)(action); err != nil {
				return true, nil, err
			}
		}
		return e.leases.react(action)
	})
	a := &app{log: zap.NewNop(), clock: e.clock, process: name, clients: clients{kube: kube}}
	ctx, stop := context.WithCancel(e.t.Context())
	r.stop = stop
	go func() { r.done <- a.lead(ctx, r.work) }()
	return r
}

func (r *replica) work(ctx context.Context) error {
	assert.Equal(r.t, int32(1), r.working.Add(1), "two terms overlap")
	defer r.working.Add(-1)
	r.terms.Add(1)
	r.began <- struct{}{}
	<-ctx.Done()
	r.ended <- r.clock.Now()
	<-r.clock.After(r.ends)
	return nil
}

func (r *replica) refuses(refuse func(clienttesting.Action) error) {
	if refuse == nil {
		r.refuse.Store(nil)
		return
	}
	r.refuse.Store(&refuse)
}

func outOfReach(clienttesting.Action) error { return errors.New("connection refused") }

func (e *election) pass(d time.Duration) {
	<-e.clock.After(d)
	synctest.Wait()
}

// leave stops a replica that has nothing to end.
func (r *replica) leave() {
	r.stop()
	require.NoError(r.t, <-r.done)
}

func TestTheWorkEndsBeforeTheLeaseIsGivenBack(t *testing.T) {
	t.Parallel()
	elect(t, func(e *election) {
		a := e.replica("a", 5*leaseDuration)
		<-a.began
		b := e.replica("b", 0)
		e.pass(time.Minute)
		assert.Equal(e.t, "a", e.leases.holder(), "it is renewed")

		a.stop()
		<-a.ended
		e.pass(a.ends - time.Second)
		assert.Equal(e.t, "a", e.leases.holder(), "also while the work is still ending")
		assert.Empty(e.t, a.done)
		e.pass(time.Second)
		assert.Empty(e.t, e.leases.holder(), "given back at once")
		require.NoError(e.t, <-a.done)
		given := e.clock.Now()
		<-b.began
		assert.Less(e.t, e.clock.Since(given), patience, "nobody waits for it to run out")
		b.leave()
	})
}

func TestALostLeaseEndsTheWorkAndARegainedOneBeginsItAnew(t *testing.T) {
	t.Parallel()
	elect(t, func(e *election) {
		a := e.replica("a", leaseDuration-renewDeadline-retryPeriod)
		<-a.began
		b := e.replica("b", 0)
		e.pass(time.Minute)

		a.refuses(outOfReach)
		lost := e.clock.Now()
		ended := <-a.ended
		assert.LessOrEqual(e.t, ended.Sub(lost), renewDeadline+retryPeriod, "the work ends while the lease is ours")
		<-b.began
		// It counts from its own sight of the last renewal, and then has to look.
		assert.Less(e.t, e.clock.Since(lost), patience+leaseDuration+patience)
		a.refuses(nil)
		e.pass(time.Minute)
		assert.Equal(e.t, int32(1), a.terms.Load(), "the other one has it")

		b.leave()
		<-a.began
		assert.Equal(e.t, int32(2), a.terms.Load())
		a.ends = 0
		a.leave()
	})
}

// Someone's admission policy, or a conflict that stays: only what would renew
// the lease fails.
func TestALeaseThatCannotBeRenewedIsNotGivenAwayUnderTheWork(t *testing.T) {
	t.Parallel()
	elect(t, func(e *election) {
		a := e.replica("a", leaseDuration-renewDeadline-retryPeriod)
		<-a.began
		b := e.replica("b", 0)
		e.pass(time.Minute)
		a.refuses(func(action clienttesting.Action) error {
			update, ok := action.(clienttesting.UpdateAction)
			if ok && *update.GetObject().(*coordinationv1.Lease).Spec.HolderIdentity == a.name {
				return errors.New("no")
			}
			return nil
		})
		<-a.ended
		assert.Equal(e.t, "a", e.leases.holder())
		<-b.began // and the work of a has ended, or that of b would tell
		b.leave()
		a.leave()
	})
}

func TestATermBeginsWhenTheOneBeforeHasEnded(t *testing.T) {
	t.Parallel()
	elect(t, func(e *election) {
		a := e.replica("a", time.Minute)
		<-a.began
		a.refuses(outOfReach)
		ended := <-a.ended
		a.refuses(nil)
		e.pass(a.ends - time.Second)
		assert.Equal(e.t, "a", e.leases.holder(), "it has the lease again")
		assert.Equal(e.t, int32(1), a.terms.Load())
		<-a.began
		assert.Equal(e.t, a.ends, e.clock.Since(ended))
		a.stop()
		require.NoError(e.t, <-a.done)
		assert.Zero(e.t, a.working.Load(), "lead waits for the term that is still ending")
	})
}

// At the end of a program whose lease was lost, nothing is left to wait for but
// the work.
func TestTheEndDuringALostTermsEnd(t *testing.T) {
	t.Parallel()
	elect(t, func(e *election) {
		a := e.replica("a", time.Minute)
		<-a.began
		a.refuses(outOfReach)
		ended := <-a.ended
		a.stop()
		require.NoError(e.t, <-a.done)
		assert.GreaterOrEqual(e.t, e.clock.Since(ended), a.ends)
		assert.Zero(e.t, a.working.Load())
	})
}

func TestAReplicaThatNeverHadTheLeaseLeavesItAlone(t *testing.T) {
	t.Parallel()
	elect(t, func(e *election) {
		a := e.replica("a", 0)
		<-a.began
		b := e.replica("b", 0)
		e.pass(time.Minute)
		stopped := e.clock.Now()
		b.leave()
		assert.Zero(e.t, e.clock.Since(stopped))
		assert.Zero(e.t, b.terms.Load())
		assert.Equal(e.t, "a", e.leases.holder())
		a.leave()
	})
}

// The elector begins a term in a goroutine, which may come late.
func TestATermThatIsOverBeforeItBeginsDoesNothing(t *testing.T) {
	t.Parallel()
	over, cancel := context.WithCancel(t.Context())
	cancel()
	ran := false
	terms := newTerms(func(context.Context) error { ran = true; return nil }, zap.NewNop())
	terms.serve(over, t.Context())
	terms.serve(t.Context(), over)
	assert.False(t, ran)
	terms.serve(t.Context(), t.Context())
	assert.True(t, ran)
}
