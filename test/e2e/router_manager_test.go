package e2e

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentcube/agentcube/pkg/api"
	"github.com/agentcube/agentcube/test/cluster"
)

// standIn is a workload-manager whose answer depends on the name it is asked
// for a session of.
func standIn(t *testing.T, answers map[string]http.HandlerFunc) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var asked api.CreateRequest
		if err := json.NewDecoder(r.Body).Decode(&asked); err != nil || answers[asked.Name] == nil {
			w.WriteHeader(http.StatusTeapot) // which no test expects
			return
		}
		answers[asked.Name](w, r)
	}))
	t.Cleanup(server.Close)
	return server
}

// says is an answer of a workload-manager.
func says(status int, body string, header ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for name, values := range headers(header...) {
			w.Header()[name] = values
		}
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body)) // the router hears it or has gone
	}
}

func managerRefusals(t *testing.T, e *env) {
	manager := standIn(t, map[string]http.HandlerFunc{
		"missing": says(404, `{"message":"agent runtime not found","code":"TEMPLATE_NOT_FOUND"}`),
		// An existing installation's tells no code.
		"legacy": says(404, `{"message":"agent runtime not found"}`),
		"away":   says(503, `{"message":"cluster is out of reach","code":"CLUSTER_UNAVAILABLE"}`, "Retry-After", "7"),
		"quota":  says(429, `{"message":"exceeded quota","code":"QUOTA_EXCEEDED"}`, "Retry-After", "10"),
		"failed": says(502, `{"message":"sandbox failed","code":"SANDBOX_FAILED"}`),
		"slow":   says(504, `{"message":"timed out","code":"CREATE_TIMEOUT"}`),
	})
	router := e.start(t, launch{name: "router", env: []string{"WORKLOAD_MANAGER_URL=" + manager.URL}})
	for name, want := range map[string]struct {
		status           int
		code, retryAfter string
	}{
		"missing": {http.StatusNotFound, api.CodeTemplateNotFound, ""},
		"legacy":  {http.StatusNotFound, api.CodeTemplateNotFound, ""},
		"away":    {http.StatusServiceUnavailable, api.CodeClusterUnavailable, "7"},
		"quota":   {http.StatusTooManyRequests, api.CodeQuotaExceeded, "10"},
		"failed":  {http.StatusBadGateway, api.CodeSandboxFailed, ""},
		"slow":    {http.StatusGatewayTimeout, api.CodeCreateTimeout, ""},
	} {
		a := mustSend(t, http.MethodGet, e.at(router, e.invocations(agentRuntime, name))+"/x", nil, "")
		routerRefuses(t, a, want.status, want.code)
		assert.Equal(t, want.retryAfter, a.header.Get("Retry-After"), name)
	}
}

func managerUseless(t *testing.T, e *env) {
	const session = `{"sessionId":"00000000-0000-4000-8000-000000000000"}`
	manager := standIn(t, map[string]http.HandlerFunc{
		"no-json":    says(200, `hello`),
		"no-session": says(200, `{"sessionId":"x"}`),
		"empty":      says(200, ``),
		"created":    says(201, session), // a create is answered with 200
		"moved":      says(307, session, "Location", "/v1/agent-runtime"),
		"closes":     func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
	})
	router := e.start(t, launch{name: "router", env: []string{"WORKLOAD_MANAGER_URL=" + manager.URL}})
	ask := func(name string) {
		a := mustSend(t, http.MethodGet, e.at(router, e.invocations(agentRuntime, name))+"/x", nil, "")
		t.Log(name)
		routerRefuses(t, a, http.StatusBadGateway, api.CodeWorkloadManagerUnavailable)
		assert.Empty(t, a.header.Get(api.HeaderSessionID))
	}
	for _, name := range []string{"no-json", "no-session", "empty", "created", "moved", "closes"} {
		ask(name)
	}
	manager.Close()
	ask("gone")
}

func storeAway(t *testing.T, e *env) {
	e.apply(t, runtimeTemplate("echo"))
	s := e.create(t, agentRuntime, "echo")
	store, err := cluster.StartRedis(t.Context(), cluster.RedisOptions{Password: e.StorePassword()})
	require.NoError(t, err)
	t.Cleanup(store.Close)
	router := e.start(t, launch{name: "router", env: []string{"REDIS_ADDR=" + store.Addr}})
	url := e.at(router, e.invocations(agentRuntime, "echo")) + "/x"
	session := headers(api.HeaderSessionID, s.SessionID)

	// This store does not know the session, and can say so.
	routerRefuses(t, mustSend(t, http.MethodGet, url, session, ""), http.StatusNotFound, api.CodeSessionNotFound)
	require.NoError(t, store.Stop())
	a := mustSend(t, http.MethodGet, url, session, "")
	routerRefuses(t, a, http.StatusServiceUnavailable, api.CodeStoreUnavailable)
	assert.Equal(t, s.SessionID, a.header.Get(api.HeaderSessionID))
	// The process itself is fine.
	assert.Equal(t, http.StatusOK, mustSend(t, http.MethodGet, router.url+"/readyz", nil, "").status)
	require.NoError(t, store.Start(t.Context()))
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		a := mustSend(t, http.MethodGet, url, session, "")
		assert.Equal(c, http.StatusNotFound, a.status, a)
	}, settle, pollInterval)
}

func overLimit(t *testing.T, e *env) {
	e.apply(t, runtimeTemplate("echo"))
	s := e.create(t, agentRuntime, "echo")
	router := e.start(t, launch{name: "router", args: []string{"--max-concurrent-requests=1"}})
	url := e.at(router, e.invocations(agentRuntime, "echo"))

	// An endless stream takes the only place once its first byte is here.
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/sse?n=0&d=1s", nil)
	require.NoError(t, err)
	request.Header.Set(api.HeaderSessionID, s.SessionID)
	stream, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, stream.StatusCode)

	a := mustSend(t, http.MethodGet, url+"/x", headers(api.HeaderSessionID, s.SessionID), "")
	routerRefuses(t, a, http.StatusTooManyRequests, api.CodeServerOverloaded)
	comesBack(t, a)
	for _, path := range []string{"/livez", "/readyz", "/health/live", "/health/ready"} {
		assert.Equal(t, http.StatusOK, mustSend(t, http.MethodGet, router.url+path, nil, "").status, path)
	}
	require.NoError(t, stream.Body.Close())
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		a := mustSend(t, http.MethodGet, url+"/x", headers(api.HeaderSessionID, s.SessionID), "")
		assert.Equal(c, http.StatusOK, a.status, a)
	}, settle, pollInterval)
}
