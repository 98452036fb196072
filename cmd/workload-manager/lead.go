package main

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// The lease that picks which replica collects and reconciles CodeInterpreters.
const (
	leaseName     = "agentcube-workload-manager"
	leaseDuration = 10 * time.Second
	renewDeadline = 6 * time.Second
	retryPeriod   = 1500 * time.Millisecond
)

// lead runs work while this replica holds the lease, term after term, until
// ctx ends. At the end the work is waited for before the lease is given back.
// Two replicas overlap only if a process was paused, which does no harm: all
// that is done is done by compare-and-set.
func (a *app) lead(ctx context.Context, work func(context.Context) error) error {
	electorCtx, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	t := &terms{ctx: ctx, stop: stop, work: work, log: a.log}
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Namespace: a.cfg.SecretNamespace(), Name: leaseName},
			Client:     a.clients.kube.CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: a.process},
		},
		LeaseDuration:   leaseDuration,
		RenewDeadline:   renewDeadline,
		RetryPeriod:     retryPeriod,
		ReleaseOnCancel: true,
		Name:            leaseName,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: t.serve,
			OnStoppedLeading: func() { a.log.Info("does not hold the lease any more") },
		},
	})
	if err != nil {
		return fmt.Errorf("setting up the leader election: %w", err)
	}
	defer context.AfterFunc(ctx, func() {
		if !t.serving.Load() {
			stop()
		}
	})()
	wait.UntilWithContext(electorCtx, elector.Run, retryPeriod)
	t.mu.Lock() // the last term may still be ending
	defer t.mu.Unlock()
	return nil
}

// terms are the times during which this replica holds the lease.
type terms struct {
	ctx  context.Context // ends at shutdown; a term ends with it or with the lease
	stop context.CancelFunc
	work func(context.Context) error
	log  *zap.Logger

	mu      sync.Mutex // held during a term, so that two never overlap here
	serving atomic.Bool
}

// serve is one term.
func (t *terms) serve(leaderCtx context.Context) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.serving.Store(true)
	defer t.serving.Store(false)
	ctx, cancel := context.WithCancel(t.ctx)
	defer cancel()
	defer context.AfterFunc(leaderCtx, cancel)()
	t.log.Info("holds the lease: collects and reconciles CodeInterpreters")
	if err := t.work(ctx); err != nil {
		t.log.Error("work of the lease holder ended", zap.Error(err))
	}
	if t.ctx.Err() != nil {
		t.stop()
	}
}
