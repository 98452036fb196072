// Package reconcile keeps live sessions true to the cluster: it follows the
// objects that carry them and purges, refreshes or ends the session of each.
//
// It decides from the present state, never from the event that woke it, and
// touches a row only while the row names the very object it looked at. It
// neither creates sessions (provision) nor watches the clock (gc).
package reconcile

import (
	"context"
	"errors"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"

	"github.com/agentcube/agentcube/pkg/sandbox"
	"github.com/agentcube/agentcube/pkg/session"
)

// Store is where sessions are recorded.
type Store interface {
	Get(ctx context.Context, id string) (session.Session, error)
	Update(ctx context.Context, id string, change func(*session.Session) error) (session.Session, error)
	Remove(ctx context.Context, id string, guard func(session.Session) error) error
}

// Cluster reads objects past the cache: those that carry sessions, and the
// Sandboxes that claims have adopted.
type Cluster interface {
	Get(ctx context.Context, ref session.ObjectRef) (sandbox.Object, error)
	SetSessionLabel(ctx context.Context, ref session.ObjectRef, sessionID string) error
}

// Cache is the local view of the objects.
type Cache interface {
	Get(ref session.ObjectRef) (sandbox.Object, bool)
}

// Finisher deletes the object and then the row of a session that is marked as
// deleting.
type Finisher interface {
	Finish(ctx context.Context, row session.Session, abandoned bool) error
}

// Options of a Reconciler.
type Options struct {
	// Workers run so many syncs at a time.
	Workers int
	// SyncBound is for one sync.
	SyncBound time.Duration
	// Newer compares resource versions.
	Newer func(a, b string) bool
	// Metrics and Events say what is done. Nil: to nobody.
	Metrics *Metrics
	Events  Events
}

// Back-off of a sync that failed. The default of client-go goes to a thousand
// seconds, in which the store would lie.
const (
	firstRetry = 20 * time.Millisecond
	lastRetry  = 10 * time.Second
)

// lookAgain is when a session is looked at again whose object may come to show
// something else without a word.
const lookAgain = time.Second

// explainAfter is from when on a session that is being created says why it
// still is.
const explainAfter = 2 * time.Second

// Why it is.
var (
	// errCreating: what the object shows cannot be written into the row yet.
	errCreating = errors.New("session is being created")
	// errOutdated: the status of the sandbox is older than its spec.
	errOutdated = errors.New("the sandbox's controller has not acted yet")
)

// key is one session's object. It is comparable, so that the queue merges
// what happens to one object. absent keys are apart from the others: the
// object may be gone while one of the same name is there.
type key struct {
	ref       session.ObjectRef
	sessionID string
	absent    bool
}

// Reconciler syncs sessions from a work queue.
type Reconciler struct {
	clock    clock.WithTicker
	log      *zap.Logger
	store    Store
	cluster  Cluster
	cache    Cache
	finisher Finisher
	options  Options
	// woken holds what waits for a worker. It is plain, since one that delays
	// runs a goroutine from its construction on: Run puts that around it.
	woken *workqueue.Typed[key]
}

// New returns a Reconciler. It starts nothing; its Enqueue is to be called
// with every event of the objects.
func New(clk clock.WithTicker, log *zap.Logger, store Store, cluster Cluster, cache Cache, finisher Finisher,
	options Options,
) *Reconciler {
	r := &Reconciler{
		clock: clk, log: log, store: store, cluster: cluster, cache: cache, finisher: finisher, options: options,
		// Without a name: metrics of the queue would take a goroutine too.
		woken: workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[key]{Clock: clk}),
	}
	options.Metrics.watch(r.Len)
	return r
}

// Enqueue notes that something happened to an object. It does not block, and
// what it notes before Run is synced by it.
func (r *Reconciler) Enqueue(e sandbox.Event) {
	if !session.ValidID(e.Object.SessionID) {
		return
	}
	r.woken.Add(key{ref: e.Object.Ref, sessionID: e.Object.SessionID, absent: e.Deleted})
}

// Len is the number of objects that wait to be synced.
func (r *Reconciler) Len() int { return r.woken.Len() }

// queue is woken, with the retries that wait for their time.
type queue = workqueue.TypedRateLimitingInterface[key]

// Run syncs until ctx ends, and returns when the syncs under way are done. It
// runs once.
func (r *Reconciler) Run(ctx context.Context) error {
	q := workqueue.NewTypedRateLimitingQueueWithConfig(
		workqueue.NewTypedItemExponentialFailureRateLimiter[key](firstRetry, lastRetry),
		workqueue.TypedRateLimitingQueueConfig[key]{
			Clock: r.clock,
			DelayingQueue: workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[key]{
				Clock: r.clock, Queue: r.woken,
			}),
		})
	var workers errgroup.Group
	for range r.options.Workers {
		workers.Go(func() error {
			for r.next(ctx, q) {
			}
			return nil
		})
	}
	<-ctx.Done()
	q.ShutDown()
	return workers.Wait()
}

func (r *Reconciler) next(ctx context.Context, q queue) bool {
	k, shutdown := q.Get()
	if shutdown {
		return false
	}
	defer q.Done(k)
	if ctx.Err() != nil {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, r.options.SyncBound)
	defer cancel()
	begun := r.clock.Now()
	err := r.sync(ctx, k)
	r.options.Metrics.synced(r.clock.Since(begun), err)
	switch {
	case err == nil:
		q.Forget(k)
	case errors.Is(err, errCreating), errors.Is(err, errOutdated):
		q.Forget(k)
		q.AddAfter(k, lookAgain)
	case errors.Is(err, context.Canceled):
		q.AddRateLimited(k)
	default:
		r.log.Warn("session not in step with the cluster yet, trying again", zap.String("session", k.sessionID),
			zap.Stringer("object", k.ref), zap.Int("failures", q.NumRequeues(k)+1), zap.Error(err))
		q.AddRateLimited(k)
	}
	return true
}
