package e2e

import (
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	collectorv1 "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracev1 "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// span that a collector received.
type span struct {
	service, name, id, parent string
	failed                    bool
}

// collector receives spans by OTLP over HTTP.
type collector struct {
	*httptest.Server

	mu    sync.Mutex
	spans map[string][]span // by trace; guarded by mu
}

func newCollector(t *testing.T) *collector {
	t.Helper()
	c := &collector{spans: map[string][]span{}}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var request collectorv1.ExportTraceServiceRequest
		body, err := io.ReadAll(r.Body)
		if err == nil {
			err = proto.Unmarshal(body, &request)
		}
		if !assert.NoError(t, err) || !assert.Equal(t, "/v1/traces", r.URL.Path) {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		c.take(&request)
		w.Header().Set("Content-Type", "application/x-protobuf") // an empty answer: all was taken
	}))
	t.Cleanup(c.Close)
	return c
}

func (c *collector) take(request *collectorv1.ExportTraceServiceRequest) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, resource := range request.GetResourceSpans() {
		service := ""
		for _, a := range resource.GetResource().GetAttributes() {
			if a.GetKey() == "service.name" {
				service = a.GetValue().GetStringValue()
			}
		}
		for _, scope := range resource.GetScopeSpans() {
			for _, s := range scope.GetSpans() {
				trace := hex.EncodeToString(s.GetTraceId())
				c.spans[trace] = append(c.spans[trace], span{
					service: service, name: s.GetName(),
					id: hex.EncodeToString(s.GetSpanId()), parent: hex.EncodeToString(s.GetParentSpanId()),
					failed: s.GetStatus().GetCode() == tracev1.Status_STATUS_CODE_ERROR,
				})
			}
		}
	}
}

// of are the spans of a trace, as far as they have come.
func (c *collector) of(trace string) []span {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]span(nil), c.spans[trace]...)
}
