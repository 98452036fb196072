package store

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"k8s.io/utils/clock"

	"github.com/agentcube/agentcube/pkg/session"
	"github.com/agentcube/agentcube/pkg/session/sessiontest"
)

// A script without a name of its own would be counted among the others.
func TestEveryScriptHasAName(t *testing.T) {
	t.Parallel()
	sources, err := filepath.Glob("*.go")
	require.NoError(t, err)
	made := regexp.MustCompile(`(?m)^\s*(?:var )?(\w+)Script\s*=\s*(?:redis\.NewScript|newScript)\(`)
	var names []string
	for _, file := range sources {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		if !strings.HasSuffix(file, "_test.go") {
			for _, found := range made.FindAllStringSubmatch(string(text), -1) {
				names = append(names, found[1])
			}
		}
	}
	known := slices.Compact(slices.Sorted(maps.Values(scripts)))
	require.NotEmpty(t, names)
	assert.ElementsMatch(t, names, known, "the map in metrics.go names each, after its variable")
}

// counting is a store whose calls are counted.
func counting(t *testing.T) (*Redis, *miniredis.Miniredis, *Metrics, *prometheus.Registry) {
	t.Helper()
	server := miniredis.RunT(t)
	registry := prometheus.NewRegistry()
	metrics := NewMetrics(clock.RealClock{}, registry)
	options := Options{CallTimeout: 300 * time.Millisecond, Metrics: metrics}
	r := New(clock.RealClock{}, Client(Config{Addrs: []string{server.Addr()}, Options: options}), options)
	t.Cleanup(func() { _ = r.Close() })
	return r, server, metrics, registry
}

func (m *Metrics) count(call, result string) int {
	return int(testutil.ToFloat64(m.total.WithLabelValues(call, result)))
}

func TestCallsAreCountedByWhatTheyDo(t *testing.T) {
	t.Parallel()
	r, _, m, registry := counting(t)
	ctx := t.Context()
	before, err := testutil.GatherAndCount(registry)
	require.NoError(t, err)
	row, err := r.Create(ctx, sessiontest.Reserved(1, time.Unix(1796072044, 0)))
	require.NoError(t, err)
	_, err = r.Get(ctx, row.ID)
	require.NoError(t, err)
	_, err = r.Get(ctx, sessiontest.ID(2))
	require.ErrorIs(t, err, ErrNotFound)
	_, err = r.Update(ctx, row.ID, func(s *session.Session) error { s.Attempts++; return nil })
	require.NoError(t, err)
	_, err = r.Alive(ctx, "a", "b")
	require.NoError(t, err)
	_, err = r.client.Do(ctx, "INCR", "stranger").Result()
	require.NoError(t, err)

	// A script that the server does not know yet is sent twice. An absence is an
	// answer, and what opens a connection is no call.
	for call, want := range map[string]int{"create": 2, "get": 2, "read": 2, "update": 2, "pipeline": 1, "other": 1} {
		assert.Equal(t, want, m.count(call, resultOK), call)
	}
	for _, call := range callNames() {
		for _, result := range []string{resultRefused, resultFailed, resultCanceled} {
			assert.Zero(t, m.count(call, result), "%s %s", call, result)
		}
	}
	after, err := testutil.GatherAndCount(registry)
	require.NoError(t, err)
	assert.Equal(t, before, after, "no series appears")
}

func TestCallsAreCountedByHowTheyEnd(t *testing.T) {
	t.Parallel()
	r, server, m, _ := counting(t)
	_, err := r.Get(t.Context(), sessiontest.ID(1))
	require.ErrorIs(t, err, ErrNotFound)

	server.SetError("LOADING the data set")
	_, err = r.Get(t.Context(), sessiontest.ID(1))
	require.ErrorIs(t, err, ErrUnavailable)
	assert.Equal(t, 1, m.count("get", resultRefused))
	server.SetError("")

	gone, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = r.Get(gone, sessiontest.ID(1))
	require.ErrorIs(t, err, context.Canceled)
	assert.Equal(t, 1, m.count("get", resultCanceled))

	server.Close()
	_, err = r.Get(t.Context(), sessiontest.ID(1))
	require.ErrorIs(t, err, ErrUnavailable)
	assert.Equal(t, 1, m.count("get", resultFailed))
}

func TestACallIsASpanOfATraceThatIsRecorded(t *testing.T) {
	t.Parallel()
	r, server, _, _ := counting(t)
	spans := tracetest.NewSpanRecorder()
	ctx, parent := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans)).Tracer("test").Start(t.Context(), "parent")
	_, err := r.Get(ctx, sessiontest.ID(1))
	require.ErrorIs(t, err, ErrNotFound)
	_, err = r.Get(t.Context(), sessiontest.ID(1))
	require.ErrorIs(t, err, ErrNotFound)
	server.SetError("LOADING")
	_, err = r.Get(ctx, sessiontest.ID(1))
	require.Error(t, err)
	ended := spans.Ended()
	require.Len(t, ended, 2, "a call outside of a trace has none")
	for i, status := range []string{"", resultRefused} {
		assert.Equal(t, "store get", ended[i].Name())
		assert.Equal(t, parent.SpanContext().SpanID(), ended[i].Parent().SpanID())
		assert.Equal(t, status, ended[i].Status().Description)
	}
}
