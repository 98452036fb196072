package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentcube/agentcube/pkg/api"
	"github.com/agentcube/agentcube/pkg/client"
	"github.com/agentcube/agentcube/pkg/client/clienttest"
)

// pacer is a clock whose waits are over at once.
type pacer struct {
	mu    sync.Mutex
	waits []time.Duration
}

func (*pacer) Now() time.Time { return clienttest.Start }

func (p *pacer) Wait(ctx context.Context, d time.Duration) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.waits = append(p.waits, d)
	return ctx.Err()
}

const echo = "AgentRuntime/default/echo"

// world is a server, and a client of it.
func world(t *testing.T) (*clienttest.Server, *client.Client, *pacer) {
	t.Helper()
	s := clienttest.Serve(echo)
	t.Cleanup(s.Close)
	p := &pacer{}
	return s, client.New(client.Options{WorkloadManager: s.URL, Router: s.URL, Clock: p}), p
}

var wanted = client.CreateOptions{Kind: client.AgentRuntime, Namespace: "default", Name: "echo"}

// lost is a fault: the request is carried out, and nobody hears of it.
func lost(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }

func TestACreateWhoseAnswerWasLostIsRepeatedWithItsKey(t *testing.T) {
	t.Parallel()
	s, c, p := world(t)
	s.Fault(lost, clienttest.Refuse(503, api.CodeStoreUnavailable, "store is unavailable", "Retry-After", "7"))
	_, err := c.Create(t.Context(), wanted)
	require.NoError(t, err)
	keys := map[string]bool{}
	for _, r := range s.Requests() {
		keys[r.Header.Get("Idempotency-Key")] = true
	}
	require.Len(t, s.Requests(), 3)
	require.Len(t, keys, 1, "one key for all tries")
	require.NotContains(t, keys, "")
	require.Len(t, p.waits, 2)
	assert.LessOrEqual(t, p.waits[0], 250*time.Millisecond)
	assert.Equal(t, 7*time.Second, p.waits[1], "not before the Retry-After")

	_, err = c.Create(t.Context(), wanted)
	require.NoError(t, err)
	assert.Len(t, s.Sessions(), 2, "each create has a key of its own")
}

func TestACreateThatIsUndoneHasNoKeyAndIsSentOnce(t *testing.T) {
	t.Parallel()
	for sentence, fault := range map[string]http.HandlerFunc{
		"the answer was lost": lost,
		"refused for now":     clienttest.Refuse(503, api.CodeStoreUnavailable, "store is unavailable", "Retry-After", "1"),
	} {
		t.Run(sentence, func(t *testing.T) {
			t.Parallel()
			s, c, _ := world(t)
			s.Fault(fault)
			o := wanted
			o.Undo = true
			_, err := c.Create(t.Context(), o)
			require.Error(t, err)
			require.Len(t, s.Requests(), 1)
			assert.NotContains(t, s.Requests()[0].Header, "Idempotency-Key")
		})
	}
}

func TestWhatIsRepeated(t *testing.T) {
	t.Parallel()
	for sentence, c := range map[string]struct {
		fault http.HandlerFunc
		again bool
	}{
		"a lost answer":                     {lost, true},
		"a quota that may have room soon":   {clienttest.Refuse(429, api.CodeQuotaExceeded, "m", "Retry-After", "10"), true},
		"a cluster that is away":            {clienttest.Refuse(503, api.CodeClusterUnavailable, "m"), true},
		"a gateway that could not reach us": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) }, true},
		"an answer that asks for patience":  {clienttest.Refuse(503, api.CodeNotReady, "m", "Retry-After", "31"), false},
		"a sandbox that failed for good":    {clienttest.Refuse(502, api.CodeSandboxFailed, "m"), false},
		"a create that took too long":       {clienttest.Refuse(504, api.CodeCreateTimeout, "m"), false},
		"a defect of the server":            {clienttest.Refuse(500, api.CodeInternal, "m"), false},
		"a request that is not valid":       {clienttest.Refuse(400, api.CodeInvalidRequest, "m"), false},
		"a redirect": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
		}, false},
		"an answer that is no JSON": {func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html>") }, false},
	} {
		t.Run(sentence, func(t *testing.T) {
			t.Parallel()
			s, cl, _ := world(t)
			s.Fault(c.fault)
			_, err := cl.Create(t.Context(), wanted)
			if c.again {
				require.NoError(t, err)
				assert.Len(t, s.Requests(), 2)
				return
			}
			require.Error(t, err)
			assert.Len(t, s.Requests(), 1)
		})
	}
}

func TestTriesAreBounded(t *testing.T) {
	t.Parallel()
	s, c, p := world(t)
	for range 5 {
		s.Fault(lost)
	}
	_, err := c.Get(t.Context(), clienttest.ID(1))
	require.ErrorIs(t, err, io.EOF)
	assert.Len(t, s.Requests(), 4)
	require.Len(t, p.waits, 3)
	for i, most := range []time.Duration{250 * time.Millisecond, 500 * time.Millisecond, time.Second} {
		assert.LessOrEqual(t, p.waits[i], most)
		assert.GreaterOrEqual(t, p.waits[i], most/2)
	}
}

func TestACallWhoseContextIsOverIsNotRepeated(t *testing.T) {
	t.Parallel()
	s, c, p := world(t)
	ctx, cancel := context.WithCancel(t.Context())
	s.Fault(func(http.ResponseWriter, *http.Request) {
		cancel()
		panic(http.ErrAbortHandler)
	})
	_, err := c.Get(ctx, clienttest.ID(1))
	require.Error(t, err)
	assert.Empty(t, p.waits)
}

func TestErrorsSayWhatTheAnswerSays(t *testing.T) {
	t.Parallel()
	s, c, _ := world(t)
	s.Fault(clienttest.Refuse(429, api.CodeQuotaExceeded, "pods: 10 of 10 used", "Retry-After", "60"))
	_, err := c.With(http.Header{"X-Request-Id": {"r-1"}}).Create(t.Context(), wanted)
	require.ErrorIs(t, err, client.ErrQuotaExceeded)
	require.NotErrorIs(t, err, client.ErrUnavailable)
	var e *client.Error
	require.ErrorAs(t, err, &e)
	assert.Equal(t, 429, e.Status)
	assert.Equal(t, "QUOTA_EXCEEDED", e.Code)
	assert.Equal(t, "pods: 10 of 10 used", e.Message)
	assert.Equal(t, "r-1", e.RequestID)
	assert.Equal(t, time.Minute, e.RetryAfter)
	assert.EqualError(t, err, "creating a session of AgentRuntime default/echo: "+
		"pods: 10 of 10 used (QUOTA_EXCEEDED), request r-1")
}

func TestRetryAfterMayBeADate(t *testing.T) {
	t.Parallel()
	s, c, _ := world(t)
	at := clienttest.Start.Add(90 * time.Second).Format(http.TimeFormat)
	s.Fault(clienttest.Refuse(503, api.CodeNotReady, "m", "Retry-After", at))
	_, err := c.Get(t.Context(), clienttest.ID(1))
	var e *client.Error
	require.ErrorAs(t, err, &e)
	assert.Equal(t, 90*time.Second, e.RetryAfter)
	assert.ErrorIs(t, err, client.ErrUnavailable)
}

func TestSentinels(t *testing.T) {
	t.Parallel()
	for code, want := range map[string]error{
		"INVALID_REQUEST": client.ErrInvalid, "UNAUTHENTICATED": client.ErrUnauthenticated,
		"UNAUTHORIZED": client.ErrUnauthenticated, "FORBIDDEN": client.ErrForbidden,
		"TEMPLATE_NOT_FOUND": client.ErrTemplateNotFound, "SESSION_NOT_FOUND": client.ErrSessionNotFound,
		"IDEMPOTENCY_KEY_REUSED": client.ErrKeyReused, "SESSION_ENDED": client.ErrSessionEnded,
		"QUOTA_EXCEEDED": client.ErrQuotaExceeded, "STORE_UNAVAILABLE": client.ErrUnavailable,
		"CLUSTER_UNAVAILABLE": client.ErrUnavailable, "NOT_READY": client.ErrUnavailable,
	} {
		require.ErrorIs(t, &client.Error{Code: code}, want, code)
	}
	require.ErrorIs(t, &client.Error{Status: 502}, client.ErrUnavailable)
	assert.NotErrorIs(t, &client.Error{Status: 404}, client.ErrSessionNotFound, "of something else")
}

func TestACreateAsksForWhatIsWanted(t *testing.T) {
	t.Parallel()
	s, c, _ := world(t)
	var body []byte
	var prefer string
	s.Fault(func(w http.ResponseWriter, r *http.Request) {
		body, _ = io.ReadAll(r.Body)
		prefer = r.Header.Get("Prefer")
		w.Header().Set("Location", "/v1/sessions/"+clienttest.ID(9))
		w.WriteHeader(http.StatusAccepted)
	})
	created, err := c.Create(t.Context(), client.CreateOptions{
		Kind: client.AgentRuntime, Namespace: "default", Name: "echo", TTL: 90*time.Second + 1, IdleTimeout: time.Minute,
		Metadata: json.RawMessage(`{"a":1}`), Async: true,
	})
	require.NoError(t, err)
	assert.Equal(t, clienttest.ID(9), created.SessionID)
	assert.Equal(t, "creating", created.State)
	assert.Equal(t, "respond-async", prefer)
	assert.JSONEq(t, `{"name":"echo","namespace":"default","ttl":91,"idleTimeout":60,"metadata":{"a":1}}`, string(body))
}

func TestADeleteWhoseAnswerWasLostFindsTheSessionGone(t *testing.T) {
	t.Parallel()
	s, c, _ := world(t)
	created, err := c.Create(t.Context(), wanted)
	require.NoError(t, err)
	s.Fault(func(http.ResponseWriter, *http.Request) {
		s.End(created.SessionID, api.EndedDeleted)
		panic(http.ErrAbortHandler)
	})
	require.NoError(t, c.Delete(t.Context(), created.SessionID))
	require.ErrorIs(t, c.Delete(t.Context(), created.SessionID), client.ErrSessionNotFound)
}

func TestSessionsAreReadChangedAndKeptAlive(t *testing.T) {
	t.Parallel()
	s, c, _ := world(t)
	created, err := c.Create(t.Context(), wanted)
	require.NoError(t, err)
	s.Advance(time.Minute)
	require.NoError(t, c.Keepalive(t.Context(), created.SessionID))
	got, err := c.Await(t.Context(), created.SessionID, "creating", 30*time.Second)
	require.NoError(t, err)
	assert.Equal(t, clienttest.Start.Add(time.Minute), got.LastActivityAt)
	requests := s.Requests()
	assert.Equal(t, "/v1/sessions/"+created.SessionID+"?from=creating&wait=30s", requests[len(requests)-1].RequestURI)

	got, err = c.Patch(t.Context(), created.SessionID, client.Lifetimes{TTL: time.Hour})
	require.NoError(t, err)
	assert.Equal(t, s.Now().Add(time.Hour), got.ExpiresAt)
	assert.Equal(t, int64(900), got.IdleTimeout, "only what is named moves")
}

// An existing installation, or something in between, may answer at once.
func TestAReadThatIsNotHeldIsPaced(t *testing.T) {
	t.Parallel()
	s, c, p := world(t)
	s.StartSlowly(3)
	o := wanted
	o.Async = true
	created, err := c.Create(t.Context(), o)
	require.NoError(t, err)
	reads := 0
	got, err := c.WaitReady(t.Context(), created.SessionID, func(api.Session) { reads++ })
	require.NoError(t, err)
	assert.Equal(t, "ready", got.State)
	assert.Equal(t, 3, reads)
	assert.Equal(t, []time.Duration{time.Second, time.Second, time.Second}, p.waits)
}

func TestAListEndsWithItsLastPageAnErrorOrTheCaller(t *testing.T) {
	t.Parallel()
	s, c, _ := world(t)
	for range 5 {
		_, err := c.Create(t.Context(), wanted)
		require.NoError(t, err)
	}
	filter := client.Filter{Namespace: "default", Kind: client.AgentRuntime, Name: "echo", State: "ready", PageSize: 2}
	var ids []string
	for x, err := range c.List(t.Context(), filter) {
		require.NoError(t, err)
		ids = append(ids, x.SessionID)
	}
	assert.Equal(t, []string{clienttest.ID(1), clienttest.ID(2), clienttest.ID(3), clienttest.ID(4), clienttest.ID(5)}, ids)

	before := len(s.Requests())
	for _, err := range c.List(t.Context(), filter) {
		require.NoError(t, err)
		break
	}
	assert.Len(t, s.Requests(), before+1, "no page that nobody asked for")

	s.Fault(clienttest.Refuse(400, api.CodeInvalidRequest, "bad cursor"))
	turns := 0
	for _, err := range c.List(t.Context(), filter) {
		turns++
		require.ErrorIs(t, err, client.ErrInvalid)
	}
	assert.Equal(t, 1, turns)
}

func TestCredentialsAndHeadersAreSentWithEachTry(t *testing.T) {
	t.Parallel()
	s := clienttest.Serve(echo)
	t.Cleanup(s.Close)
	tokens := 0
	c := client.New(client.Options{
		WorkloadManager: s.URL, Clock: &pacer{}, Header: http.Header{"User-Agent": {"mine"}},
		Authorize: client.BearerToken(func(context.Context) (string, error) {
			tokens++
			return strings.Repeat("x", tokens), nil
		}),
	})
	s.Fault(lost)
	_, err := c.With(http.Header{api.HeaderUserIdentity: {"jwt"}}).Create(t.Context(), wanted)
	require.NoError(t, err)
	var sent []string
	for _, r := range s.Requests() {
		sent = append(sent, r.Header.Get("Authorization"))
		assert.Equal(t, "mine", r.Header.Get("User-Agent"))
		assert.Equal(t, "jwt", r.Header.Get("X-AgentCube-User-Identity"))
	}
	assert.Equal(t, []string{"Bearer x", "Bearer xx"}, sent)

	broken := errors.New("no token")
	c = client.New(client.Options{
		WorkloadManager: s.URL,
		Authorize:       client.BearerToken(func(context.Context) (string, error) { return "", broken }),
	})
	_, err = c.Get(t.Context(), clienttest.ID(1))
	require.ErrorIs(t, err, broken)
}

func TestWithoutItsURLAServiceIsNotCalled(t *testing.T) {
	t.Parallel()
	c := client.New(client.Options{})
	_, err := c.Create(t.Context(), wanted)
	require.ErrorIs(t, err, client.ErrNoURL)
	_, err = c.Invoke(t.Context(), client.Invocation{Kind: client.AgentRuntime})
	require.ErrorIs(t, err, client.ErrNoURL)
}

func TestABaseURLMayHaveAPath(t *testing.T) {
	t.Parallel()
	s := clienttest.Serve(echo)
	t.Cleanup(s.Close)
	base, err := url.Parse(s.URL.String() + "/cube/")
	require.NoError(t, err)
	c := client.New(client.Options{WorkloadManager: base, Router: base})
	_, _ = c.Get(t.Context(), clienttest.ID(1))
	if res, err := c.Invoke(t.Context(), client.Invocation{Kind: client.AgentRuntime, Namespace: "a", Name: "b", Path: "/c"}); err == nil {
		_ = res.Body.Close()
	}
	requests := s.Requests()
	assert.Equal(t, "/cube/v1/sessions/"+clienttest.ID(1), requests[0].RequestURI)
	assert.Equal(t, "/cube/v1/namespaces/a/agent-runtimes/b/invocations/c", requests[1].RequestURI)
}
