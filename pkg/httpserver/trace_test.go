package httpserver

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
	"k8s.io/utils/clock"
)

const (
	traceID    = "4bf92f3577b34da6a3ce929d0e0e4736"
	callerSpan = "00f067aa0ba902b7"
	callerOn   = "00-" + traceID + "-" + callerSpan + "-01"
	callerOff  = "00-" + traceID + "-" + callerSpan + "-00"
)

// traced serves one request by the middlewares as the programs have them, and
// returns its access record.
func traced(t *testing.T, tracer trace.Tracer, path, traceparent string, handler http.HandlerFunc) map[string]any {
	t.Helper()
	core, logs := observer.New(zapcore.DebugLevel)
	served := RequestID(Trace(tracer, "/livez")(AccessLog(clock.RealClock{}, zap.New(core), nil)(handler)))
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
	if traceparent != "" {
		r.Header.Set("Traceparent", traceparent)
	}
	served.ServeHTTP(httptest.NewRecorder(), r)
	require.Equal(t, 1, logs.Len())
	return logs.All()[0].ContextMap()
}

func recording() (trace.Tracer, *tracetest.SpanRecorder) {
	spans := tracetest.NewSpanRecorder()
	return sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans)).Tracer("test"), spans
}

func TestARequestIsASpanOfItsCallersTrace(t *testing.T) {
	t.Parallel()
	tracer, spans := recording()
	record := traced(t, tracer, "/x", callerOn, func(w http.ResponseWriter, r *http.Request) {
		entry := RecordFrom(r.Context())
		entry.SetRoute("/{x}")
		entry.SetSession("s")
		entry.Fail("CODE", nil, zapcore.WarnLevel)
		w.WriteHeader(http.StatusBadGateway)
	})
	assert.Equal(t, traceID, record["trace"])
	require.Len(t, spans.Ended(), 1)
	span := spans.Ended()[0]
	assert.Equal(t, traceID, span.SpanContext().TraceID().String())
	assert.Equal(t, callerSpan, span.Parent().SpanID().String())
	assert.Equal(t, "GET /{x}", span.Name())
	assert.Equal(t, codes.Error, span.Status().Code)
	assert.Subset(t, span.Attributes(), []attribute.KeyValue{
		attribute.Int("http.response.status_code", http.StatusBadGateway),
		attribute.String("agentcube.session.id", "s"), attribute.String("agentcube.error.code", "CODE"),
	})
}

func TestTraces(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		path, traceparent string
		off               bool
		spans             int
		record            any
	}{
		"a caller without a trace begins one":        {path: "/x", spans: 1},
		"what is no trace is passed over":            {path: "/x", traceparent: "nonsense", spans: 1},
		"a trace that is not recorded stays so":      {path: "/x", traceparent: callerOff},
		"a quiet path has no span":                   {path: "/livez", traceparent: callerOn},
		"without a tracer there is none":             {path: "/x", traceparent: callerOn, off: true},
		"a handler that panics has its span as well": {path: "/panic", spans: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tracer, spans := recording()
			if c.off {
				tracer = nil
			}
			serve := func() {
				record := traced(t, tracer, c.path, c.traceparent, func(_ http.ResponseWriter, r *http.Request) {
					if r.URL.Path == "/panic" {
						panic(http.ErrAbortHandler)
					}
				})
				if c.spans == 0 {
					assert.NotContains(t, record, "trace")
				} else {
					assert.Equal(t, spans.Ended()[0].SpanContext().TraceID().String(), record["trace"])
				}
			}
			if c.path == "/panic" {
				assert.Panics(t, serve)
			} else {
				serve()
			}
			assert.Len(t, spans.Ended(), c.spans)
		})
	}
}

func TestInjectReplacesWhatStandsThere(t *testing.T) {
	t.Parallel()
	tracer, _ := recording()
	ctx, span := tracer.Start(t.Context(), "x")
	defer span.End()
	h := http.Header{"Traceparent": {callerOn, callerOff}, "Tracestate": {"a=1"}, "Other": {"stays"}}
	InjectTrace(ctx, h)
	assert.Equal(t, []string{"00-" + span.SpanContext().TraceID().String() + "-" + span.SpanContext().SpanID().String() + "-01"}, h["Traceparent"])
	assert.NotContains(t, h, "Tracestate", "of another trace")
	assert.Contains(t, h, "Other")
	InjectTrace(context.Background(), h)
	assert.NotContains(t, h, "Traceparent")
}
