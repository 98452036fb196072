package main

import (
	"context"
	"fmt"
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
	// retryInterval is for what nothing works without.
	retryInterval = time.Second
)

// createIsOver is when no create can be under way any more: its bound, its
// undo, and a margin for a process that was slow to notice.
func createIsOver(cfg config.WorkloadManager) time.Duration {
	return cfg.CreateTimeout + cfg.UndoTimeout + 10*time.Second
}

// startWork waits for the store and for agent-sandbox, then does all work on
// sessions until ctx ends. What that needs until its very end runs in support,
// on supportCtx.
func (a *app) startWork(ctx, supportCtx context.Context, support *group) error {
	if err := a.store.Wait(ctx); err != nil {
		return unlessEnded(ctx, err)
	}
	a.health.Ready()
	installation, err := a.joinStore(ctx)
	if err != nil {
		return unlessEnded(ctx, err)
	}
	support.Go(func() error { return a.heartbeat(supportCtx) })
	served, err := a.waitServed(ctx)
	if err != nil {
		return unlessEnded(ctx, err)
	}
	a.log.Info("agent-sandbox is served", zap.String("version", served.Version), zap.String("installation", installation))

	client := sandbox.NewClient(a.clients.dynamic, served, sandbox.ClientOptions{CallTimeout: a.cfg.ClusterTimeout})
	events := sandbox.NewEvents(a.clock, a.clients.kube.EventsV1(), served, a.process,
		sandbox.ClientOptions{CallTimeout: a.cfg.ClusterTimeout}, a.log)
	a.registry.MustRegister(events)
	support.Go(func() error { return events.Run(supportCtx) })
	var resyncer *resync.Resyncer // set before the watcher runs
	watcher, err := sandbox.NewWatcher(a.clients.dynamic, served, sandbox.WatcherOptions{OnError: func(kind string, err error) {
		a.log.Warn("watch broken, to be made anew", zap.String("kind", kind), zap.Error(err))
		resyncer.Trigger()
	}})
	if err != nil {
		return err
	}
	rows, objects := chaosStore(a.cfg, a.store), chaosCluster(client)
	provisioner := a.provisioner(rows, objects, client, watcher, events, installation)
	reconciler := reconcile.New(a.clock, a.log, rows, objects, watcher, provisioner, reconcile.Options{
		Workers: syncWorkers, SyncBound: a.cfg.DeleteTimeout, Newer: newer,
		Metrics: a.metrics.reconcile, Events: events,
	})
	watcher.OnEvent(chaosEvents(rows, reconciler.Enqueue))
	resyncer = a.newResyncer(rows, objects, served, reconciler, events, installation)
	a.storeIsBack(resyncer.Trigger)
	support.Go(func() error { return watcher.Run(supportCtx) })
	if err := watcher.WaitForSync(ctx); err != nil {
		return unlessEnded(ctx, err)
	}
	a.sessions.serve(provisioner)
	work := &group{failed: support.failed}
	work.Go(func() error { return provisioner.Run(ctx) })
	work.Go(func() error { return reconciler.Run(ctx) })
	work.Go(func() error { return a.lead(ctx, a.leaderWork(rows, provisioner, resyncer, events, served)) })
	return work.Wait()
}

func (a *app) provisioner(rows provision.Store, objects provision.Cluster, pools provision.Pools, watcher provision.Watcher,
	events *sandbox.Events, installation string,
) *provision.Provisioner {
	dialer := provision.NewDialer(a.clock, (&net.Dialer{}).DialContext)
	return provision.New(a.clock, a.log, rows, objects, watcher, pools, dialer, provision.Options{
		Process: a.process, Installation: installation,
		CreateBound: a.cfg.CreateTimeout, ProbeBound: a.cfg.ProbeTimeout, UndoBound: a.cfg.UndoTimeout,
		UnknownBound: a.cfg.UnknownTimeout, Changes: a.changes,
		Metrics: a.metrics.provision, Events: events,
	})
}

// leaderWork is what one replica does at a time: term by term, so that nothing
// is remembered of an earlier one.
func (a *app) leaderWork(rows collected, finisher gc.Finisher, resyncer *resync.Resyncer, events *sandbox.Events,
	served sandbox.API,
) func(context.Context) error {
	return func(ctx context.Context) error {
		collector := gc.New(a.clock, a.log, rows, rows, rows, finisher, gc.Options{
			Interval: a.cfg.CollectInterval, Page: collectPage, Workers: collectWorkers,
			CreateBound: createIsOver(a.cfg), UnknownBound: a.cfg.UnknownTimeout, OutagePause: a.cfg.OutagePause,
			Metrics: a.metrics.gc, Events: events,
		})
		templates := a.templates(served)
		var work errgroup.Group
		work.Go(func() error { return collector.Run(ctx) })
		work.Go(func() error { return resyncer.Run(ctx) })
		work.Go(func() error { return templates.Run(ctx) })
		return work.Wait()
	}
}

// collected is what the collector needs of the store.
type collected interface {
	gc.Index
	gc.Sessions
	gc.Creators
}

// storeIsBack sets what is called when the store answers again after it did
// not.
func (a *app) storeIsBack(call func()) { a.onBack.Store(&call) }

func (a *app) backAgain() {
	if call := a.onBack.Load(); call != nil {
		(*call)()
	}
}

// unlessEnded is the failure of a wait: its end at shutdown is none.
func unlessEnded(ctx context.Context, err error) error {
	select {
	case <-ctx.Done():
		return nil
	default:
		return err
	}
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

// joinStore returns the id that every object of this installation bears, once
// the first heartbeat is written too: a placeholder of a creator without one
// would be undone.
func (a *app) joinStore(ctx context.Context) (installation string, err error) {
	for {
		if installation, err = resync.Identify(ctx, a.store, a.newRecord()); err == nil {
			err = a.store.Beat(ctx, a.process)
		}
		if err == nil {
			a.sessions.wants(fmt.Errorf("waiting for agent-sandbox: %w", sandbox.ErrUnavailable))
			return installation, nil
		}
		a.log.Warn("store answers, but cannot be used yet", zap.Error(err))
		if err := a.pause(ctx, retryInterval); err != nil {
			return "", err
		}
	}
}

// waitServed asks until agent-sandbox is served, whatever stands in the way: a
// controller that is installed later must not need a restart of ours.
func (a *app) waitServed(ctx context.Context) (sandbox.API, error) {
	for {
		served, err := sandbox.Discover(a.clients.discovery)
		if err == nil {
			return served, nil
		}
		if a.sessions.wants(err) {
			a.log.Warn("waiting for agent-sandbox", zap.Error(err))
		}
		if err := a.pause(ctx, retryInterval); err != nil {
			return sandbox.API{}, err
		}
	}
}

// heartbeat shows that the creator of our placeholders lives. After a failure
// it does not wait for its time: other replicas may have come back to the store
// before us, and take us for dead.
func (a *app) heartbeat(ctx context.Context) error {
	next := heartbeatPeriod
	for {
		if err := a.pause(ctx, next); err != nil {
			return unlessEnded(ctx, err)
		}
		err := a.store.Beat(ctx, a.process)
		if err == nil {
			if next == retryInterval {
				a.backAgain()
			}
			next = heartbeatPeriod
			continue
		}
		if next == heartbeatPeriod && ctx.Err() == nil {
			a.log.Warn("heartbeat not written", zap.Error(err))
		}
		next = retryInterval
	}
}

// pause waits. Its error is that of ctx.
func (a *app) pause(ctx context.Context, d time.Duration) error {
	timer := a.clock.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C():
		return nil
	}
}

// newer compares resource versions of one object. What cannot be compared is
// taken as not newer: the refresh is then written, and a later event mends it.
func newer(a, b string) bool {
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err == nil && order > 0
}
