package telemetry

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	collectorv1 "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"go.uber.org/zap"
	"google.golang.org/protobuf/proto"
)

func TestWithoutAnAddressNothingIsTraced(t *testing.T) {
	t.Parallel()
	off, err := NewTracing(t.Context(), "router", Build{}, TraceOptions{}, zap.NewNop())
	require.NoError(t, err)
	assert.Nil(t, off)
	assert.Nil(t, off.Tracer())
	next := http.NewFileTransport(http.Dir("."))
	assert.Equal(t, next, off.Transport("peer", next), "nothing stands between")
	off.Close(t.Context())
}

// The library has one handler of errors for the process, so this test and those
// below do not run beside each other.
func TestSpansReachTheCollectorAndTheirPeers(t *testing.T) { //nolint:paralleltest // see above
	received := make(chan *collectorv1.ExportTraceServiceRequest, 10)
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var request collectorv1.ExportTraceServiceRequest
		body, err := io.ReadAll(r.Body)
		assert.NoError(t, err)
		assert.NoError(t, proto.Unmarshal(body, &request))
		assert.Equal(t, "/v1/traces", r.URL.Path)
		received <- &request
	}))
	t.Cleanup(collector.Close)
	traceparents := make(chan string, 2)
	peer := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		traceparents <- r.Header.Get("Traceparent")
		w.WriteHeader(http.StatusInternalServerError)
	}))
	t.Cleanup(peer.Close)

	tracing, err := NewTracing(t.Context(), "router", Build{Version: "v1"}, TraceOptions{URL: collector.URL + "/v1/traces"}, zap.NewNop())
	require.NoError(t, err)
	client := &http.Client{Transport: tracing.Transport("peer", http.DefaultTransport)}
	call := func(r *http.Request) {
		res, err := client.Do(r)
		require.NoError(t, err)
		_ = res.Body.Close()
	}
	outside, err := http.NewRequestWithContext(t.Context(), http.MethodGet, peer.URL, nil)
	require.NoError(t, err)
	call(outside)
	assert.Empty(t, <-traceparents, "a request of no trace begins none")

	ctx, span := tracing.Tracer().Start(t.Context(), "parent")
	inside, err := http.NewRequestWithContext(ctx, http.MethodGet, peer.URL, nil)
	require.NoError(t, err)
	call(inside)
	assert.Empty(t, inside.Header, "the caller's request is its own")
	assert.Contains(t, <-traceparents, span.SpanContext().TraceID().String())
	span.End()
	tracing.Close(t.Context())

	request := <-received
	require.Len(t, request.GetResourceSpans(), 1)
	about := map[string]string{}
	for _, a := range request.GetResourceSpans()[0].GetResource().GetAttributes() {
		about[a.GetKey()] = a.GetValue().GetStringValue()
	}
	assert.Equal(t, "router", about["service.name"])
	assert.Equal(t, "v1", about["service.version"])
	var names []string
	for _, s := range request.GetResourceSpans()[0].GetScopeSpans()[0].GetSpans() {
		names = append(names, s.GetName())
	}
	assert.Equal(t, []string{"peer GET", "parent"}, names)
}

func TestTheServicesNameCanBeSet(t *testing.T) {
	t.Setenv("OTEL_SERVICE_NAME", "mine")
	received := make(chan *collectorv1.ExportTraceServiceRequest, 1)
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var request collectorv1.ExportTraceServiceRequest
		body, err := io.ReadAll(r.Body)
		assert.NoError(t, err)
		assert.NoError(t, proto.Unmarshal(body, &request))
		received <- &request
	}))
	t.Cleanup(collector.Close)
	none, all := 0.0, 1.0
	for _, ratio := range []*float64{&none, &all} {
		tracing, err := NewTracing(t.Context(), "router", Build{}, TraceOptions{URL: collector.URL, Ratio: ratio}, zap.NewNop())
		require.NoError(t, err)
		_, span := tracing.Tracer().Start(t.Context(), "x")
		span.End()
		tracing.Close(t.Context())
	}
	request := <-received
	assert.Empty(t, received, "a ratio of 0 records nothing")
	for _, a := range request.GetResourceSpans()[0].GetResource().GetAttributes() {
		if a.GetKey() == "service.name" {
			assert.Equal(t, "mine", a.GetValue().GetStringValue())
		}
	}
}

func TestACollectorThatIsAwayHoldsNothingUp(t *testing.T) { //nolint:paralleltest // see above
	away := httptest.NewServer(http.NotFoundHandler())
	away.Close()
	tracing, err := NewTracing(t.Context(), "router", Build{}, TraceOptions{URL: away.URL}, zap.NewNop())
	require.NoError(t, err)
	_, span := tracing.Tracer().Start(t.Context(), "x")
	span.End()
	tracing.Close(t.Context()) // within its bound, and without an error
}
