package e2e

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"

	"github.com/agentcube/agentcube/pkg/api"
	"github.com/agentcube/agentcube/test/cluster/node"
)

// routerBehaviours are about what a caller of the router gets, in good and in
// bad cases.
var routerBehaviours = []behaviour{
	{"a request without a session gets one, and its answer names it", sessionMade},
	{"a session whose row is gone is not found, and none is made in its place", rowGone},
	{"a session id that cannot be one is not found, and none is made for it", idMalformed},
	{"what the application answers passes through untouched, errors too", applicationErrors},
	{"a session is refused on the URL of another workload", foreignURL},
	{"a template that does not exist is not found, and neither is a route", nothingThere},
	{"a picod sandbox gets the router's token in place of the caller's", picodToken},
	{"an agent runtime's sandbox gets the router's token too", runtimeToken},
	{"a sandbox without authentication gets what the caller sent", callersToken},
	{"a token that cannot be signed is the router's failure", unsignable},
	{"a session that cannot be used now says why and when to come back", notUsable},
	{"a session that is over is not found although its sandbox still runs", overRows},
	{"a sandbox that does not answer is told apart by how it does not", notAnswering},
	{"a refusal of the workload-manager is passed on with its code and Retry-After", managerRefusals},
	{"a workload-manager whose answer is of no use is a bad gateway", managerUseless},
	{"a store out of reach is never taken for a session that is gone", storeAway},
	{"more requests than the limit are refused, and health checks are not", overLimit},
}

func sessionMade(t *testing.T, e *env) {
	e.apply(t, runtimeTemplate("echo"))
	first := mustSend(t, http.MethodPost, e.invocations(agentRuntime, "echo")+"/a%2Fb//c?x=1&y=%2F", nil, "hello")
	assert.Equal(t, http.StatusOK, first.status, first)
	var echo node.Echo
	first.decode(t, &echo)
	assert.Equal(t, http.MethodPost, echo.Method)
	assert.Equal(t, "/a%2Fb//c?x=1&y=%2F", echo.URI)
	assert.Equal(t, "hello", echo.Body)
	id := first.header.Get(api.HeaderSessionID)
	namesSession(t, first, id)

	row, ok := e.row(t, id)
	if assert.True(t, ok, "the answer names session %q, which has no row", id) {
		assert.Equal(t, echo.Pod, row["name"])
	}
	second := e.invoke(t, agentRuntime, "echo", id, "/x")
	namesSession(t, second, id)
	var again node.Echo
	second.decode(t, &again)
	assert.Equal(t, echo.UID, again.UID, "another pod answered")
	assert.Len(t, e.rows(t), 1, "sessions")
}

func rowGone(t *testing.T, e *env) {
	e.apply(t, runtimeTemplate("echo"))
	s := e.create(t, agentRuntime, "echo")
	e.echoes(t, agentRuntime, "echo", s.SessionID)
	assert.Equal(t, http.StatusOK, e.delete(t, s.SessionID).status)
	for _, id := range []string{s.SessionID, uuid.NewString()} {
		a := e.invoke(t, agentRuntime, "echo", id, "/x")
		routerRefuses(t, a, http.StatusNotFound, api.CodeSessionNotFound)
		assert.Equal(t, id, a.header.Get(api.HeaderSessionID))
	}
	e.nothingLeft(t)
}

func idMalformed(t *testing.T, e *env) {
	e.apply(t, runtimeTemplate("echo"))
	for _, id := range []string{
		"", "expiry", "last_activity", "*", "session:expiry", strings.ToUpper(uuid.NewString()), strings.Repeat("a", 10_000),
	} {
		a := e.invoke(t, agentRuntime, "echo", id, "/x")
		routerRefuses(t, a, http.StatusNotFound, api.CodeSessionNotFound)
	}
	assert.Empty(t, e.rows(t), "sessions were made")
	assert.Empty(t, e.objects(t), "objects were made")
}

func applicationErrors(t *testing.T, e *env) {
	e.apply(t, runtimeTemplate("echo"))
	s := e.create(t, agentRuntime, "echo")
	for path, status := range map[string]int{
		"/status/404": http.StatusNotFound, "/status/500": http.StatusInternalServerError,
		"/status/503": http.StatusServiceUnavailable, "/status/401": http.StatusUnauthorized, "/status/429": http.StatusTooManyRequests,
	} {
		a := e.invoke(t, agentRuntime, "echo", s.SessionID, path)
		assert.Equal(t, status, a.status, path)
		var echo node.Echo
		a.decode(t, &echo)
		assert.Equal(t, s.SandboxName, echo.Pod, path)
		assert.NotContains(t, a.body, `"code"`, path)
		assert.Empty(t, a.header.Get("Retry-After"), path)
		assert.Equal(t, "application/json", a.header.Get("Content-Type"), path)
		namesSession(t, a, s.SessionID)
	}
	a := e.invoke(t, agentRuntime, "echo", s.SessionID, "/missing")
	assert.Equal(t, http.StatusNotFound, a.status)
	assert.Equal(t, "404 page not found\n", a.body)
	assert.Equal(t, "text/plain; charset=utf-8", a.header.Get("Content-Type"))
}

func foreignURL(t *testing.T, e *env) {
	e.apply(t, runtimeTemplate("echo"))
	e.apply(t, runtimeTemplate("other"))
	e.apply(t, interpreterTemplate("echo", 0))
	s := e.create(t, agentRuntime, "echo")
	right := e.invocations(agentRuntime, "echo")
	for what, url := range map[string]string{
		"name":      e.invocations(agentRuntime, "other"),
		"kind":      e.invocations(codeInterpreter, "echo"),
		"namespace": strings.Replace(right, e.namespace, "default", 1),
	} {
		a := mustSend(t, http.MethodGet, url+"/x", headers(api.HeaderSessionID, s.SessionID), "")
		told := routerRefuses(t, a, http.StatusConflict, api.CodeSessionTargetMismatch)
		namesSession(t, a, s.SessionID)
		assert.NotContains(t, told.Error, s.SandboxName, "another %s tells about the session", what)
	}
	e.echoes(t, agentRuntime, "echo", s.SessionID)
}

func nothingThere(t *testing.T, e *env) {
	for route, resource := range map[string]string{agentRuntime: "agentruntimes", codeInterpreter: "codeinterpreters"} {
		a := mustSend(t, http.MethodGet, e.invocations(route, "nope")+"/x", nil, "")
		told := routerRefuses(t, a, http.StatusNotFound, api.CodeTemplateNotFound)
		assert.Equal(t, resource+`.agentcube.volcano.sh "`+e.namespace+`/nope" not found`, told.Error)
		assert.Empty(t, a.header.Get(api.HeaderSessionID))
	}
	a := mustSend(t, http.MethodGet, e.Router.URL+"/v1/namespaces/default/pods/echo/invocations/x", nil, "")
	routerRefuses(t, a, http.StatusNotFound, api.CodeNotFound)
	a = mustSend(t, http.MethodDelete, e.Router.URL+"/health/live", nil, "")
	routerRefuses(t, a, http.StatusMethodNotAllowed, api.CodeMethodNotAllowed)
	a = mustSend(t, http.MethodPost, e.invocations(agentRuntime, "NOPE")+"/x", nil, "")
	routerRefuses(t, a, http.StatusBadRequest, api.CodeInvalidRequest)
}
