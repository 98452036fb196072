package main

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"

	"github.com/agentcube/agentcube/pkg/auth"
	"github.com/agentcube/agentcube/pkg/config"
	"github.com/agentcube/agentcube/pkg/httpserver"
	"github.com/agentcube/agentcube/pkg/router"
	"github.com/agentcube/agentcube/pkg/router/lookup"
	"github.com/agentcube/agentcube/pkg/sandbox"
	"github.com/agentcube/agentcube/pkg/store"
	"github.com/agentcube/agentcube/pkg/telemetry"
)

const (
	// managerIdleConns are kept to the workload-manager, for bursts of creates.
	managerIdleConns = 100
	// keyInterval is how often the start looks whether there is a key yet.
	keyInterval = 50 * time.Millisecond
)

// app is the router put together.
type app struct {
	cfg   config.Router
	log   *zap.Logger
	clock clock.RealClock

	registry *prometheus.Registry
	tracing  *telemetry.Tracing // nil: off
	health   *httpserver.Health
	store    *store.Redis
	rows     *lookup.Cache
	signer   *auth.Signer
	oidc     *auth.OIDC // nil: callers are anonymous
	activity *router.Recorder
	router   *router.Router
	server   *httpserver.Server
}

// Run serves until ctx ends, and returns when everything has stopped. onListen,
// if not nil, is told the address.
func Run(ctx context.Context, cfg config.Router, log *zap.Logger, onListen func(net.Addr)) error {
	for _, warning := range cfg.Warnings {
		log.Warn(warning)
	}
	a, err := newApp(ctx, cfg, log)
	if err != nil {
		return err
	}
	log.Info("router listens", zap.Stringer("address", a.server.Addr()),
		zap.Stringer("build", telemetry.ReadBuild()))
	if onListen != nil {
		onListen(a.server.Addr())
	}
	return a.run(ctx)
}

// newApp builds everything and opens the listener. Nothing runs yet.
func newApp(ctx context.Context, cfg config.Router, log *zap.Logger) (*app, error) {
	a := &app{cfg: cfg, log: log}
	a.registry = telemetry.NewRegistry("router", telemetry.ReadBuild())
	a.health = httpserver.NewHealth(a.clock, log)
	kube, err := newKube(cfg)
	if err != nil {
		return nil, err
	}
	a.tracing, err = telemetry.NewTracing(ctx, "router", telemetry.ReadBuild(),
		telemetry.TraceOptions{URL: cfg.Trace.URL, Ratio: cfg.Trace.Ratio}, log)
	if err != nil {
		return nil, err
	}
	a.signer = auth.NewSigner(a.clock, kube, cfg.SecretNamespace(), log)
	if cfg.OIDC.Enabled() {
		a.oidc = auth.NewOIDC(a.clock, auth.OIDCOptions{
			IssuerURL: cfg.OIDC.IssuerURL, Audience: cfg.OIDC.Audience,
			RoleClaim: cfg.OIDC.RoleClaim, RequiredRole: cfg.OIDC.RequiredRole,
		}, log)
	}
	options := store.Options{CallTimeout: cfg.Store.Timeout, Metrics: store.NewMetrics(a.clock, a.registry)}
	a.store = store.New(a.clock, store.Client(store.Config{
		Addrs: []string{cfg.Store.Addr}, Password: cfg.Store.Password, Options: options,
	}), options)
	a.rows = lookup.New(a.clock, chaosStore(a.store), lookup.Options{
		MaxStaleness: cfg.MaxStaleness,
		// There is a router before anything runs.
		Changed:   func(id string) { a.router.Leave(id) },
		Forgotten: func() { a.router.LeaveAll() },
	}, log)
	a.activity = router.NewRecorder(a.clock, a.store, log)
	a.health.Detail("store", a.store.Ping)
	a.health.Detail("identity-key", a.hasKey)
	if err := a.listen(ctx); err != nil {
		a.tracing.Close(ctx)
		return nil, errors.Join(err, a.store.Close())
	}
	return a, nil
}

// listen builds the router and opens the listener before anything runs, so
// that a taken port or a bad certificate is an error at once.
func (a *app) listen(ctx context.Context) (err error) {
	if a.router, err = a.newRouter(); err != nil {
		return err
	}
	options := httpserver.Options{
		Addr:         fmt.Sprintf(":%d", a.cfg.Port),
		Handler:      a.router.Handler(),
		Health:       a.health,
		DrainDelay:   a.cfg.DrainDelay,
		DrainTimeout: a.cfg.DrainTimeout,
	}
	if a.cfg.TLS.Enabled {
		files := auth.TLSFiles{Cert: a.cfg.TLS.Cert, Key: a.cfg.TLS.Key, CA: a.cfg.TLS.CA}
		if options.TLS, err = auth.ServerTLS(a.clock, files, "", a.log); err != nil {
			return fmt.Errorf("setting up TLS: %w", err)
		}
	}
	a.server, err = httpserver.Listen(ctx, a.clock, options, a.log)
	return err
}

func (a *app) newRouter() (*router.Router, error) {
	manager, err := a.managerTransport()
	if err != nil {
		return nil, err
	}
	roots, err := sandboxCAs(a.cfg.SandboxCA)
	if err != nil {
		return nil, err
	}
	deps := router.Dependencies{
		Store:    a.rows,
		Endings:  a.store,
		Creator:  router.NewManager(a.tracing.Transport("workload-manager", manager), a.cfg.WorkloadManagerURL, a.signer, a.cfg.CreateTimeout),
		Signer:   a.signer,
		Activity: a.activity,
		Health:   a.health,
		Metrics:  telemetry.MetricsHandler(a.registry),
		Observe:  httpserver.NewRequests(a.registry, router.Routes()...).Observe,
		Tracer:   a.tracing.Tracer(),
	}
	if a.oidc != nil { // a nil pointer in the interface would not be nil
		deps.Authenticator = a.oidc
	}
	rt := router.New(a.clock, deps, router.Options{
		MaxConcurrentRequests:  a.cfg.MaxConcurrentRequests,
		DialTimeout:            a.cfg.DialTimeout,
		ResponseTimeout:        a.cfg.ResponseTimeout,
		AllowLoopbackEndpoints: a.cfg.AllowLoopbackEndpoints,
		SandboxCAs:             roots,
		TrustedProxies:         a.cfg.TrustedProxies,
	}, a.log)
	a.registry.MustRegister(a.health, a.rows, rt)
	return rt, nil
}

// run holds the order of start and stop.
//
// Start: 1. the listener is open already; 2. the HTTP server answers, and says
// that it is starting; 3. the store is waited for; 4. the identity key is
// waited for, without which nearly no session can be served; 5. ready.
//
// Stop, in the reverse order of who needs whom: 1. readiness fails, and after
// a delay HTTP drains, streams and upgraded connections included; 2. activity
// is flushed, of which the last requests were the last source; 3. the signer
// and what else served requests ends; 4. the store closes, to which activity
// went, and the last spans are sent. The logger is flushed by the caller.
func (a *app) run(ctx context.Context) error {
	serveCtx, stopServing := context.WithCancel(context.WithoutCancel(ctx))
	defer stopServing()
	activityCtx, stopActivity := context.WithCancel(serveCtx)
	defer stopActivity()

	var serving, activity errgroup.Group
	activity.Go(func() error { return a.activity.Run(activityCtx) })
	serving.Go(func() error { return a.signer.Run(serveCtx) })
	serving.Go(func() error { return a.router.Run(serveCtx) })
	serving.Go(func() error { return a.follow(serveCtx) })
	if a.oidc != nil {
		serving.Go(func() error { return a.oidc.Run(serveCtx) })
	}
	startCtx, stopStart := context.WithCancel(ctx)
	serving.Go(func() error { a.start(startCtx); return nil })

	serveErr := a.server.Run(ctx) // stop 1
	stopStart()                   // also when serving failed
	stopActivity()                // stop 2
	activityErr := activity.Wait()
	stopServing() // stop 3
	servingErr := serving.Wait()
	defer a.tracing.Close(ctx)
	return errors.Join(serveErr, activityErr, servingErr, a.store.Close()) // stop 4
}

// start makes the process ready once it can serve, unless ctx ends first.
func (a *app) start(ctx context.Context) {
	if err := a.store.Wait(ctx); err != nil {
		return
	}
	ticker := a.clock.NewTicker(keyInterval)
	defer ticker.Stop()
	for a.hasKey(ctx) != nil {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C():
		}
	}
	a.health.Ready()
	a.log.Info("router is ready")
}

// follow keeps the rows that are remembered true.
func (a *app) follow(ctx context.Context) error {
	err := a.store.Follow(ctx, a.rows)
	if errors.Is(err, store.ErrNotFollowed) {
		a.log.Warn("each request reads its session's row, and none is served while the store does not answer", zap.Error(err))
		return nil
	}
	return err
}

// hasKey is a detail of the readiness.
func (a *app) hasKey(context.Context) error {
	if _, ok := a.signer.KeyID(); !ok {
		return auth.ErrNoKey
	}
	return nil
}

func newKube(cfg config.Router) (kubernetes.Interface, error) {
	restConfig, err := sandbox.RESTConfig(clock.RealClock{}, cfg.Kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("configuring the cluster's client: %w", err)
	}
	restConfig.UserAgent = "agentcube-router/" + telemetry.ReadBuild().Version
	kube, err := kubernetes.NewForConfig(restConfig)
	if err != nil {
		return nil, fmt.Errorf("configuring the cluster's client: %w", err)
	}
	return kube, nil
}

// managerTransport speaks to the workload-manager, with mTLS if configured.
func (a *app) managerTransport() (http.RoundTripper, error) {
	transport := &http.Transport{
		DialContext:         (&net.Dialer{Timeout: a.cfg.DialTimeout}).DialContext,
		TLSHandshakeTimeout: a.cfg.DialTimeout,
		MaxIdleConns:        managerIdleConns,
		MaxIdleConnsPerHost: managerIdleConns,
		IdleConnTimeout:     time.Minute,
	}
	if !a.cfg.MTLS.Enabled {
		return transport, nil
	}
	files := auth.TLSFiles{Cert: a.cfg.MTLS.Cert, Key: a.cfg.MTLS.Key, CA: a.cfg.MTLS.CA}
	peer := auth.SPIFFEID(a.cfg.SPIFFETrustDomain, a.cfg.SPIFFENamespace(), auth.ServiceAccountWorkloadManager)
	var err error
	transport.TLSClientConfig, err = auth.ClientTLS(a.clock, files, a.cfg.WorkloadManagerURL.Hostname(), peer, a.log)
	if err != nil {
		return nil, fmt.Errorf("setting up TLS to the workload-manager: %w", err)
	}
	return transport, nil
}

// sandboxCAs reads the certificates that verify HTTPS entry points. Nil: they
// are not verified.
func sandboxCAs(path string) (*x509.CertPool, error) {
	if path == "" {
		return nil, nil
	}
	pem, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("--sandbox-ca: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("--sandbox-ca: %s holds no certificate", path)
	}
	return pool, nil
}
