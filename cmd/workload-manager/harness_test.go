package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"k8s.io/utils/clock"

	"github.com/agentcube/agentcube/pkg/config"
)

const (
	deadline = 20 * time.Second // bounds waits that only end late when something is broken
	tick     = 10 * time.Millisecond
)

// program is a workload-manager that runs in this process, between a store and
// an API server, with a template "echo" whose sandboxes listen.
type program struct {
	t     *testing.T
	redis *miniredis.Miniredis
	api   *apiServer
	url   string
	stop  context.CancelFunc
	done  chan error
}

// world is a program that does not run yet.
func world(t *testing.T) *program {
	t.Helper()
	sandbox, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = sandbox.Close() })
	p := &program{t: t, redis: miniredis.RunT(t), api: newAPIServer(), done: make(chan error, 1)}
	p.api.put("echo", sandbox.Addr().(*net.TCPAddr).Port)
	return p
}

func (p *program) config(args ...string) config.WorkloadManager {
	p.t.Helper()
	api := httptest.NewServer(p.api)
	p.t.Cleanup(api.Close)
	kubeconfig := filepath.Join(p.t.TempDir(), "kubeconfig")
	require.NoError(p.t, os.WriteFile(kubeconfig, fmt.Appendf(nil, `{"apiVersion":"v1","kind":"Config","current-context":"c",
		"clusters":[{"name":"c","cluster":{"server":%q}}],"contexts":[{"name":"c","context":{"cluster":"c","user":"u"}}],
		"users":[{"name":"u","user":{}}]}`, api.URL), 0o600))
	env := map[string]string{"REDIS_ADDR": p.redis.Addr(), "REDIS_PASSWORD_REQUIRED": "false"}
	args = append([]string{"--port=0", "--kubeconfig=" + kubeconfig, "--drain-delay=0s"}, args...)
	cfg, err := config.ParseWorkloadManager(args, func(name string) string { return env[name] })
	require.NoError(p.t, err)
	return cfg
}

// start runs the program as main does.
func (p *program) start(args ...string) {
	p.t.Helper()
	cfg := p.config(args...)
	address := make(chan net.Addr, 1)
	ctx := p.context()
	go func() { p.done <- Run(ctx, cfg, zap.NewNop(), func(a net.Addr) { address <- a }) }()
	select {
	case a := <-address:
		p.at(a)
	case err := <-p.done:
		require.FailNow(p.t, "did not start", "%v", err)
	}
}

// startOn runs it on a clock that is not the real one.
func (p *program) startOn(clk clock.WithTicker, args ...string) *app {
	p.t.Helper()
	ctx := p.context()
	a, err := newApp(ctx, clk, p.config(args...), zap.NewNop())
	require.NoError(p.t, err)
	p.at(a.server.Addr())
	go func() { p.done <- a.run(ctx) }()
	return a
}

func (p *program) context() context.Context {
	ctx, stop := context.WithCancel(p.t.Context())
	p.stop = stop
	p.t.Cleanup(stop)
	return ctx
}

func (p *program) at(a net.Addr) {
	p.url = fmt.Sprintf("http://127.0.0.1:%d", a.(*net.TCPAddr).Port)
}

// answer of a call; the status is 0 if there was none.
type answer struct {
	status int
	header http.Header
	body   struct {
		Status    string            `json:"status"`
		Details   map[string]string `json:"details"`
		Code      string            `json:"code"`
		Message   string            `json:"message"`
		SessionID string            `json:"sessionId"`
	}
}

// call sends a request; headers are pairs.
func (p *program) call(method, path, body string, headers ...string) (a answer) {
	req, err := http.NewRequestWithContext(context.WithoutCancel(p.t.Context()), method, p.url+path, strings.NewReader(body))
	if err != nil {
		return answer{}
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return answer{}
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	if err != nil || json.Unmarshal(text, &a.body) != nil {
		return answer{}
	}
	a.status, a.header = res.StatusCode, res.Header
	return a
}

func (p *program) get(path string) answer { return p.call(http.MethodGet, path, "") }

func (p *program) create(headers ...string) answer {
	return p.call(http.MethodPost, "/v1/agent-runtime", `{"name":"echo","namespace":"default"}`, headers...)
}

// creating is a create under way; its sandbox is there and not ready.
func (p *program) creating() (path string, answered chan answer) {
	p.t.Helper()
	answers := make(chan answer, 1)
	answered = answers
	go func() { answers <- p.create() }()
	select {
	case path = <-p.api.created:
	case a := <-answered:
		require.FailNow(p.t, "the create did not wait", "%+v", a)
	}
	return path, answered
}

func (p *program) unavailable(a answer, code string) {
	p.t.Helper()
	assert.Equal(p.t, http.StatusServiceUnavailable, a.status)
	assert.Equal(p.t, code, a.body.Code, a.body.Message)
	assert.NotEmpty(p.t, a.header.Get("Retry-After"))
}

// waitServing waits until creates work.
func (p *program) waitServing() {
	p.t.Helper()
	require.Eventually(p.t, func() bool {
		a := p.get("/readyz")
		return a.status == http.StatusOK && a.body.Details["cluster"] == "ok"
	}, deadline, tick)
}

// end stops the program and wants it to end well.
func (p *program) end() {
	p.t.Helper()
	p.stop()
	require.Eventually(p.t, func() bool { return len(p.done) == 1 }, deadline, tick, "it does not end")
	require.NoError(p.t, <-p.done)
}
