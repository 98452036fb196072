package main

import (
	"context"
	"net"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/agentcube/agentcube/pkg/config"
	"github.com/agentcube/agentcube/pkg/sandbox"
	"github.com/agentcube/agentcube/pkg/workload"
	"github.com/agentcube/agentcube/pkg/workloadmanager/gc"
	"github.com/agentcube/agentcube/pkg/workloadmanager/provision"
	"github.com/agentcube/agentcube/pkg/workloadmanager/reconcile"
	"github.com/agentcube/agentcube/pkg/workloadmanager/resync"
)

// Sizes and intervals that nobody has needed to set yet.
const (
	syncWorkers     = 16
	collectWorkers  = 16
	collectPage     = 200
	heartbeatPeriod = 5 * time.Second
)

// createIsOver is when no create can be under way any more: its bound, its
// undo, and a margin for a process that was slow to notice.
func createIsOver(cfg config.WorkloadManager) time.Duration {
	return cfg.CreateTimeout + cfg.UndoTimeout + 10*time.Second
}

// startWork waits for the store and for agent-sandbox, then runs everything
// that works on sessions until ctx ends. The watch that the work needs runs in
// watches, on watchCtx, since it must outlive the work.
func (a *app) startWork(ctx, watchCtx context.Context, watches *errgroup.Group) error {
	if err := a.store.Wait(ctx); err != nil {
		return nil // ctx ended
	}
	a.health.Ready()
	installation, err := a.installation(ctx)
	if err != nil {
		return nil
	}
	served, err := sandbox.WaitServed(ctx, a.clients.discovery, a.clock)
	if err != nil {
		return nil
	}
	a.log.Info("agent-sandbox is served", zap.String("version", served.Version), zap.String("installation", installation))

	client := sandbox.NewClient(a.clients.dynamic, served, sandbox.ClientOptions{CallTimeout: a.cfg.ClusterTimeout})
	var resyncer *resync.Resyncer // set before the watcher runs
	watcher, err := sandbox.NewWatcher(a.clients.dynamic, served, sandbox.WatcherOptions{OnError: func(kind string, err error) {
		a.log.Warn("watch broken, to be made anew", zap.String("kind", kind), zap.Error(err))
		resyncer.Trigger()
	}})
	if err != nil {
		return err
	}
	rows, objects := chaosStore(a.cfg, a.store), chaosCluster(client)
	dialer := provision.NewDialer(a.clock, (&net.Dialer{}).DialContext)
	provisioner := provision.New(a.clock, a.log, rows, objects, watcher, client, dialer, provision.Options{
		Process: a.process, Installation: installation,
		CreateBound: a.cfg.CreateTimeout, ProbeBound: a.cfg.ProbeTimeout, UndoBound: a.cfg.UndoTimeout,
		UnknownBound: a.cfg.UnknownTimeout,
	})
	reconciler := reconcile.New(a.clock, a.log, rows, objects, watcher, provisioner, reconcile.Options{
		Workers: syncWorkers, SyncBound: a.cfg.DeleteTimeout, Newer: newer,
	})
	watcher.OnEvent(chaosEvents(rows, reconciler.Enqueue))
	collector := gc.New(a.clock, a.log, rows, rows, rows, provisioner, gc.Options{
		Interval: a.cfg.CollectInterval, Page: collectPage, Workers: collectWorkers,
		CreateBound: createIsOver(a.cfg), UnknownBound: a.cfg.UnknownTimeout, OutagePause: a.cfg.OutagePause,
	})
	templates := a.templates(served)
	resyncer = a.newResyncer(rows, objects, served, reconciler, installation)

	var work errgroup.Group
	// The heartbeat comes first: a placeholder without one is undone.
	if err := a.store.Beat(ctx, a.process); err != nil {
		a.log.Warn("heartbeat not written yet", zap.Error(err))
	}
	work.Go(func() error { return a.heartbeat(ctx, resyncer.Trigger) })
	watches.Go(func() error { return watcher.Run(watchCtx) })
	if err := watcher.WaitForSync(ctx); err != nil {
		return work.Wait()
	}
	a.sessions.provisioner.Store(provisioner)
	work.Go(func() error { return reconciler.Run(ctx) })
	work.Go(func() error {
		return a.lead(ctx, func(ctx context.Context) error {
			var leading errgroup.Group
			leading.Go(func() error { return collector.Run(ctx) })
			leading.Go(func() error { return resyncer.Run(ctx) })
			leading.Go(func() error { return templates.Run(ctx) })
			return leading.Wait()
		})
	})
	return work.Wait()
}

func (a *app) templates(served sandbox.API) *workload.Reconciler {
	return workload.NewReconciler(workload.ReconcilerConfig{
		Clock:        a.clock,
		Client:       a.clients.dynamic,
		Discovery:    a.clients.discovery,
		AgentSandbox: func() (sandbox.API, error) { return served, nil },
		Pools: func(api sandbox.API) workload.Pools {
			return sandbox.NewClient(a.clients.dynamic, api, sandbox.ClientOptions{CallTimeout: a.cfg.ClusterTimeout})
		},
		Keys:         a.verifier,
		RuntimeClass: a.cfg.RuntimeClassName,
		Log:          a.log,
	})
}

// heartbeat shows that the creator of our placeholders lives. back is called
// when the store answers again after it did not.
func (a *app) heartbeat(ctx context.Context, back func()) error {
	away := false
	ticker := a.clock.NewTicker(heartbeatPeriod)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C():
		}
		err := a.store.Beat(ctx, a.process)
		switch {
		case err != nil && ctx.Err() == nil:
			a.log.Warn("heartbeat not written", zap.Error(err))
			away = true
		case err == nil && away:
			away = false
			back()
		}
	}
}

// newer compares resource versions of one object. What cannot be compared is
// taken as not newer: the refresh is then written, and a later event mends it.
func newer(a, b string) bool {
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err == nil && order > 0
}
