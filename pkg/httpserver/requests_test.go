package httpserver

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const requestsName = "agentcube_http_requests_total"

// total is the text form of the counter, with these series.
func total(series ...string) *strings.Reader {
	text := "# HELP " + requestsName + " Requests that were answered, by route and status; " +
		"499: the client went away before, 0: the answer was broken off.\n# TYPE " + requestsName + " counter\n"
	for _, s := range series {
		text += requestsName + s + "\n"
	}
	return strings.NewReader(text)
}

func TestEachRequestIsCounted(t *testing.T) {
	t.Parallel()
	e := newEdge(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/things/missing":
			w.WriteHeader(http.StatusNotFound)
		case "/things/odd":
			w.WriteHeader(999)
		case "/things/broken":
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		case "/things/unsent":
			panic(http.ErrAbortHandler)
		}
	})
	for _, path := range []string{"/livez", "/things/1", "/things/2", "/things/missing", "/things/odd", "/nowhere/x", "/nowhere/y"} {
		_, err := e.get(t, path)
		require.NoError(t, err)
	}
	for _, path := range []string{"/things/broken", "/things/unsent"} {
		_, err := e.get(t, path)
		require.Error(t, err)
	}
	e.handlers.wait(t.Context())
	require.NoError(t, testutil.GatherAndCompare(e.registry, total(
		`{code="0",route="/things/{id}"} 1`,
		`{code="200",route="/livez"} 1`,
		`{code="200",route="/things/{id}"} 3`, // the one that was broken off had begun
		`{code="200",route="other"} 0`,
		`{code="404",route="/things/{id}"} 1`,
		`{code="404",route="other"} 2`,
		`{code="other",route="/things/{id}"} 1`,
	), requestsName))
}

func TestStrangersAddNoSeries(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	r := NewRequests(registry, "/a")
	before, err := testutil.GatherAndCount(registry)
	require.NoError(t, err)
	for i := range 10_000 {
		r.Observe(fmt.Sprintf("/made/up/%d", i), http.StatusOK, time.Millisecond)
		r.Observe("/a", 600+i, time.Millisecond)
		r.Observe("/a", -1-i, time.Millisecond)
	}
	after, err := testutil.GatherAndCount(registry)
	require.NoError(t, err)
	assert.Equal(t, before+1, after, "the statuses that are none are one series")
}

func TestUpgradedConnectionsHaveNoDuration(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	r := NewRequests(registry, "/ws")
	r.Observe("/ws", http.StatusSwitchingProtocols, time.Hour)
	r.Observe("/ws", http.StatusOK, 20*time.Millisecond)
	families, err := registry.Gather()
	require.NoError(t, err)
	for _, family := range families {
		if family.GetName() != "agentcube_http_request_duration_seconds" {
			continue
		}
		for _, metric := range family.GetMetric() {
			if metric.GetLabel()[0].GetValue() == "/ws" {
				assert.Equal(t, uint64(1), metric.GetHistogram().GetSampleCount())
				assert.InDelta(t, 0.02, metric.GetHistogram().GetSampleSum(), 1e-9)
			}
		}
	}
}

func TestCountingTakesNoMemory(t *testing.T) { //nolint:paralleltest // AllocsPerRun counts those of the whole process
	r := NewRequests(prometheus.NewRegistry(), "/a")
	assert.Zero(t, testing.AllocsPerRun(1000, func() { r.Observe("/a", http.StatusOK, time.Millisecond) }))
}

// BenchmarkObserve is what counting adds to a request.
func BenchmarkObserve(b *testing.B) {
	const route = "/v1/namespaces/{namespace}/{kind}/{name}/invocations/*"
	r := NewRequests(prometheus.NewRegistry(), route, "/livez", "/readyz", "/metrics", "/health/live", "/health/ready")
	b.Run("alone", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			r.Observe(route, http.StatusOK, 123*time.Microsecond)
		}
	})
	b.Run("in parallel", func(b *testing.B) {
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				r.Observe(route, http.StatusOK, 123*time.Microsecond)
			}
		})
	})
}
