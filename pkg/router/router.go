// Package router owns the data plane: it takes a request that names a session,
// finds the session's sandbox in the store and forwards the request to it. A
// request without a session gets a new one from the workload-manager first.
//
//	resolve -> check -> forward
//
// resolve finds out which session is meant and reads its row, check decides
// whether the row may be dialled and where, and forward is one ReverseProxy
// whose transport dials again after asking the store, when a sandbox does not
// accept connections. Errors are typed; one table (errors.go) gives each its
// status, code, Retry-After and log level.
//
// It does not decide what a session is or when it ends, never writes to a row
// apart from the time of last activity, and knows neither Redis nor
// Kubernetes: what it needs of them are the small interfaces below.
package router

import (
	"context"
	"crypto/x509"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"time"

	"go.opentelemetry.io/otel/trace"
	"go.uber.org/zap"
	"k8s.io/utils/clock"

	"github.com/agentcube/agentcube/pkg/auth"
	"github.com/agentcube/agentcube/pkg/httpserver"
	"github.com/agentcube/agentcube/pkg/session"
)

// Store tells what the rows of sessions say (pkg/router/lookup).
type Store interface {
	// Get returns what the row says, perhaps from memory, session.ErrNotFound,
	// or session.ErrCorrupt. Any other error means that the store could not be
	// asked.
	Get(ctx context.Context, id string) (*session.Route, error)
	// Fresh is a Get that asks the store itself, for whoever has a reason to
	// doubt what Get says.
	Fresh(ctx context.Context, id string) (*session.Route, error)
}

// Endings tells why sessions ended.
type Endings interface {
	// Ended tells why a session that has no row ended, for an hour. Any error
	// means that it is not known.
	Ended(ctx context.Context, id string) (session.Ending, error)
}

// Creator makes sessions.
type Creator interface {
	// Create makes a session of the workload for the owner (empty: nobody in
	// particular) and returns its id once it is ready. It undoes the session
	// when ctx ends first. Refusals of the workload-manager are *ManagerError,
	// everything else is ErrManagerUnavailable.
	Create(ctx context.Context, workload session.WorkloadRef, owner string) (id string, err error)
	// Undo deletes a session that Create has made for the owner. One that is
	// gone already is no error.
	Undo(ctx context.Context, workload session.WorkloadRef, id, owner string) error
}

// Signer makes the token by which a sandbox knows the router.
type Signer interface {
	// SandboxAuthorization is the value of that header, signed for the session
	// with the key the sandbox got; an empty keyID means the current one.
	SandboxAuthorization(sessionID, keyID string, user auth.Principal) (string, error)
}

// Authenticator finds out who calls, from the Authorization header.
type Authenticator interface {
	// Authenticate returns auth.ErrUnauthorized, auth.ErrForbidden or
	// auth.ErrNotReady when it does not.
	Authenticate(ctx context.Context, authorization string) (auth.Principal, error)
}

// Dependencies are the parties the router works with. Authenticator may be
// nil: callers are then anonymous.
type Dependencies struct {
	Store         Store
	Endings       Endings
	Creator       Creator
	Signer        Signer
	Authenticator Authenticator
	Activity      *Recorder
	// Health answers /readyz and /health/ready.
	Health *httpserver.Health
	// Metrics answers /metrics.
	Metrics http.Handler
	// Observe is told of each request that is over. It may be nil.
	Observe httpserver.ObserveFunc
	// Tracer begins the span of each request. Nil: nothing is traced, and what
	// a caller says of its own trace reaches the sandbox as it is.
	Tracer trace.Tracer
}

// Options are the router's settings.
type Options struct {
	// MaxConcurrentRequests bounds the requests in flight. 0: no bound.
	MaxConcurrentRequests int
	// DialTimeout bounds one attempt to connect to a sandbox. 0: 5 s.
	DialTimeout time.Duration
	// RetryWindow bounds the time during which a sandbox whose row has not
	// changed is dialled again. 0: 1 s.
	RetryWindow time.Duration
	// ResponseTimeout bounds the wait for the first byte of the sandbox's
	// answer. 0: no bound.
	ResponseTimeout time.Duration
	// AllowLoopbackEndpoints permits rows that point at this machine.
	AllowLoopbackEndpoints bool
	// SandboxCAs verify HTTPS entry points. Nil: they are not verified.
	SandboxCAs *x509.CertPool
	// TrustedProxies may say for whom they forward.
	TrustedProxies []netip.Prefix
}

// undoTimeout bounds the deletion of a session that nobody knows.
const undoTimeout = 30 * time.Second

const (
	defaultDialTimeout = 5 * time.Second
	defaultRetryWindow = time.Second
)

// Router serves invocations. Make it with New.
type Router struct {
	Dependencies
	clock   clock.WithTicker
	opts    Options
	log     *zap.Logger
	limiter *limiter
	waiting waiting
	changes *changes
	conns   *connections
	counts  *counts
	idle    *idleConns
	proxy   *httputil.ReverseProxy
}

// New wires a router together. It starts nothing.
func New(clk clock.WithTicker, deps Dependencies, opts Options, log *zap.Logger) *Router {
	if opts.DialTimeout <= 0 {
		opts.DialTimeout = defaultDialTimeout
	}
	if opts.RetryWindow <= 0 {
		opts.RetryWindow = defaultRetryWindow
	}
	rt := &Router{
		Dependencies: deps,
		clock:        clk,
		opts:         opts,
		log:          log,
		limiter:      &limiter{max: int64(opts.MaxConcurrentRequests)},
		waiting:      waiting{set: map[*wait]struct{}{}},
		changes:      newChanges(),
		conns:        newConnections(),
		counts:       newCounts(),
	}
	wire := newTransports(clk, opts, rt.conns)
	rt.idle = wire.direct.idle
	rt.proxy = rt.newProxy(wire)
	return rt
}

// Leave is called with the id of a session whose row has changed: it may be
// elsewhere by now, and its address another's. Run looks at it.
func (rt *Router) Leave(id string) { rt.changes.add(id) }

// LeaveAll is Leave for all sessions: changes may have been missed.
func (rt *Router) LeaveAll() { rt.changes.addAll() }
