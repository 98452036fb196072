package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// documented are the metrics of the program in docs/metrics.md.
func documented(t *testing.T, program string) (names []string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "metrics.md"))
	require.NoError(t, err)
	_, rest, found := strings.Cut(string(text), "\n## "+program+"\n")
	require.True(t, found)
	section, _, _ := strings.Cut(rest, "\n## ")
	for _, row := range regexp.MustCompile("(?m)^\\| `(agentcube_\\w+)`").FindAllStringSubmatch(section, -1) {
		names = append(names, row[1])
	}
	return names
}

func TestThePageHasTheMetricsThatAreDocumented(t *testing.T) {
	t.Parallel()
	redis := miniredis.RunT(t)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) }))
	t.Cleanup(s.Close)
	row(t, redis, s.Listener.Addr().String())
	p := start(t, redis)
	p.waitReady()
	for range 2 {
		require.Equal(t, http.StatusTeapot, p.status(path, "x-agentcube-session-id", sessionID))
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, p.url+"/metrics", nil)
	require.NoError(t, err)
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(string(text)))
	require.NoError(t, err)
	var names []string
	for name := range families {
		if strings.HasPrefix(name, "agentcube_") {
			names = append(names, name)
		}
	}
	assert.ElementsMatch(t, documented(t, "router"), names, "test/metricsdoc makes what the program does not, or the other way round")
	assert.Contains(t, families, "go_goroutines")
	assert.Contains(t, families, "process_open_fds")
	assert.Contains(t, string(text), `agentcube_router_cache_lookups_total{result="miss"} 2`)
	assert.Contains(t, string(text), `agentcube_http_requests_total{code="418",route="/v1/namespaces/{namespace}/{kind}/{name}/invocations/*"} 2`)
	assert.Contains(t, string(text), `agentcube_build_info{`)
	p.stop()
	require.NoError(t, <-p.done)
}
