package router

import (
	"net/http"

	"github.com/go-chi/chi/v5"

	"github.com/agentcube/agentcube/pkg/api/openapi"
	"github.com/agentcube/agentcube/pkg/httpserver"
)

// Paths that are asked all the time and say nothing in a log.
var quietPaths = []string{"/health/live", "/health/ready", "/livez", "/readyz", "/metrics"}

// Handler returns every route and middleware. What an invocation passes stands
// before chi, which would copy each request once more. The order:
//
//  1. the request id, which every later record and answer carries;
//  2. the span, if requests are traced, whose trace the record names;
//  3. the access record, around everything that can fail;
//  4. recovery, inside the record so that a panic is in it;
//  5. invocations, recognised by the path as it was sent. They come before
//     chi's own routing, which knows a fixed list of methods and matches the
//     decoded path;
//  6. the fixed routes, which no concurrency limit reaches.
func (rt *Router) Handler() http.Handler {
	return chi.Chain(
		httpserver.RequestID,
		httpserver.Trace(rt.Tracer, quietPaths...),
		httpserver.AccessLog(rt.clock, rt.log, rt.Observe, quietPaths...),
		httpserver.Recover(rt.log, rt.answer(errPanic)),
		rt.invocations,
	).Handler(rt.fixedRoutes())
}

// fixedRoutes are all but invocations.
func (rt *Router) fixedRoutes() *chi.Mux {
	r := chi.NewRouter()
	r.Use(nameRoute)
	r.Get("/health/live", httpserver.Status("alive"))
	r.Get("/health/ready", rt.healthReady)
	r.Get("/livez", httpserver.Status("ok"))
	r.Get("/readyz", rt.Health.Readyz)
	r.Method(http.MethodGet, "/metrics", rt.Metrics)
	r.Get("/openapi.json", openapi.Handler(openapi.Router))
	r.NotFound(rt.answer(errNoRoute))
	r.MethodNotAllowed(rt.answer(errMethod))
	return r
}

// nameRoute puts the route that chi has chosen into the access record.
func nameRoute(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		record, route := httpserver.RecordFrom(r.Context()), chi.RouteContext(r.Context())
		defer func() { record.SetRoute(route.RoutePattern()) }() // also when it panics
		next.ServeHTTP(w, r)
	})
}

// answer is a handler that always fails with err.
func (rt *Router) answer(err error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) { rt.fail(w, r, nil, err) }
}

// healthReady answers exactly what existing installations probe for, with the
// status of /readyz.
func (rt *Router) healthReady(w http.ResponseWriter, r *http.Request) {
	probe := statusOnly{header: http.Header{}}
	rt.Health.Readyz(&probe, r)
	if probe.status != 0 && probe.status != http.StatusOK {
		rt.Health.Readyz(w, r)
		return
	}
	httpserver.Status("ready")(w, r)
}

// statusOnly is a ResponseWriter that keeps nothing but the status.
type statusOnly struct {
	header http.Header
	status int
}

func (s *statusOnly) Header() http.Header         { return s.header }
func (s *statusOnly) Write(p []byte) (int, error) { return len(p), nil }

func (s *statusOnly) WriteHeader(status int) {
	if s.status == 0 {
		s.status = status
	}
}
