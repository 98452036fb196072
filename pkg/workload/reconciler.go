package workload

import (
	"context"
	"errors"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"

	"github.com/agentcube/agentcube/pkg/sandbox"
	"github.com/agentcube/agentcube/pkg/session"
)

const (
	// workers sync that many CodeInterpreters at once.
	workers = 2
	// firstRetry and maxRetry bound the back-off of a sync that failed.
	firstRetry = 100 * time.Millisecond
	maxRetry   = 10 * time.Second
	// syncTimeout bounds one sync, so that an API server that hangs holds no
	// worker for ever.
	syncTimeout = 30 * time.Second
	// settle is how long reports of a pool are gathered before they are looked
	// at: a pool that is claimed from changes with each claim.
	settle = time.Second
)

// Pools makes and removes what a warm pool consists of. *sandbox.Client fits.
type Pools interface {
	EnsureTemplate(ctx context.Context, spec sandbox.TemplateSpec) error
	EnsureWarmPool(ctx context.Context, spec sandbox.PoolSpec) (sandbox.PoolStatus, error)
	DeleteTemplate(ctx context.Context, namespace, name, ownerUID string) error
	DeleteWarmPool(ctx context.Context, namespace, name, ownerUID string) error
}

// PublicKeys knows the public key of the router.
type PublicKeys interface {
	// PublicKey is the key as PEM; false while there is none.
	PublicKey() (pem string, ok bool)
	// Changed is asked for anew before each wait. Its channel is sent to after
	// a change, or closed and replaced.
	Changed() <-chan struct{}
}

// ReconcilerConfig is what a Reconciler works with. All is required but
// RuntimeClass.
type ReconcilerConfig struct {
	Clock clock.WithTicker
	// Client acts with our own credentials.
	Client    dynamic.Interface
	Discovery Discovery
	// AgentSandbox says which version the cluster serves. It is asked until it
	// answers, and again when what it showed is no longer served.
	AgentSandbox func() (sandbox.API, error)
	// Pools is called with each answer of AgentSandbox.
	Pools func(sandbox.API) Pools
	Keys  PublicKeys
	// RuntimeClass is for templates that name none. Empty: the cluster's.
	RuntimeClass string
	Log          *zap.Logger
}

// Reconciler keeps the warm pools of CodeInterpreters as they are asked for,
// and tells in their status how the pools do. One at a time must run.
type Reconciler struct {
	config ReconcilerConfig
}

// NewReconciler starts nothing.
func NewReconciler(config ReconcilerConfig) *Reconciler {
	return &Reconciler{config: config}
}

// Run reconciles until ctx ends, and returns nil. It may be called again after
// that: nothing is remembered.
func (r *Reconciler) Run(ctx context.Context) error {
	s := newSyncer(r.config)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return s.interpreters.Run(ctx, s.Clock, s.Discovery) })
	group.Go(func() error { return s.followAgentSandbox(ctx) })
	group.Go(func() error { return s.followKeys(ctx) })
	for range workers {
		group.Go(func() error { return s.work(ctx) })
	}
	group.Go(func() error {
		<-ctx.Done()
		s.queue.ShutDown()
		return nil
	})
	return group.Wait()
}

// syncer is one run of a Reconciler.
type syncer struct {
	ReconcilerConfig
	queue        workqueue.TypedRateLimitingInterface[cache.ObjectName]
	interpreters *follower
	agentSandbox agentSandbox
}

func newSyncer(config ReconcilerConfig) *syncer {
	s := &syncer{ReconcilerConfig: config}
	s.queue = workqueue.NewTypedRateLimitingQueueWithConfig(
		workqueue.NewTypedItemExponentialFailureRateLimiter[cache.ObjectName](firstRetry, maxRetry),
		workqueue.TypedRateLimitingQueueConfig[cache.ObjectName]{Clock: config.Clock})
	s.interpreters = &follower{
		client:    config.Client,
		resource:  resources[session.KindCodeInterpreter],
		transform: transformer(session.KindCodeInterpreter),
		handler:   s.interpreterEvents(),
		log:       config.Log,
	}
	return s
}

// followKeys has every pool looked at when the key of the router changes.
func (s *syncer) followKeys(ctx context.Context) error {
	for {
		// Asked for before the look, so that no change falls in between.
		changed := s.Keys.Changed()
		s.enqueueAll()
		select {
		case <-changed:
		case <-ctx.Done():
			return nil
		}
	}
}

// work syncs what the queue holds until it is shut down.
func (s *syncer) work(ctx context.Context) error {
	for {
		name, shutdown := s.queue.Get()
		if shutdown {
			return nil
		}
		s.process(ctx, name)
	}
}

func (s *syncer) process(ctx context.Context, name cache.ObjectName) {
	defer s.queue.Done(name)
	bounded, cancel := context.WithTimeout(ctx, syncTimeout)
	defer cancel()
	err := s.sync(bounded, name)
	switch {
	case err == nil || ctx.Err() != nil:
		s.queue.Forget(name)
		return
	case errors.Is(err, errStale):
		// The cache is about to hear of the change that was in the way.
	default:
		s.Log.Warn("code interpreter not reconciled, trying again",
			zap.Stringer("name", name), zap.Error(err))
	}
	s.queue.AddRateLimited(name)
}
