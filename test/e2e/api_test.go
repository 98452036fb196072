package e2e

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/agentcube/agentcube/pkg/api"
)

// apiBehaviours are about what the workload-manager accepts and refuses.
var apiBehaviours = []behaviour{
	{"a ttl shortens the life of a session and never passes the template's", ttlCapsLife},
	{"a ttl holds for a session from a warm pool too", ttlOfClaim},
	{"a lifetime that is no whole number of seconds is refused", badLifetimes},
	{"a namespace or name that no object can have is refused", badNames},
	{"a body that is no create request is refused", badBodies},
	{"an id that no session can have is not found, and the indexes are safe from it", badIDs},
	{"a template in a namespace that does not exist is not found", namespaceAbsent},
}

// apiAloneBehaviours take a custom resource away from everyone for a while.
var apiAloneBehaviours = []behaviour{
	{"without the AgentRuntime resource its creates are not found and all else goes on", resourceAbsent},
}

// creates asks for a session by a body of the test's own.
func (e *env) creates(t *testing.T, route, body string) api.CreateResponse {
	t.Helper()
	a := e.manager(t, http.MethodPost, route, strings.ReplaceAll(body, "NAMESPACE", e.namespace))
	require.Equal(t, http.StatusOK, a.status, a)
	var created api.CreateResponse
	a.decode(t, &created)
	return created
}

// timeOf reads a time of a row.
func timeOf(t *testing.T, row map[string]any, field string) time.Time {
	t.Helper()
	text, _ := row[field].(string)
	at, err := time.Parse(time.RFC3339, text)
	require.NoError(t, err, "%s of the row", field)
	return at
}

// livesFor wants the row, its index, the answer and the object's own shutdown
// time to agree on the length of the session's life.
func (e *env) livesFor(t *testing.T, s api.CreateResponse, life time.Duration) {
	t.Helper()
	row, ok := e.row(t, s.SessionID)
	require.True(t, ok)
	expires := timeOf(t, row, "expiresAt")
	assert.Equal(t, life, expires.Sub(timeOf(t, row, "createdAt")))
	require.NotNil(t, s.ExpiresAt)
	assert.True(t, expires.Equal(*s.ExpiresAt), "the answer says %s, the row %s", s.ExpiresAt, expires)
	score, err := e.redis.ZScore(t.Context(), "session:expiry", s.SessionID).Result()
	require.NoError(t, err)
	whole := math.Ceil(float64(expires.UnixNano()) / float64(time.Second))
	assert.InDelta(t, whole, score, 0, "score of the expiry")
	assert.Equal(t, time.Unix(int64(whole), 0).UTC().Format(time.RFC3339), e.shutdownTime(t, s))
}

func (e *env) shutdownTime(t *testing.T, s api.CreateResponse) string {
	t.Helper()
	resource, path := e.api.Sandboxes(), []string{"spec", "shutdownTime"}
	if s.Kind == "SandboxClaim" {
		resource, path = e.api.Claims(), []string{"spec", "lifecycle", "shutdownTime"}
	}
	object, err := e.client.Resource(resource).Namespace(e.namespace).Get(t.Context(), s.SandboxName, metav1.GetOptions{})
	require.NoError(t, err)
	at, found, err := unstructured.NestedString(object.Object, path...)
	require.NoError(t, err)
	require.True(t, found, "%s has no shutdown time", s.SandboxName)
	return at
}

func ttlCapsLife(t *testing.T, e *env) {
	e.apply(t, runtimeTemplate("echo")) // its maximum is the default of 8 h
	for ttl, life := range map[string]time.Duration{
		`,"ttl":60`:    time.Minute,
		`,"ttl":90000`: 8 * time.Hour,
		``:             8 * time.Hour,
		`,"ttl":null`:  8 * time.Hour,
	} {
		s := e.creates(t, agentRuntime, `{"namespace":"NAMESPACE","name":"echo"`+ttl+`}`)
		e.livesFor(t, s, life)
	}
}

func ttlOfClaim(t *testing.T, e *env) {
	e.apply(t, interpreterTemplate("warm", 1))
	s := e.creates(t, codeInterpreter, `{"namespace":"NAMESPACE","name":"warm","ttl":60}`)
	require.Equal(t, "SandboxClaim", s.Kind)
	e.livesFor(t, s, time.Minute)
}

func badLifetimes(t *testing.T, e *env) {
	e.apply(t, runtimeTemplate("echo"))
	for _, field := range []string{"ttl", "idleTimeout"} {
		for _, literal := range []string{
			"0", "-1", "1.5", `"60"`, "1e30", "1e2", "2147483648", "99999999999999999999", "true", "{}", "[60]",
		} {
			a := e.manager(t, http.MethodPost, agentRuntime,
				fmt.Sprintf(`{"namespace":%q,"name":"echo",%q:%s}`, e.namespace, field, literal))
			told := managerRefuses(t, a, http.StatusBadRequest, api.CodeInvalidRequest)
			assert.Contains(t, told.Message, field, "%s: %s", field, literal)
		}
	}
	e.nothingLeft(t)
}

func badNames(t *testing.T, e *env) {
	e.apply(t, runtimeTemplate("echo"))
	for _, bad := range []string{
		"", "a/b", "..", ".", "../" + e.namespace, "Echo", strings.Repeat("a", 300), "echo\x00", "echo ", "echo\n", "-echo", "écho", "*",
	} {
		value, err := json.Marshal(bad)
		require.NoError(t, err)
		for _, route := range []string{agentRuntime, codeInterpreter} {
			a := e.manager(t, http.MethodPost, route, fmt.Sprintf(`{"namespace":%s,"name":"echo"}`, value))
			told := managerRefuses(t, a, http.StatusBadRequest, api.CodeInvalidRequest)
			assert.True(t, strings.HasPrefix(told.Message, "namespace "), "namespace %s: %s", value, told.Message)
			a = e.manager(t, http.MethodPost, route, fmt.Sprintf(`{"namespace":%q,"name":%s}`, e.namespace, value))
			told = managerRefuses(t, a, http.StatusBadRequest, api.CodeInvalidRequest)
			assert.True(t, strings.HasPrefix(told.Message, "name "), "name %s: %s", value, told.Message)
		}
	}
	for body, message := range map[string]string{
		`{}`:                                  "namespace is required", // the namespace is looked at first
		`{"name":"x"}`:                        "namespace is required",
		`{"namespace":"` + e.namespace + `"}`: "name is required",
	} {
		told := managerRefuses(t, e.manager(t, http.MethodPost, agentRuntime, body), http.StatusBadRequest, api.CodeInvalidRequest)
		assert.Equal(t, message, told.Message, body)
	}
	e.nothingLeft(t)
}

func badBodies(t *testing.T, e *env) {
	e.apply(t, runtimeTemplate("echo"))
	const good = `"namespace":"NAMESPACE","name":"echo"`
	deep := strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000)
	for name, body := range map[string]string{
		"empty":               ``,
		"list":                `[]`,
		"text":                `"echo"`,
		"number":              `1`,
		"cut literal":         `nul`,
		"cut object":          `{` + good,
		"two objects":         `{` + good + `}{}`,
		"deep nesting":        `{` + good + `,"metadata":{"a":` + deep + `}}`,
		"duplicate name":      `{` + good + `,"name":"echo"}`,
		"duplicate ttl":       `{` + good + `,"ttl":60,"ttl":60}`,
		"no UTF-8 in a name":  `{` + good + "\xff" + `}`,
		"no UTF-8 in a value": `{` + good + `,"metadata":{"a":"` + "\xff" + `"}}`,
		"name is no text":     `{"namespace":"NAMESPACE","name":1}`,
		"byte order mark":     "\ufeff" + `{` + good + `}`,
	} {
		a := e.manager(t, http.MethodPost, agentRuntime, strings.ReplaceAll(body, "NAMESPACE", e.namespace))
		told := managerRefuses(t, a, http.StatusBadRequest, api.CodeInvalidRequest)
		assert.Equal(t, "Invalid request body", told.Message, name)
	}
	large := fmt.Sprintf(`{"namespace":%q,"name":"echo","metadata":{"a":%q}}`, e.namespace, strings.Repeat("x", 2<<20))
	managerRefuses(t, e.manager(t, http.MethodPost, agentRuntime, large), http.StatusRequestEntityTooLarge, api.CodeInvalidRequest)
	e.nothingLeft(t)
}

func badIDs(t *testing.T, e *env) {
	e.apply(t, runtimeTemplate("echo"))
	s := e.create(t, agentRuntime, "echo")
	known := e.indexed(t, s.SessionID)
	for _, route := range []string{agentRuntime, codeInterpreter} {
		for _, id := range []string{
			"expiry", "last_activity", "*", "session:" + s.SessionID, strings.ToUpper(s.SessionID), s.SessionID + "%0A",
			"%0A" + s.SessionID, strings.Repeat("a", 10_000), "%00", "%2e%2e", "00000000-0000-4000-8000-000000000000",
		} {
			a := e.manager(t, http.MethodDelete, route+"/sessions/"+id, "")
			managerRefuses(t, a, http.StatusNotFound, api.CodeSessionNotFound)
		}
		// Without an id there is no such route.
		assert.Equal(t, http.StatusNotFound, e.manager(t, http.MethodDelete, route+"/sessions/", "").status)
	}
	assert.Equal(t, known, e.indexed(t, s.SessionID), "index entries of another session")
	e.echoes(t, agentRuntime, "echo", s.SessionID)
}

func namespaceAbsent(t *testing.T, e *env) {
	for route, message := range map[string]string{
		agentRuntime: "agent runtime not found", codeInterpreter: "code interpreter not found",
	} {
		a := e.manager(t, http.MethodPost, route, `{"namespace":"absent-`+e.namespace+`","name":"echo"}`)
		told := managerRefuses(t, a, http.StatusNotFound, api.CodeTemplateNotFound)
		assert.Equal(t, message, told.Message)
	}
	e.serves(t)
}

// serves wants the workload-manager up and ready.
func (e *env) serves(t *testing.T) {
	t.Helper()
	for _, path := range []string{"/health", "/livez", "/readyz"} {
		a := e.manager(t, http.MethodGet, path, "")
		assert.Equal(t, http.StatusOK, a.status, "%s: %s", path, a)
	}
}
