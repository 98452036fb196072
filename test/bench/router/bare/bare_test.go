package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestEverythingButMetricsIsForwarded(t *testing.T) {
	t.Parallel()
	sandbox := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.URL.Path+" "+r.Header.Get("X-Agentcube-Session-Id"))
	}))
	t.Cleanup(sandbox.Close)
	to, err := url.Parse(sandbox.URL)
	require.NoError(t, err)
	bare := httptest.NewServer(handler(to))
	t.Cleanup(bare.Close)

	assert.Equal(t, "/a/small id", get(t, bare.URL+"/a/small"))
	assert.Contains(t, get(t, bare.URL+"/metrics"), "go_memstats_alloc_bytes_total")
}

func get(t *testing.T, url string) string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	require.NoError(t, err)
	request.Header.Set("X-Agentcube-Session-Id", "id")
	response, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return string(body)
}
