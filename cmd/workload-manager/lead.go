package main

import (
	"context"
	"fmt"
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
// ctx ends. The lease is renewed until the last work has ended, and then given
// back.
//
// A lease that cannot be renewed ends the term at the renew deadline, while it
// is still ours for some seconds. Two replicas overlap only if a process was
// paused, which does no harm: all that is done is done by compare-and-set.
func (a *app) lead(ctx context.Context, work func(context.Context) error) error {
	electorCtx, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	t := newTerms(work, a.log)
	lock := &resourcelock.LeaseLock{
		LeaseMeta:  metav1.ObjectMeta{Namespace: a.cfg.SecretNamespace(), Name: leaseName},
		Client:     a.clients.kube.CoordinationV1(),
		LockConfig: resourcelock.ResourceLockConfig{Identity: a.process},
	}
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock:          lock,
		LeaseDuration: leaseDuration,
		RenewDeadline: renewDeadline,
		RetryPeriod:   retryPeriod,
		// The elector would also do so when it fails to renew, with the work
		// still going on: its context ends only after that.
		ReleaseOnCancel: false,
		Name:            leaseName,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(leaderCtx context.Context) { t.serve(ctx, leaderCtx) },
			OnStoppedLeading: func() { a.log.Info("does not hold the lease any more") },
		},
	})
	if err != nil {
		return fmt.Errorf("setting up the leader election: %w", err)
	}
	stopAfterTerm := context.AfterFunc(ctx, func() {
		t.turn <- struct{}{} // the term under way ends with ctx, and no other begins
		stop()
	})
	defer stopAfterTerm()
	wait.UntilWithContext(electorCtx, elector.Run, retryPeriod)
	if elector.IsLeader() {
		a.giveBack(ctx, lock)
	}
	return nil
}

// giveBack spares the other replicas the wait until the lease has run out.
func (a *app) giveBack(ctx context.Context, lock resourcelock.Interface) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), renewDeadline)
	defer cancel()
	record, _, err := lock.Get(ctx)
	if err == nil && record.HolderIdentity == lock.Identity() {
		record.HolderIdentity = ""
		err = lock.Update(ctx, *record)
	}
	if err != nil {
		a.log.Warn("lease not given back: it has to run out", zap.Error(err))
	}
}

// terms are the times during which this replica holds the lease.
type terms struct {
	work func(context.Context) error
	log  *zap.Logger

	turn chan struct{} // full during a term, so that two never overlap here
}

func newTerms(work func(context.Context) error, log *zap.Logger) *terms {
	return &terms{work: work, log: log, turn: make(chan struct{}, 1)}
}

// serve is one term: it ends with ctx, at shutdown, or with the lease. The
// elector starts it in a goroutine of its own, so it may come late.
func (t *terms) serve(ctx, leaderCtx context.Context) {
	select {
	case t.turn <- struct{}{}:
	case <-ctx.Done():
		return
	}
	defer func() { <-t.turn }()
	if ctx.Err() != nil || leaderCtx.Err() != nil {
		return
	}
	termCtx, cancel := context.WithCancel(ctx)
	defer cancel()
	endsWithLease := context.AfterFunc(leaderCtx, cancel)
	defer endsWithLease()
	t.log.Info("holds the lease: collects and reconciles CodeInterpreters")
	if err := t.work(termCtx); err != nil {
		t.log.Error("work of the lease holder ended", zap.Error(err))
	}
}
