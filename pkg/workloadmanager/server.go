// Package workloadmanager owns the REST surface of the control plane: routes,
// the reading of requests, and the one table that turns an error into an
// answer. What a request does is done by the packages below it: provision
// creates and deletes sessions, reconcile follows the cluster, gc collects.
package workloadmanager

import (
	"context"
	"net/http"
	"strings"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/zap"
	"k8s.io/utils/clock"

	"github.com/agentcube/agentcube/pkg/api"
	"github.com/agentcube/agentcube/pkg/api/openapi"
	"github.com/agentcube/agentcube/pkg/httpserver"
	"github.com/agentcube/agentcube/pkg/session"
	"github.com/agentcube/agentcube/pkg/workload"
	"github.com/agentcube/agentcube/pkg/workloadmanager/provision"
)

// Sessions creates, changes and deletes sessions.
type Sessions interface {
	Create(ctx context.Context, r provision.Request) (session.Session, error)
	// Submit is a create that can be sent again, or is answered before it is
	// done.
	Submit(ctx context.Context, call provision.Call) (session.Session, error)
	Change(ctx context.Context, id string, c session.Change) (session.Session, error)
	Delete(ctx context.Context, id, reason string) error
}

// Templates finds the workloads that sessions are made from.
type Templates interface {
	Get(ctx context.Context, ref session.WorkloadRef) (workload.Workload, error)
	// WaitPool returns once the pool and template of a warm workload exist.
	WaitPool(ctx context.Context, ref session.WorkloadRef) (workload.Workload, error)
}

// Identity is the public half of the router's key.
type Identity interface {
	// Key is what a sandbox checks the router's tokens by. ok is false until
	// it is loaded.
	Key() (pem, keyID string, ok bool)
	VerifyIdentity(token string) (owner string, err error)
}

// Config is what a Server is made of.
type Config struct {
	Clock     clock.Clock
	Log       *zap.Logger
	Sessions  Sessions
	Index     Index
	Rows      Rows
	Changes   Changes
	Templates Templates
	Identity  Identity
	Health    *httpserver.Health
	Metrics   http.Handler
	// Requests counts them. It may be nil.
	Requests *httpserver.Requests
	// Tracer begins the span of each request. Nil: nothing is traced.
	Tracer trace.Tracer
	// RuntimeClassName fills templates that name none. Empty: none.
	RuntimeClassName string
}

// Server answers the REST API.
type Server struct {
	Config
	router *chi.Mux
}

// New returns a Server.
func New(config Config) *Server {
	s := &Server{Config: config}
	s.router = s.routes()
	if s.Requests != nil {
		s.Requests.Add(patterns(s.router)...)
	}
	return s
}

// patterns are those of all routes.
func patterns(routes chi.Routes) (patterns []string) {
	err := chi.Walk(routes, func(_, pattern string, _ http.Handler, _ ...func(http.Handler) http.Handler) error {
		patterns = append(patterns, pattern)
		return nil
	})
	if err != nil { // that of the func above
		panic(err)
	}
	return patterns
}

func (s *Server) observe() httpserver.ObserveFunc {
	if s.Requests == nil {
		return nil
	}
	return s.Requests.Observe
}

// quietPaths are asked all the time and say nothing in a log.
var quietPaths = []string{"/health", "/livez", "/readyz", "/metrics"}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.router.ServeHTTP(w, r) }

// routes is every route and middleware, in order.
func (s *Server) routes() *chi.Mux {
	r := chi.NewRouter()
	r.Use(
		// First, so that every record and error bears the id.
		httpserver.RequestID,
		// Around the record, which names the trace.
		httpserver.Trace(s.Tracer, quietPaths...),
		// Around the recovery, so that a panic is recorded with its 500.
		httpserver.AccessLog(s.Clock, s.Log, s.observe(), quietPaths...),
		httpserver.Recover(s.Log, func(w http.ResponseWriter, r *http.Request) { s.fail(w, r, errPanicked) }),
		middleware.GetHead,
	)
	r.NotFound(func(w http.ResponseWriter, r *http.Request) { s.fail(w, r, errNoRoute) })
	r.MethodNotAllowed(s.methodNotAllowed)

	r.Get("/health", httpserver.Status("healthy"))
	r.Get("/livez", httpserver.Status("ok"))
	r.Get("/readyz", s.Health.Readyz)
	r.Method(http.MethodGet, "/metrics", s.Metrics)
	r.Get("/openapi.json", openapi.Handler(openapi.WorkloadManager))

	r.Post("/v1/agent-runtime", s.handle(s.create(session.KindAgentRuntime)))
	r.Post("/v1/code-interpreter", s.handle(s.create(session.KindCodeInterpreter)))
	// Both take any session: existing callers do not know which made theirs.
	r.Delete("/v1/agent-runtime/sessions/{id}", s.handle(s.delete))
	r.Delete("/v1/code-interpreter/sessions/{id}", s.handle(s.delete))
	r.Get("/v1/sessions", s.handle(s.list))
	r.Delete("/v1/sessions/{id}", s.handle(s.delete))
	r.Get("/v1/sessions/{id}", s.handle(s.readSession))
	r.Patch("/v1/sessions/{id}", s.handle(s.patchSession))
	r.Post("/v1/sessions/{id}/keepalive", s.handle(s.keepSession))
	return r
}

// handle turns a handler that returns its error into one that answers it.
func (s *Server) handle(h func(http.ResponseWriter, *http.Request) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if err := h(w, r); err != nil {
			s.fail(w, r, err)
		}
	}
}

func (s *Server) methodNotAllowed(w http.ResponseWriter, r *http.Request) {
	path := r.URL.RawPath // as chi matches it
	if path == "" {
		path = r.URL.Path
	}
	var allowed []string
	for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPatch, http.MethodDelete} {
		if !s.router.Match(chi.NewRouteContext(), method, path) {
			continue
		}
		allowed = append(allowed, method)
		if method == http.MethodGet {
			allowed = append(allowed, http.MethodHead)
		}
	}
	if len(allowed) == 0 {
		// chi says so of every path when it does not know the method.
		s.fail(w, r, errNoRoute)
		return
	}
	w.Header().Set("Allow", strings.Join(allowed, ", "))
	s.fail(w, r, errMethod)
}

// owner is who the identity header names, if there is one.
func (s *Server) owner(r *http.Request) (string, error) {
	values, present := r.Header[http.CanonicalHeaderKey(api.HeaderUserIdentity)]
	if !present {
		return "", nil
	}
	if len(values) != 1 {
		return "", errManyIdentities
	}
	return s.Identity.VerifyIdentity(values[0])
}
