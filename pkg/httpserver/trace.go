package httpserver

import (
	"context"
	"net/http"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// traceContext is the form of traceparent and tracestate (W3C Trace Context).
var traceContext propagation.TraceContext

// Trace has a span for each request: a part of the caller's trace, if its headers
// name one, else the beginning of a new one. Use it within RequestID and around
// AccessLog, whose record then bears the trace's id. Without a tracer (nil) it
// is not there at all. Requests for the quiet paths have no span.
func Trace(tracer trace.Tracer, quiet ...string) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		if tracer == nil {
			return next
		}
		isQuiet := make(map[string]bool, len(quiet))
		for _, path := range quiet {
			isQuiet[path] = true
		}
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if isQuiet[r.URL.Path] {
				next.ServeHTTP(w, r)
				return
			}
			ctx := traceContext.Extract(r.Context(), propagation.HeaderCarrier(r.Header))
			ctx, span := tracer.Start(ctx, r.Method, trace.WithSpanKind(trace.SpanKindServer))
			rec, entry := record(w), RecordFrom(r.Context())
			if c := span.SpanContext(); c.IsSampled() {
				entry.setTrace(c.TraceID().String())
			}
			req := r.WithContext(ctx)
			returned := false
			// Deferred: a request that ends in a panic has a span as well.
			defer func() { entry.describe(span, req, rec, returned) }()
			next.ServeHTTP(rec, req)
			returned = true
		})
	}
}

// InjectTrace names the trace of ctx in the header of a request that goes on to
// someone else, in place of what stands there.
func InjectTrace(ctx context.Context, h http.Header) {
	for _, name := range traceContext.Fields() {
		h.Del(name)
	}
	traceContext.Inject(ctx, propagation.HeaderCarrier(h))
}

func (r *Record) setTrace(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.trace = id
}

// describe ends the span, with what the record says.
func (r *Record) describe(span trace.Span, req *http.Request, rec *recorder, returned bool) {
	defer span.End()
	if !span.IsRecording() {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	route, status := r.pattern(req), r.answered(req, rec, returned)
	if route != "" {
		span.SetName(req.Method + " " + route)
	}
	span.SetAttributes(
		attribute.String("http.request.method", req.Method),
		attribute.String("http.route", route),
		attribute.Int("http.response.status_code", status),
		attribute.String("agentcube.request.id", r.id),
		attribute.String("agentcube.session.id", r.session),
		attribute.String("agentcube.error.code", r.code),
	)
	if status >= http.StatusInternalServerError || status == 0 {
		span.SetStatus(codes.Error, r.code)
	}
}
