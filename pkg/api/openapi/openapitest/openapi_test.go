package openapitest_test

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentcube/agentcube/pkg/api/openapi/openapitest"
)

var services = map[string]*openapitest.Service{
	"workload-manager": openapitest.WorkloadManager, "router": openapitest.Router,
}

func TestTheDocumentsAreValid(t *testing.T) {
	t.Parallel()
	for name, s := range services {
		require.NoError(t, s.Validate(), name)
	}
}

func TestEveryErrorCodeIsExplained(t *testing.T) {
	t.Parallel()
	file, err := parser.ParseFile(token.NewFileSet(), "../../codes.go", nil, 0)
	require.NoError(t, err)
	var codes []string
	ast.Inspect(file, func(n ast.Node) bool {
		if literal, ok := n.(*ast.BasicLit); ok && literal.Kind == token.STRING {
			code, err := strconv.Unquote(literal.Value)
			require.NoError(t, err)
			codes = append(codes, code)
		}
		return true
	})
	require.NotEmpty(t, codes)
	explained := slices.Concat(openapitest.WorkloadManager.Codes(), openapitest.Router.Codes())
	for _, code := range codes {
		assert.Contains(t, explained, code)
	}
	for _, code := range explained {
		assert.Contains(t, codes, code)
	}
}

// outside of any operation.
var outside = []string{"NOT_FOUND", "METHOD_NOT_ALLOWED", "CLIENT_CLOSED_REQUEST", "FORBIDDEN"}

func TestEveryCodeThatIsExplainedIsAnswered(t *testing.T) {
	t.Parallel()
	for name, s := range services {
		var answered []string
		for _, d := range s.Answers() {
			answered = append(answered, d.Code)
		}
		for _, code := range s.Codes() {
			assert.True(t, slices.Contains(answered, code) || slices.Contains(outside, code), "%s: %s", name, code)
		}
	}
}

func TestExamplesAreAnswers(t *testing.T) {
	t.Parallel()
	for name, s := range services {
		require.NotEmpty(t, s.Examples())
		for _, e := range s.Examples() {
			require.NoError(t, e.Err)
			body, err := json.Marshal(e.Value)
			require.NoError(t, err)
			status, err := strconv.Atoi(e.Status)
			require.NoError(t, err)
			path := strings.NewReplacer("{id}", "aea4cea2-6f42-4fbb-b464-82ddb3a1f64b", "{namespace}", "a", "{name}", "b", "{path}", "c").Replace(e.Path)
			request := httptest.NewRequestWithContext(t.Context(), e.Method, path, nil)
			if e.Method == http.MethodHead {
				continue
			}
			assert.NoError(t, s.Answer(request, openapitest.Answer{Status: status, Header: e.Header(), Body: body}), name)
		}
	}
}

func TestWhatIsNotDescribedIsFound(t *testing.T) {
	t.Parallel()
	const id = `"requestId":"x"`
	for sentence, c := range map[string]struct {
		method, path string
		status       int
		body         string
	}{
		"a status":             {"DELETE", "/v1/sessions/x", 202, `{"message":"m"}`},
		"a field":              {"DELETE", "/v1/sessions/x", 200, `{"message":"m","more":1}`},
		"a field that lacks":   {"DELETE", "/v1/sessions/x", 200, `{}`},
		"a type":               {"DELETE", "/v1/sessions/x", 200, `{"message":1}`},
		"a code":               {"DELETE", "/v1/sessions/x", 404, `{"message":"m","code":"NO_SUCH",` + id + `}`},
		"a code of another":    {"DELETE", "/v1/sessions/x", 404, `{"message":"m","code":"INTERNAL",` + id + `}`},
		"a field of an error":  {"DELETE", "/v1/sessions/x", 404, `{"message":"m","code":"SESSION_NOT_FOUND","more":1,` + id + `}`},
		"a field of a session": {"GET", "/v1/sessions", 200, `{"items":[{"sessionId":"aea4cea2-6f42-4fbb-b464-82ddb3a1f64b","state":"ready","object":{"kind":"Sandbox","namespace":"a","name":"b","more":1},"entryPoints":[],"generation":1}]}`},
		"a time that is none":  {"GET", "/v1/sessions", 200, `{"items":[{"sessionId":"aea4cea2-6f42-4fbb-b464-82ddb3a1f64b","state":"ready","createdAt":"x","object":{"kind":"Sandbox","namespace":"a","name":"b"},"entryPoints":[],"generation":1}]}`},
		"a route":              {"GET", "/v1/other", 200, `{}`},
		"a method":             {"PUT", "/v1/sessions", 200, `{}`},
		"no body":              {"GET", "/v1/sessions", 200, ``},
		"an error of no code":  {"GET", "/v1/other", 404, `{"message":"m"}`},
	} {
		request := httptest.NewRequestWithContext(t.Context(), c.method, c.path, nil)
		header := map[string][]string{"Content-Type": {"application/json; charset=utf-8"}, "X-Request-Id": {"x"}}
		answer := openapitest.Answer{Status: c.status, Header: header, Body: []byte(c.body)}
		require.Error(t, openapitest.WorkloadManager.Answer(request, answer), sentence)
	}
	request := httptest.NewRequestWithContext(t.Context(), "GET", "/livez", nil)
	bare := openapitest.Answer{Status: 200, Header: map[string][]string{"Content-Type": {"application/json"}}, Body: []byte(`{"status":"ok"}`)}
	require.Error(t, openapitest.WorkloadManager.Answer(request, bare), "a header lacks")
	bare.Header["X-Request-Id"] = []string{"x"}
	require.NoError(t, openapitest.WorkloadManager.Answer(request, bare))
	bare.Header["X-Strange"] = []string{"x"}
	require.Error(t, openapitest.WorkloadManager.Answer(request, bare), "a header that is not described")
}
