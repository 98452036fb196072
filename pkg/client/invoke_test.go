package client_test

import (
	"bufio"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentcube/agentcube/pkg/api"
	"github.com/agentcube/agentcube/pkg/client"
	"github.com/agentcube/agentcube/pkg/client/clienttest"
)

func toEcho(path string) client.Invocation {
	return client.Invocation{Kind: client.AgentRuntime, Namespace: "default", Name: "echo", Path: path}
}

func TestThePathAndQueryArriveByteForByte(t *testing.T) {
	t.Parallel()
	_, c, _ := world(t)
	for given, want := range map[string]string{
		"":                      "/",
		"/":                     "/",
		"run":                   "/run",
		"/a%2Fb":                "/a%2Fb",
		"/a%2fb":                "/a%2fb",
		"//a//":                 "//a//",
		"/a/../b/./c":           "/a/../b/./c",
		"/a;b?c=d;e&f=+%20":     "/a;b?c=d;e&f=+%20",
		"/?":                    "/?",
		"/a?b?c":                "/a?b?c",
		`/{a}|"b"^c` + "`":      `/{a}|"b"^c` + "`",
		"/é":                    "/é",
		"/%7Ea~b":               "/%7Ea~b",
		"/a%00b":                "/a%00b",
		"/http://example.com/x": "/http://example.com/x",
	} {
		res, err := c.Invoke(t.Context(), toEcho(given))
		require.NoError(t, err, given)
		body, err := io.ReadAll(res.Body)
		require.NoError(t, res.Body.Close())
		require.NoError(t, err)
		assert.Equal(t, "GET "+want+"\n", string(body), given)
	}
	for _, bad := range []string{"/a b", "/a#b", "/a\r\nX: y", "/\x7f", "/%zz"} {
		_, err := c.Invoke(t.Context(), toEcho(bad))
		require.Error(t, err, "%q", bad)
	}
}

func TestAnAnswerOfTheSandboxIsTheCallersWhateverItsStatus(t *testing.T) {
	t.Parallel()
	s, c, _ := world(t)
	for sentence, fault := range map[string]http.HandlerFunc{
		"text":                          func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "none", http.StatusServiceUnavailable) },
		"JSON without a code":           func(w http.ResponseWriter, _ *http.Request) { reply(w, `{"error":"x"}`) },
		"JSON with another one's codes": func(w http.ResponseWriter, _ *http.Request) { reply(w, `{"error":"x","code":"Y"}`) },
		"JSON that breaks":              func(w http.ResponseWriter, _ *http.Request) { reply(w, `{"error":"x",`) },
	} {
		s.Fault(fault)
		res, err := c.Invoke(t.Context(), toEcho("/"))
		require.NoError(t, err, sentence)
		body, err := io.ReadAll(res.Body)
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		assert.Equal(t, 503, res.StatusCode)
		assert.NotEmpty(t, body, sentence)
	}
	assert.Len(t, s.Requests(), 4, "none is repeated")

	s.Fault(func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/elsewhere", http.StatusFound) })
	res, err := c.Invoke(t.Context(), toEcho("/"))
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	assert.Equal(t, http.StatusFound, res.StatusCode)
}

func reply(w http.ResponseWriter, body string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusServiceUnavailable)
	_, _ = io.WriteString(w, body)
}

func TestARefusalOfTheRoutersOwnIsAnError(t *testing.T) {
	t.Parallel()
	s, c, _ := world(t)
	s.End(clienttest.ID(7), api.EndedExpired)
	i := toEcho("/")
	i.SessionID = clienttest.ID(7)
	_, err := c.Invoke(t.Context(), i)
	require.ErrorIs(t, err, client.ErrSessionNotFound)
	var e *client.Error
	require.ErrorAs(t, err, &e)
	assert.Equal(t, "expired", e.Reason)
	assert.Equal(t, "request-1", e.RequestID)
}

func TestAnInvocationIsRepeatedIfTheRouterRefusedItForNow(t *testing.T) {
	t.Parallel()
	notReady := clienttest.RefuseRouted(503, api.CodeSandboxNotReady, "sandbox is not ready", "Retry-After", "1")
	for sentence, c := range map[string]struct {
		fault http.HandlerFunc
		body  io.Reader
		tries int
	}{
		"without a body":                       {notReady, nil, 2},
		"with a body that can be read again":   {notReady, strings.NewReader("hi"), 2},
		"with one that cannot":                 {notReady, io.MultiReader(strings.NewReader("hi")), 1},
		"a sandbox that may have been reached": {clienttest.RefuseRouted(502, api.CodeSandboxUnreachable, "reset"), nil, 1},
		"an answer that was lost":              {lost, strings.NewReader("hi"), 1},
		"an answer that broke off":             {broken, strings.NewReader("hi"), 1},
	} {
		t.Run(sentence, func(t *testing.T) {
			t.Parallel()
			s, cl, p := world(t)
			s.Fault(c.fault)
			i := toEcho("/run")
			i.Method, i.Body = http.MethodPost, c.body
			res, err := cl.Invoke(t.Context(), i)
			require.Len(t, s.Requests(), c.tries)
			if c.tries == 1 {
				require.Error(t, err)
				return
			}
			require.NoError(t, err)
			text, err := io.ReadAll(res.Body)
			require.NoError(t, err)
			require.NoError(t, res.Body.Close())
			want := "POST /run\n"
			if c.body != nil {
				want += "hi"
			}
			assert.Equal(t, want, string(text))
			assert.Len(t, p.waits, 1)
		})
	}
}

// broken is the sandbox's own error, of which half arrives.
func broken(w http.ResponseWriter, _ *http.Request) {
	text := `{"error":"it failed half way"}`
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(text)))
	w.WriteHeader(http.StatusInternalServerError)
	_, _ = io.WriteString(w, text[:len(text)/2])
	_ = http.NewResponseController(w).Flush()
	panic(http.ErrAbortHandler)
}

func TestAnAnswerIsStreamed(t *testing.T) {
	t.Parallel()
	s, c, _ := world(t)
	next := make(chan struct{})
	s.Fault(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for range 2 {
			_, _ = io.WriteString(w, "data: x\n")
			_ = http.NewResponseController(w).Flush() // to a recorder it cannot
			select {
			case <-next:
			case <-r.Context().Done():
			}
		}
	})
	res, err := c.Invoke(t.Context(), toEcho("/"))
	require.NoError(t, err)
	defer func() { _ = res.Body.Close() }()
	lines := bufio.NewScanner(res.Body)
	for range 2 {
		require.True(t, lines.Scan(), "before the sandbox goes on")
		assert.Equal(t, "data: x", lines.Text())
		next <- struct{}{}
	}
}
