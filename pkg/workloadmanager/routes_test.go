package workloadmanager_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentcube/agentcube/pkg/api"
	"github.com/agentcube/agentcube/pkg/session"
)

var allMethods = []string{
	http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete,
	http.MethodOptions, http.MethodConnect, http.MethodTrace, "PROPFIND",
}

func TestEveryRouteAndMethod(t *testing.T) {
	t.Parallel()
	for path, allowed := range map[string]string{
		"/health":                              "GET, HEAD",
		"/livez":                               "GET, HEAD",
		"/readyz":                              "GET, HEAD",
		"/metrics":                             "GET, HEAD",
		"/openapi.json":                        "GET, HEAD",
		createRuntime:                          "POST",
		createInterpreter:                      "POST",
		createRuntime + "/sessions/" + knownID: "DELETE",
		createInterpreter + "/sessions/" + knownID: "DELETE",
		createRuntime + "/sessions/a%2Fb":          "DELETE",
		"/v1/sessions":                             "GET, HEAD",
		"/v1/sessions/" + knownID:                  "GET, HEAD, PATCH, DELETE",
		"/v1/sessions/" + knownID + "/keepalive":   "POST",
	} {
		for _, method := range allMethods {
			r := newRig(t)
			r.health.Ready()
			answer := r.do(t, method, path, validBody)
			require.NotEmpty(t, answer.Header().Get("X-Request-Id"))
			if strings.Contains(", "+allowed+",", ", "+method+",") {
				assert.NotEqual(t, 405, answer.Code, "%s %s", method, path)
				assert.Less(t, answer.Code, 500, "%s %s", method, path)
				continue
			}
			require.Equal(t, 405, answer.Code, "%s %s", method, path)
			assert.Equal(t, allowed, answer.Header().Get("Allow"), "%s %s", method, path)
			assert.Equal(t, api.CodeMethodNotAllowed, problemIn(t, answer).Code)
			assert.Equal(t, "method not allowed", problemIn(t, answer).Message)
			assert.Empty(t, r.created)
			assert.Empty(t, r.removed)
		}
	}
	for _, path := range []string{
		"/", "/v1", "/v1/agent-runtime/", "/v1/agent-runtime/sessions", "/v1/agent-runtime/sessions/",
		"/v1/agent-runtime/sessions/" + knownID + "/x", "/health/", "/v2/agent-runtime",
		"/v1/sessions/", "/v1/sessions/" + knownID + "/", "/v1/sessions/" + knownID + "/keepalive/",
	} {
		for _, method := range allMethods {
			answer := newRig(t).do(t, method, path, "")
			require.Equal(t, 404, answer.Code, "%s %s", method, path)
			assert.Equal(t, api.CodeNotFound, problemIn(t, answer).Code)
			assert.Empty(t, answer.Header().Get("Allow"))
		}
	}
}

func TestHealthRoutes(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	answer := r.do(t, http.MethodGet, "/health", "")
	assert.Equal(t, 200, answer.Code)
	assert.JSONEq(t, `{"status":"healthy"}`, answer.Body.String())
	assert.Equal(t, 200, r.do(t, http.MethodGet, "/livez", "").Code)
	assert.Equal(t, "metrics", r.do(t, http.MethodGet, "/metrics", "").Body.String())
	assert.Equal(t, 503, r.do(t, http.MethodGet, "/readyz", "").Code, "starting")
	r.health.Ready()
	assert.Equal(t, 200, r.do(t, http.MethodGet, "/readyz", "").Code)
	r.health.Drain()
	assert.Equal(t, 503, r.do(t, http.MethodGet, "/readyz", "").Code)
	assert.Equal(t, 200, r.do(t, http.MethodGet, "/livez", "").Code, "draining is no reason to be killed")
	assert.Zero(t, r.logs.Len(), "probes do not fill the log")
}

func TestHeadHasNoBody(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(newRig(t).server)
	defer server.Close()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodHead, server.URL+"/health", nil)
	require.NoError(t, err)
	answer, err := server.Client().Do(request)
	require.NoError(t, err)
	defer func() { _ = answer.Body.Close() }()
	body, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	assert.Equal(t, 200, answer.StatusCode)
	assert.Empty(t, body)
}

func TestDelete(t *testing.T) {
	t.Parallel()
	for _, route := range []string{createRuntime, createInterpreter, "/v1"} {
		r := newRig(t)
		answer := r.do(t, http.MethodDelete, route+"/sessions/"+knownID, "")
		assert.Equal(t, 200, answer.Code)
		assert.JSONEq(t, `{"message":"Sandbox deleted successfully"}`, answer.Body.String())
		assert.Equal(t, []string{knownID + " " + session.ReasonDeleted}, r.removed)
		assert.Equal(t, knownID, r.logs.FilterMessage("request").All()[0].ContextMap()["session"])
	}
}

func TestWhatIsNoIDNamesNoSession(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a", 10_000)
	for what, c := range map[string]struct{ path, shown string }{
		"another key":          {"expiry", "expiry"},
		"one more":             {"last_activity", "last_activity"},
		"a pattern":            {"*", "*"},
		"10 kB":                {long, long[:64] + "…"},
		"64 characters":        {long[:64], long[:64]},
		"65 characters":        {long[:65], long[:64] + "…"},
		"a newline":            {knownID[:35] + "%0A", knownID[:35] + "\n"},
		"a slash":              {"a%2Fb", "a%2Fb"},
		"upper case":           {strings.ToUpper(knownID), strings.ToUpper(knownID)},
		"no dashes":            {strings.ReplaceAll(knownID, "-", ""), strings.ReplaceAll(knownID, "-", "")},
		"a character too many": {knownID + "0", knownID + "0"},
	} {
		r := newRig(t)
		answer := r.do(t, http.MethodDelete, createRuntime+"/sessions/"+c.path, "")
		require.Equal(t, 404, answer.Code, what)
		e := problemIn(t, answer)
		assert.Equal(t, api.CodeSessionNotFound, e.Code, what)
		assert.Equal(t, "Session ID "+c.shown+" not found, maybe already deleted", e.Message, what)
		assert.Empty(t, r.removed, "nothing is looked up")
	}
}

func TestARequestIDThatIsNotSaneIsReplaced(t *testing.T) {
	t.Parallel()
	answer := newRig(t).do(t, http.MethodDelete, "/nowhere", "", "X-Request-Id", "with space")
	assert.NotEqual(t, "with space", problemIn(t, answer).RequestID)
}
