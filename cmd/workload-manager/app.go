package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"sync/atomic"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/agentcube/agentcube/pkg/auth"
	"github.com/agentcube/agentcube/pkg/config"
	"github.com/agentcube/agentcube/pkg/httpserver"
	"github.com/agentcube/agentcube/pkg/sandbox"
	"github.com/agentcube/agentcube/pkg/store"
	"github.com/agentcube/agentcube/pkg/telemetry"
	"github.com/agentcube/agentcube/pkg/workload"
	"github.com/agentcube/agentcube/pkg/workloadmanager"
	"github.com/agentcube/agentcube/pkg/workloadmanager/changes"
)

// clients are the ways to the API server.
type clients struct {
	dynamic   dynamic.Interface
	kube      kubernetes.Interface
	discovery discovery.DiscoveryInterface
	metadata  metadata.Interface
}

// app is the workload-manager put together.
type app struct {
	cfg     config.WorkloadManager
	log     *zap.Logger
	clock   clock.WithTicker
	process string
	clients clients

	registry *prometheus.Registry
	metrics  metrics
	tracing  *telemetry.Tracing // nil: off
	health   *httpserver.Health
	verifier *auth.Verifier
	lister   *workload.Lister
	store    *store.Redis
	sessions *lateSessions
	changes  *changes.Hub
	server   *httpserver.Server

	// onBack is called when the store answers again after it did not.
	onBack atomic.Pointer[func()]
}

// Run serves until ctx ends, and returns when everything has stopped. onListen,
// if not nil, is told the address.
func Run(ctx context.Context, cfg config.WorkloadManager, log *zap.Logger, onListen func(net.Addr)) error {
	for _, warning := range cfg.Warnings {
		log.Warn(warning)
	}
	a, err := newApp(ctx, clock.RealClock{}, cfg, log)
	if err != nil {
		return err
	}
	log.Info("workload-manager listens", zap.Stringer("address", a.server.Addr()),
		zap.Stringer("build", telemetry.ReadBuild()), zap.String("process", a.process))
	if onListen != nil {
		onListen(a.server.Addr())
	}
	return a.run(ctx)
}

// newApp builds everything and opens the listener. Nothing runs yet.
func newApp(ctx context.Context, clk clock.WithTicker, cfg config.WorkloadManager, log *zap.Logger) (*app, error) {
	a := &app{cfg: cfg, log: log, clock: clk, process: processID(), sessions: newLateSessions(), changes: changes.New()}
	a.registry = telemetry.NewRegistry("workload-manager", telemetry.ReadBuild())
	a.metrics = newMetrics(clk, a.registry)
	var err error
	a.tracing, err = telemetry.NewTracing(ctx, "workload-manager", telemetry.ReadBuild(),
		telemetry.TraceOptions{URL: cfg.Trace.URL, Ratio: cfg.Trace.Ratio}, log)
	if err != nil {
		return nil, err
	}
	if a.clients, err = newClients(cfg, a.tracing); err != nil {
		return nil, err
	}
	a.health = httpserver.NewHealth(a.clock, log)
	a.registry.MustRegister(a.health)
	a.verifier = auth.NewVerifier(a.clock, a.clients.kube, cfg.SecretNamespace(), log)
	a.lister = workload.NewLister(a.clock, a.clients.dynamic, a.clients.discovery, log)
	a.store = newStore(cfg, a.clock, a.metrics.store)
	a.registry.MustRegister(telemetry.NewSessions(a.countSessions))
	a.health.Detail("store", a.store.Ping)
	a.health.Detail("cluster", a.clusterServes)
	a.health.Detail("identity-key", func(context.Context) error {
		if _, ok := a.verifier.PublicKey(); !ok {
			return auth.ErrNoKey
		}
		return nil
	})
	if err := a.listen(ctx); err != nil {
		a.tracing.Close(ctx)
		return nil, errors.Join(err, a.store.Close())
	}
	return a, nil
}

// clusterServes is a detail of the readiness: the API server answers, and serves
// agent-sandbox.
func (a *app) clusterServes(ctx context.Context) error {
	if err := a.sessions.served(ctx); err != nil {
		return err
	}
	return sandbox.Reach(ctx, a.clients.discovery.RESTClient())
}

// countSessions is how many sessions there are in each state.
func (a *app) countSessions(ctx context.Context) (map[string]int, error) {
	states, err := a.store.States(ctx)
	if err != nil {
		return nil, err
	}
	counts := make(map[string]int, len(states))
	for state, n := range states {
		counts[string(state)] = n
	}
	return counts, nil
}

// listen opens the listener before anything runs, so that a taken port or a
// bad certificate is an error at once.
func (a *app) listen(ctx context.Context) error {
	options := httpserver.Options{
		Addr: fmt.Sprintf(":%d", a.cfg.Port),
		Handler: workloadmanager.New(workloadmanager.Config{
			Clock: a.clock, Log: a.log, Sessions: a.sessions, Index: a.store, Templates: a.lister, Identity: a.verifier,
			Rows: a.store, Changes: a.changes,
			Health:           a.health,
			Metrics:          telemetry.MetricsHandler(a.registry),
			Requests:         a.metrics.requests,
			Tracer:           a.tracing.Tracer(),
			RuntimeClassName: a.cfg.RuntimeClassName,
		}),
		Health:       a.health,
		DrainDelay:   a.cfg.DrainDelay,
		DrainTimeout: a.cfg.DrainTimeout,
	}
	if a.cfg.TLS.Enabled {
		files := auth.TLSFiles{Cert: a.cfg.TLS.Cert, Key: a.cfg.TLS.Key, CA: a.cfg.TLS.CA}
		peer := auth.SPIFFEID(a.cfg.SPIFFETrustDomain, a.cfg.SPIFFENamespace(), auth.ServiceAccountRouter)
		var err error
		if options.TLS, err = auth.ServerTLS(a.clock, files, peer, a.log); err != nil {
			return fmt.Errorf("setting up TLS: %w", err)
		}
	}
	server, err := httpserver.Listen(ctx, a.clock, options, a.log)
	a.server = server
	return err
}

// run holds the order of start and stop.
//
// Start: 1. the listener is open already; 2. the HTTP server answers, and says
// that it is starting; 3. the store is waited for; 4. ready. 5. agent-sandbox
// is waited for behind that: creates answer 503 meanwhile.
//
// Stop, in the reverse order of who needs whom: 1. readiness fails, reads that
// wait for a change are answered, and after a delay HTTP drains, creates under
// way included, also those that outlived their requests, within the same bound;
// 2. the work stops: the
// collector, the elector and the syncs, then the undos that outlived their
// requests; 3. the watches stop, which all of these need, and the heartbeat,
// without which another replica would take over what is still being undone;
// 4. the store closes, and the last spans are sent.
//
// What fails for good stops the program: without it sessions would be left
// untended by a process that looks healthy.
func (a *app) run(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	supportCtx, stopSupport := context.WithCancel(context.WithoutCancel(ctx))
	defer stopSupport()
	workCtx, stopWork := context.WithCancel(supportCtx)
	defer stopWork()

	creates, endCreates := context.WithCancel(supportCtx)
	defer endCreates()
	context.AfterFunc(ctx, func() {
		_ = a.pause(creates, a.cfg.DrainDelay+a.cfg.DrainTimeout) // what ends it early needs no more of it
		endCreates()
	})

	support := &group{failed: stop}
	work := &group{failed: stop}
	support.Go(func() error { return a.verifier.Run(supportCtx) })
	support.Go(func() error { return a.lister.Run(supportCtx) })
	support.Go(func() error { return a.follow(supportCtx) })
	work.Go(func() error { return a.startWork(workCtx, supportCtx, support) })
	keepWaits := context.AfterFunc(ctx, a.changes.Close)
	defer keepWaits()

	serveErr := a.server.Run(ctx) // stop 1
	stop()
	a.sessions.drain(creates)
	stopWork() // stop 2
	workErr := work.Wait()
	drainErr := a.sessions.wait(supportCtx, a.cfg.UndoTimeout)
	stopSupport() // stop 3
	supportErr := support.Wait()
	defer a.tracing.Close(ctx)
	return errors.Join(serveErr, workErr, drainErr, supportErr, a.store.Close()) // stop 4
}

// group is a group of goroutines whose failure does not wait to be noticed.
type group struct {
	errgroup.Group
	failed func()
}

// Go runs do.
func (g *group) Go(do func() error) {
	g.Group.Go(func() error {
		err := do()
		if err != nil {
			g.failed()
		}
		return err
	})
}

func newClients(cfg config.WorkloadManager, tracing *telemetry.Tracing) (clients, error) {
	restConfig, err := sandbox.RESTConfig(clock.RealClock{}, cfg.Kubeconfig)
	if err != nil {
		return clients{}, fmt.Errorf("configuring the cluster's client: %w", err)
	}
	restConfig.QPS, restConfig.Burst = cfg.ClusterQPS, cfg.ClusterBurst
	restConfig.UserAgent = "agentcube-workload-manager/" + telemetry.ReadBuild().Version
	restConfig.Wrap(func(next http.RoundTripper) http.RoundTripper { return tracing.Transport("api-server", next) })
	httpClient, err := rest.HTTPClientFor(restConfig)
	if err != nil {
		return clients{}, fmt.Errorf("configuring the cluster's client: %w", err)
	}
	var c clients
	if c.dynamic, err = dynamic.NewForConfigAndClient(restConfig, httpClient); err != nil {
		return clients{}, err
	}
	if c.kube, err = kubernetes.NewForConfigAndClient(restConfig, httpClient); err != nil {
		return clients{}, err
	}
	if c.metadata, err = metadata.NewForConfigAndClient(restConfig, httpClient); err != nil {
		return clients{}, err
	}
	// Its calls take no context: unbounded, an API server that hangs would hold
	// up the end of the program. The connections are the same all the same.
	discoveryConfig := rest.CopyConfig(restConfig)
	discoveryConfig.Timeout = cfg.ClusterTimeout
	c.discovery, err = discovery.NewDiscoveryClientForConfig(discoveryConfig)
	return c, err
}

func newStore(cfg config.WorkloadManager, clk clock.Clock, metrics *store.Metrics) *store.Redis {
	options := store.Options{CallTimeout: cfg.Store.Timeout, CreateBound: createIsOver(cfg), Metrics: metrics}
	client := store.Client(store.Config{
		Addrs: []string{cfg.Store.Addr}, Password: cfg.Store.Password, Options: options,
	})
	return store.New(clk, client, options)
}

// processID names this process's heartbeat: the host for the operator, and
// what no restart repeats.
func processID() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return host + "-" + uuid.NewString()[:8]
}
