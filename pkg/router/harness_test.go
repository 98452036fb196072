package router

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	"k8s.io/utils/clock"

	"github.com/agentcube/agentcube/pkg/api"
	"github.com/agentcube/agentcube/pkg/api/openapi/openapitest"
	"github.com/agentcube/agentcube/pkg/auth"
	"github.com/agentcube/agentcube/pkg/httpserver"
	"github.com/agentcube/agentcube/pkg/router/lookup"
	"github.com/agentcube/agentcube/pkg/session"
	"github.com/agentcube/agentcube/pkg/session/sessiontest"
)

const (
	echoPath = "/v1/namespaces/default/agent-runtimes/echo/invocations"
	deadline = 10 * time.Second // bounds waits that only end late when something is broken
)

var echoWorkload = session.WorkloadRef{Kind: session.KindAgentRuntime, Namespace: "default", Name: "echo"}

// rig is a router on a socket, with a store in memory.
type rig struct {
	t        *testing.T
	clock    clock.RealClock
	rows     *sessiontest.Fake
	store    *sessiontest.Faulty
	creator  *fakeCreator
	signer   *fakeSigner
	activity *Recorder
	router   *Router
	server   *httptest.Server
	logs     *observer.ObservedLogs
}

// newRig starts a router; changes are made before.
func newRig(t *testing.T, changes ...func(*Dependencies, *Options)) *rig {
	t.Helper()
	clk := clock.RealClock{}
	core, logs := observer.New(zap.DebugLevel)
	log := zap.New(core)
	r := &rig{t: t, rows: sessiontest.NewFake(clk), creator: &fakeCreator{}, signer: &fakeSigner{}, logs: logs}
	r.store = sessiontest.NewFaulty(r.rows)
	r.activity = NewRecorder(clk, r.rows, log)
	health := httpserver.NewHealth(clk, log)
	health.Ready()
	deps := Dependencies{
		Store: lookup.New(clk, r.store, lookup.Options{}, log), Endings: r.store, Creator: r.creator, Signer: r.signer, Activity: r.activity, Health: health,
		Metrics: httpserver.Status("metrics"),
	}
	opts := Options{AllowLoopbackEndpoints: true}
	for _, change := range changes {
		change(&deps, &opts)
	}
	r.router = New(clk, deps, opts, log)
	r.server = httptest.NewUnstartedServer(r.router.Handler())
	r.server.Config.Protocols = new(http.Protocols)
	r.server.Config.Protocols.SetHTTP1(true)
	r.server.Config.Protocols.SetUnencryptedHTTP2(true)
	r.server.Start()
	t.Cleanup(r.server.Close)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- r.router.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-done)
	})
	return r
}

// ready puts a ready session into the store.
func (r *rig) ready(endpoint string, changes ...func(*session.Session)) string {
	r.t.Helper()
	s := session.Session{
		ID:          sessiontest.ID(1),
		Object:      session.ObjectRef{Kind: session.KindSandbox, Namespace: "default", Name: "echo-0w6nv4p1", UID: "object"},
		Workload:    echoWorkload,
		EntryPoints: []session.EntryPoint{{Path: "/", Protocol: session.ProtocolHTTP, Endpoint: endpoint}},
		CreatedAt:   r.clock.Now(),
		State:       session.StateReady,
		Generation:  1,
	}
	for _, change := range changes {
		change(&s)
	}
	require.NoError(r.t, r.rows.Put(s))
	return s.ID
}

// request is a request for a session; an empty id names none.
func (r *rig) request(method, path, id string, body io.Reader) *http.Request {
	r.t.Helper()
	req, err := http.NewRequestWithContext(r.t.Context(), method, r.server.URL+path, body)
	require.NoError(r.t, err)
	if id != "" {
		req.Header.Set(api.HeaderSessionID, id)
	}
	return req
}

// reply is an answer that was read to its end.
type reply struct {
	StatusCode      int
	Header, Trailer http.Header
	body            string
}

func read(t *testing.T, res *http.Response) reply {
	t.Helper()
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	return reply{res.StatusCode, res.Header, res.Trailer, string(body)}
}

// readFrom reads the next answer of a connection.
func readFrom(t *testing.T, conn *bufio.Reader) reply {
	t.Helper()
	res, err := http.ReadResponse(conn, nil)
	require.NoError(t, err)
	defer func() { _ = res.Body.Close() }()
	return read(t, res)
}

// get sends a GET for the session and reads the answer.
func (r *rig) get(path, id string) (reply, string) {
	r.t.Helper()
	return r.do(r.request(http.MethodGet, path, id, nil))
}

// do sends a request, and wants its answer to be one that is described.
func (r *rig) do(req *http.Request) (reply, string) {
	r.t.Helper()
	res, err := r.client().Do(req)
	require.NoError(r.t, err)
	defer func() { _ = res.Body.Close() }()
	got := read(r.t, res)
	assert.NoError(r.t, openapitest.Router.Answer(req, openapitest.Answer{Status: got.StatusCode, Header: got.Header, Body: []byte(got.body)}))
	return got, got.body
}

// dial opens a connection to the router.
func (r *rig) dial() net.Conn {
	r.t.Helper()
	conn, err := new(net.Dialer).DialContext(r.t.Context(), "tcp", r.server.Listener.Addr().String())
	require.NoError(r.t, err)
	r.t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func (r *rig) client() *http.Client {
	transport := &http.Transport{DisableCompression: true}
	r.t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// raw sends a request line and headers as they are.
func (r *rig) raw(head ...string) reply {
	r.t.Helper()
	conn := r.dial()
	_, err := io.WriteString(conn, strings.Join(append(head, "Host: router.test", "Connection: close"), "\r\n")+"\r\n\r\n")
	require.NoError(r.t, err)
	return readFrom(r.t, bufio.NewReader(conn))
}

// fails checks an error of the router's, with its shape.
func fails(t *testing.T, res reply, body string, status int, code string) {
	t.Helper()
	require.Equal(t, status, res.StatusCode, body)
	var got api.RouterError
	require.NoError(t, json.Unmarshal([]byte(body), &got), body)
	assert.Equal(t, code, got.Code)
	assert.NotEmpty(t, got.Error)
	assert.NotEmpty(t, got.RequestID)
	assert.Equal(t, "application/json; charset=utf-8", res.Header.Get("Content-Type"))
}

// sandbox is a server that hands over what it received.
type sandbox struct {
	*httptest.Server
	received chan *http.Request
}

func newSandbox(t *testing.T, handler http.HandlerFunc) *sandbox {
	t.Helper()
	s := &sandbox{received: make(chan *http.Request, 100)}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.received <- r
		if handler != nil {
			handler(w, r)
		}
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *sandbox) endpoint() string { return s.Listener.Addr().String() }

// last is the request the sandbox received last.
func (s *sandbox) last(t *testing.T) *http.Request {
	t.Helper()
	select {
	case r := <-s.received:
		return r
	case <-clock.RealClock{}.After(deadline):
		require.Fail(t, "nothing reached the sandbox")
		return nil
	}
}

// refusing is an address at which nobody listens.
func refusing(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, l.Close())
	return l.Addr().String()
}

type fakeCreator struct {
	mu     sync.Mutex
	create func(ctx context.Context, workload session.WorkloadRef, owner string) (string, error)
	calls  int
	// undone are the ids of sessions that were undone.
	undone []string
}

func (c *fakeCreator) Undo(ctx context.Context, _ session.WorkloadRef, id, _ string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.undone = append(c.undone, id)
	return ctx.Err()
}

func (c *fakeCreator) undoneIDs() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.undone
}

func (c *fakeCreator) Create(ctx context.Context, workload session.WorkloadRef, owner string) (string, error) {
	c.mu.Lock()
	c.calls++
	create := c.create
	c.mu.Unlock()
	if create == nil {
		return "", ErrManagerUnavailable
	}
	return create(ctx, workload, owner)
}

func (c *fakeCreator) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.calls
}

// fakeSigner signs legibly.
type fakeSigner struct{ err error }

func (s *fakeSigner) SandboxAuthorization(id, keyID string, user auth.Principal) (string, error) {
	return "Bearer token/" + id + "/" + keyID + "/" + user.Subject, s.err
}

func (s *fakeSigner) IdentityToken(owner string) (string, error) { return "identity/" + owner, s.err }

// fakeAuth knows one caller.
type fakeAuth struct {
	user auth.Principal
	err  error
}

func (a fakeAuth) Authenticate(context.Context, string) (auth.Principal, error) { return a.user, a.err }
