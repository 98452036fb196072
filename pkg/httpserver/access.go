package httpserver

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/go-chi/chi/v5"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"k8s.io/utils/clock"
)

// statusClientClosed stands in logs where the client went away before it got
// an answer. It is never sent.
const statusClientClosed = 499

// Record is what the handlers of a request add to its access record. Its
// methods may be called from several goroutines.
type Record struct {
	// id of the request, and how to end its context. They are set before the
	// record is shared.
	id  string
	end context.CancelCauseFunc

	mu      sync.Mutex // guards what follows
	session string
	route   string
	code    string
	status  int
	cause   error
	level   zapcore.Level
	trace   string
	carried any
}

type recordKey struct{}

// RecordFrom is the record of the request that ctx belongs to. Outside of
// AccessLog it is one that nobody reads, never nil.
func RecordFrom(ctx context.Context) *Record {
	if r, ok := ctx.Value(recordKey{}).(*Record); ok {
		return r
	}
	return &Record{}
}

// SetSession names the session that the request belongs to.
func (r *Record) SetSession(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.session = id
}

// SetRoute names the route where the pattern of the router does not tell.
func (r *Record) SetRoute(pattern string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.route = pattern
}

// SetStatus replaces the status that was sent, for one that never can be.
func (r *Record) SetStatus(status int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.status = status
}

// Fail says how the request failed: the public code, the private cause (may
// be nil) and the level that the record is logged at.
func (r *Record) Fail(code string, cause error, level zapcore.Level) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.code, r.cause, r.level = code, cause, level
}

// Carry keeps what a handler wants to find again from the request's context, in
// place of a copy of the request with a context of its own. There is one for a
// request.
func (r *Record) Carry(v any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.carried = v
}

// Carried is what was kept, nil if nothing was.
func (r *Record) Carried() any {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.carried
}

// End ends the request's context, with err as its cause. It needs RequestID.
func (r *Record) End(err error) {
	if r.end != nil {
		r.end(err)
	}
}

// AccessLog writes one record for each request, when it is over. Requests for
// the quiet paths are logged at debug. Use it within the chi router, whose
// pattern names the route. observe, if not nil, is told of each request as well,
// logged or not.
func AccessLog(clk clock.PassiveClock, log *zap.Logger, observe ObserveFunc, quiet ...string) func(http.Handler) http.Handler {
	log = log.WithOptions(zap.WithCaller(false)) // it is always this file, and costs a walk of the stack
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			rec, req, start := record(w), r, clk.Now()
			returned := false
			entry, ok := r.Context().Value(recordKey{}).(*Record)
			if !ok { // RequestID has not made one
				entry = &Record{}
				req = r.WithContext(context.WithValue(r.Context(), recordKey{}, entry))
			}
			if slices.Contains(quiet, r.URL.Path) {
				entry.level = zapcore.DebugLevel
			}
			// Deferred: a request that ends in a panic has a record as well.
			defer func() {
				entry.finish(log, observe, req, rec, clk.Since(start), returned)
			}()
			next.ServeHTTP(rec, req)
			returned = true
		})
	}
}

// recordFields are slices of fields that are written again and again: a log
// keeps no field beyond its write.
var recordFields sync.Pool

// ObserveFunc is told the route of a request that is over, the status as the
// client saw it, and how long it took.
type ObserveFunc func(route string, status int, took time.Duration)

// finish logs the record and tells the observer. returned is false when the
// handler panicked, which breaks the connection off.
func (r *Record) finish(log *zap.Logger, observe ObserveFunc, req *http.Request, rec *recorder, took time.Duration, returned bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	route, status := r.pattern(req), r.answered(req, rec, returned)
	if observe != nil {
		observe(route, status, took)
	}
	checked := log.Check(r.level, "request")
	if checked == nil {
		return
	}
	reused, ok := recordFields.Get().(*[]zap.Field)
	if !ok {
		reused = new([]zap.Field)
	}
	fields := (*reused)[:0]
	fields = append(fields,
		zap.String("method", req.Method),
		zap.String("route", route),
		zap.Int("status", status),
		zap.Int64("bytes", rec.bytes),
		zap.Duration("duration", took),
		zap.String("session", r.session),
		zap.String("code", r.code),
		zap.String("requestId", r.id),
	)
	if r.trace != "" {
		fields = append(fields, zap.String("trace", r.trace))
	}
	if !returned {
		fields = append(fields, zap.Bool("aborted", true))
	}
	if r.cause != nil {
		fields = append(fields, zap.Error(r.cause))
	}
	checked.Write(fields...)
	clear(fields)
	*reused = fields
	recordFields.Put(reused)
}

func (r *Record) pattern(req *http.Request) string {
	if r.route != "" {
		return r.route
	}
	if routes := chi.RouteContext(req.Context()); routes != nil {
		return routes.RoutePattern()
	}
	return ""
}

// answered is the status as the client saw it; 0 when it saw none.
func (r *Record) answered(req *http.Request, rec *recorder, returned bool) int {
	switch {
	case r.status != 0:
		return r.status
	case rec.status != 0:
		return rec.status
	case errors.Is(req.Context().Err(), context.Canceled):
		return statusClientClosed
	case !returned:
		return 0
	default:
		return http.StatusOK // the server sends it when the handler returns
	}
}
