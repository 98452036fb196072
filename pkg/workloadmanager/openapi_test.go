package workloadmanager_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentcube/agentcube/pkg/api"
	"github.com/agentcube/agentcube/pkg/api/openapi/openapitest"
	"github.com/agentcube/agentcube/pkg/auth"
	"github.com/agentcube/agentcube/pkg/sandbox"
	"github.com/agentcube/agentcube/pkg/session"
	"github.com/agentcube/agentcube/pkg/workload"
	"github.com/agentcube/agentcube/pkg/workloadmanager/provision"
)

func TestRoutesAreThoseOfTheDocument(t *testing.T) {
	t.Parallel()
	var routes []string
	require.NoError(t, newRig(t).server.Walk(func(method, route string, _ http.Handler, _ ...func(http.Handler) http.Handler) error {
		routes = append(routes, method+" "+route)
		return nil
	}))
	slices.Sort(routes)
	assert.Equal(t, openapitest.WorkloadManager.Operations(), routes)
}

func TestTheDocumentIsServed(t *testing.T) {
	t.Parallel()
	answer := newRig(t).do(t, http.MethodGet, "/openapi.json", "")
	require.Equal(t, 200, answer.Code)
	assert.True(t, strings.HasPrefix(answer.Header().Get("Content-Type"), "application/json"))
	assert.Contains(t, answer.Body.String(), `"openapi":"3.1.0"`)
}

// failures that are answered with a code, wherever a request meets them.
var failures = map[string]error{
	"409 SESSION_DELETED":        provision.ErrDeleted,
	"409 SESSION_ENDED":          provision.ErrEnded,
	"422 REJECTED_BY_CLUSTER":    workload.ErrInvalid,
	"422 IDEMPOTENCY_KEY_REUSED": provision.ErrKeyReused,
	"429 QUOTA_EXCEEDED":         &sandbox.RejectedError{Kind: sandbox.RejectQuota, Message: "exceeded quota: q"},
	"500 INTERNAL":               errSecret,
	"502 SANDBOX_FAILED":         &provision.FailedError{Reason: "PodFailed", Message: "exit 1"},
	"502 SANDBOX_UNREACHABLE":    &provision.UnreachableError{Err: errSecret},
	"503 STORE_UNAVAILABLE":      session.ErrUnavailable,
	"503 CLUSTER_UNAVAILABLE":    sandbox.ErrUnavailable,
	"504 CREATE_TIMEOUT":         &provision.TimeoutError{Waiting: "the sandbox"},
	"404 SESSION_NOT_FOUND":      session.ErrNotFound,
}

// failWith has all that a request may need fail.
func (r *rig) failWith(err error) {
	r.create = func(context.Context, provision.Request) (session.Session, error) { return session.Session{}, err }
	r.submit = func(context.Context, provision.Call) (session.Session, error) { return session.Session{}, err }
	r.remove = func(context.Context, string, string) error { return err }
	r.change = func(context.Context, string, session.Change) (session.Session, error) { return session.Session{}, err }
	r.store.FailNext("List", err)
	r.store.FailNext("Keep", err)
}

// sane are requests, by operation, that are in order.
var sane = map[string]struct{ target, body string }{
	"POST /v1/agent-runtime":                    {createRuntime, `{"namespace":"default","name":"echo","ttl":60,"idleTimeout":null,"metadata":{},"kind":"AgentRuntime"}`},
	"POST /v1/code-interpreter":                 {createInterpreter, validBody},
	"GET /v1/sessions":                          {listRoute + "?namespace=default&kind=AgentRuntime&name=echo&state=ready&owner=ann&limit=2&cursor=", ""},
	"GET /v1/sessions/{id}":                     {ofKnown + "?wait=0s&from=creating", ""},
	"PATCH /v1/sessions/{id}":                   {ofKnown, `{"ttl":60,"idleTimeout":60}`},
	"DELETE /v1/sessions/{id}":                  {ofKnown, ""},
	"POST /v1/sessions/{id}/keepalive":          {ofKnown + "/keepalive", ""},
	"DELETE /v1/agent-runtime/sessions/{id}":    {createRuntime + "/sessions/" + knownID, ""},
	"DELETE /v1/code-interpreter/sessions/{id}": {createInterpreter + "/sessions/" + knownID, ""},
	"GET /health":                               {"/health", ""},
	"GET /livez":                                {"/livez", ""},
	"GET /readyz":                               {"/readyz", ""},
	"GET /metrics":                              {"/metrics", ""},
	"GET /openapi.json":                         {"/openapi.json", ""},
}

// senseless are such that make no sense.
var senseless = map[string]struct{ target, body string }{
	"POST /v1/agent-runtime":    {createRuntime, `{"namespace":"default","name":"echo","ttl":0}`},
	"POST /v1/code-interpreter": {createInterpreter, `{"namespace":"Default","name":"echo"}`},
	"GET /v1/sessions":          {listRoute + "?limit=1001", ""},
	"GET /v1/sessions/{id}":     {ofKnown + "?wait=soon", ""},
	"PATCH /v1/sessions/{id}":   {ofKnown, `{"ttl":"60"}`},
}

// provoked is the answer of an operation under the circumstances that the
// document gives it for.
func provoked(t *testing.T, d openapitest.Described) (*http.Request, *httptest.ResponseRecorder) {
	t.Helper()
	r := newRig(t)
	operation := d.Method + " " + d.Path
	request, known := sane[operation]
	require.True(t, known, "nothing is sent to %s", operation)
	headers := []string{"Content-Type", "application/json", "X-Request-Id", "mine"}
	outcome := strings.TrimSpace(d.Status + " " + d.Code)
	switch outcome {
	case "200", "204":
		r.health.Ready()
	case "202":
		headers = append(headers, "Prefer", "respond-async", "Idempotency-Key", "order-4711")
	case "400 INVALID_REQUEST":
		request = senseless[operation]
	case "401 UNAUTHENTICATED":
		headers = append(headers, api.HeaderUserIdentity, "a.b.c")
	case "404 TEMPLATE_NOT_FOUND":
		r.find = func(context.Context, session.WorkloadRef) (workload.Workload, error) {
			return workload.Workload{}, workload.ErrNotFound
		}
	case "413 INVALID_REQUEST":
		request.body = strings.Repeat(" ", 1<<20+1)
	case "503 NOT_READY":
		headers = append(headers, api.HeaderUserIdentity, "a.b.c")
		r.verify = func(string) (string, error) { return "", auth.ErrNoKey }
	case "503": // of a probe: it is starting
	default:
		require.Contains(t, failures, outcome, "nothing provokes it")
		r.failWith(failures[outcome])
		if d.Method == http.MethodGet {
			r.store.FailNext("Look", failures[outcome])
		}
	}
	if outcome != "404 SESSION_NOT_FOUND" {
		r.put(t)
	}
	sent := func() *http.Request {
		s := httptest.NewRequestWithContext(t.Context(), d.Method, request.target, strings.NewReader(request.body))
		if request.body == "" {
			s = httptest.NewRequestWithContext(t.Context(), d.Method, request.target, http.NoBody)
			headers = slices.DeleteFunc(headers, func(h string) bool { return h == "Content-Type" || h == "application/json" })
		}
		for i := 0; i+1 < len(headers); i += 2 {
			s.Header.Add(headers[i], headers[i+1])
		}
		return s
	}
	return sent(), r.serve(t, sent())
}

func TestEveryAnswerOfTheDocumentIsGiven(t *testing.T) {
	t.Parallel()
	for _, d := range openapitest.WorkloadManager.Answers() {
		t.Run(d.String(), func(t *testing.T) {
			t.Parallel()
			request, answer := provoked(t, d) // which holds the answer against the document
			require.Equal(t, d.Status, fmt.Sprint(answer.Code), answer.Body)
			if d.IsError() {
				assert.Equal(t, d.Code, problemIn(t, answer).Code)
			}
			switch d.Status {
			case "413": // a body that is of no use anyway
			case "400":
				require.Error(t, openapitest.WorkloadManager.Request(request), "the document takes it for sane")
			default:
				require.NoError(t, openapitest.WorkloadManager.Request(request))
			}
		})
	}
}
