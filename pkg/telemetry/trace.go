package telemetry

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/zap"
)

const (
	// scope names our spans' origin to whoever reads them.
	scope = "github.com/agentcube/agentcube"
	// flushTimeout bounds the sending of the last spans.
	flushTimeout = 5 * time.Second
)

// TraceOptions say where spans go. OTEL_… variables that have no field here are
// read by the library: OTEL_SERVICE_NAME, OTEL_RESOURCE_ATTRIBUTES,
// OTEL_TRACES_SAMPLER and its _ARG, OTEL_EXPORTER_OTLP_HEADERS, _TIMEOUT,
// _CERTIFICATE and so on, OTEL_BSP_….
type TraceOptions struct {
	// URL that spans are posted to, by OTLP over HTTP. Empty: no traces.
	URL string
	// Ratio of the traces that begin here which are recorded. Nil: what
	// OTEL_TRACES_SAMPLER says, all by default.
	Ratio *float64
}

// Tracing sends spans to a collector, in the background. Nil is one that is off.
type Tracing struct {
	provider *sdktrace.TracerProvider
}

// NewTracing is nil without a URL. A collector that does not answer loses spans,
// and delays nothing. The library has one handler of errors for the process,
// which logs to log from here on.
func NewTracing(ctx context.Context, program string, build Build, o TraceOptions, log *zap.Logger) (*Tracing, error) {
	if o.URL == "" {
		return nil, nil
	}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { log.Warn("spans are lost", zap.Error(err)) }))
	exporter, err := otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(o.URL))
	if err != nil {
		return nil, fmt.Errorf("setting up traces: %w", err)
	}
	about, err := resource.New(ctx,
		resource.WithAttributes(
			attribute.String("service.namespace", "agentcube"),
			attribute.String("service.name", program),
			attribute.String("service.version", build.Version),
		),
		resource.WithHost(), resource.WithTelemetrySDK(),
		resource.WithFromEnv(), // last, so that it counts
	)
	if err != nil {
		return nil, fmt.Errorf("setting up traces: %w", err)
	}
	options := []sdktrace.TracerProviderOption{sdktrace.WithBatcher(exporter), sdktrace.WithResource(about)}
	if o.Ratio != nil {
		options = append(options, sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.TraceIDRatioBased(*o.Ratio))))
	}
	return &Tracing{provider: sdktrace.NewTracerProvider(options...)}, nil
}

// Tracer begins spans. It is nil if t is.
func (t *Tracing) Tracer() trace.Tracer {
	if t == nil {
		return nil
	}
	return t.provider.Tracer(scope)
}

// Close sends what is left, within a bound. Losing it is no error.
func (t *Tracing) Close(ctx context.Context) {
	if t == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushTimeout)
	defer cancel()
	if err := t.provider.Shutdown(ctx); err != nil {
		otel.Handle(err)
	}
}

// Transport gives each request whose context belongs to a recorded trace a span
// of its own, and names the trace to whoever answers. Others pass untouched. If
// t is nil it is next itself.
func (t *Tracing) Transport(peer string, next http.RoundTripper) http.RoundTripper {
	if t == nil {
		return next
	}
	return &tracedTransport{peer: peer, next: next}
}

type tracedTransport struct {
	peer string
	next http.RoundTripper
}

// WrappedRoundTripper is how client-go finds what is below.
func (t *tracedTransport) WrappedRoundTripper() http.RoundTripper { return t.next }

// RoundTrip implements http.RoundTripper.
func (t *tracedTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	parent := trace.SpanFromContext(r.Context())
	if !parent.SpanContext().IsValid() {
		return t.next.RoundTrip(r)
	}
	ctx, span := parent.TracerProvider().Tracer(scope).Start(r.Context(), t.peer+" "+r.Method,
		trace.WithSpanKind(trace.SpanKindClient),
		trace.WithAttributes(attribute.String("http.request.method", r.Method), attribute.String("url.path", r.URL.Path)))
	defer span.End()
	own := r.Clone(ctx)
	// An unrecorded span is none at all here: the parent is named then.
	propagation.TraceContext{}.Inject(ctx, propagation.HeaderCarrier(own.Header))
	response, err := t.next.RoundTrip(own)
	if err != nil {
		span.SetStatus(codes.Error, err.Error())
		return response, err
	}
	span.SetAttributes(attribute.Int("http.response.status_code", response.StatusCode))
	if response.StatusCode >= http.StatusInternalServerError {
		span.SetStatus(codes.Error, response.Status)
	}
	return response, nil
}
