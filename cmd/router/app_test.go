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
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/clock"

	"github.com/agentcube/agentcube/pkg/config"
)

const (
	sessionID = "aea4cea2-6f42-4fbb-b464-82ddb3a1f64b"
	path      = "/v1/namespaces/default/agent-runtimes/echo/invocations/x"
	deadline  = 20 * time.Second // bounds waits that only end late when something is broken
)

// secrets is an API server that knows one Secret.
type secrets struct {
	mu     sync.Mutex
	stored *corev1.Secret
	// changed is closed when the Secret is made.
	changed chan struct{}
}

func (s *secrets) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	query := r.URL.Query()
	switch {
	case r.Method == http.MethodPost:
		s.create(w, r)
	case query.Get("sendInitialEvents") != "":
		status(w, http.StatusUnprocessableEntity, "Invalid") // not served: the client lists instead
	case query.Get("watch") != "":
		_ = http.NewResponseController(w).Flush()
		select {
		case <-s.changed:
			s.mu.Lock()
			write(w, map[string]any{"type": "ADDED", "object": s.stored})
			s.mu.Unlock()
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		case <-r.Context().Done():
		}
	case strings.HasSuffix(r.URL.Path, "/secrets"):
		_, _ = io.WriteString(w, `{"kind":"SecretList","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":[]}`)
	default:
		status(w, http.StatusNotFound, "NotFound")
	}
}

func (s *secrets) create(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		status(w, http.StatusBadRequest, "BadRequest")
		return
	}
	object, _, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, nil) // the client chooses protobuf
	secret, ok := object.(*corev1.Secret)
	if err != nil || !ok {
		status(w, http.StatusBadRequest, "BadRequest")
		return
	}
	secret.TypeMeta = metav1.TypeMeta{Kind: "Secret", APIVersion: "v1"}
	secret.UID, secret.ResourceVersion = "u", "2"
	s.stored = secret
	w.WriteHeader(http.StatusCreated)
	write(w, secret)
	close(s.changed)
}

func write(w io.Writer, value any) {
	body, err := json.Marshal(value)
	if err != nil {
		panic(err) // net/http breaks the connection off, and the test fails
	}
	_, _ = w.Write(append(body, '\n'))
}

func status(w http.ResponseWriter, code int, reason string) {
	w.WriteHeader(code)
	_, _ = fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":%q,"code":%d}`, reason, code)
}

// program is a router that runs in this process.
type program struct {
	t     *testing.T
	redis *miniredis.Miniredis
	url   string
	stop  context.CancelFunc
	done  chan error
}

func start(t *testing.T, redis *miniredis.Miniredis, args ...string) *program {
	t.Helper()
	api := httptest.NewServer(&secrets{changed: make(chan struct{})})
	t.Cleanup(api.Close)
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, os.WriteFile(kubeconfig, fmt.Appendf(nil, `{"apiVersion":"v1","kind":"Config","current-context":"c",
		"clusters":[{"name":"c","cluster":{"server":%q}}],"contexts":[{"name":"c","context":{"cluster":"c","user":"u"}}],
		"users":[{"name":"u","user":{}}]}`, api.URL), 0o600))
	env := map[string]string{
		"REDIS_ADDR": redis.Addr(), "REDIS_PASSWORD_REQUIRED": "false", "WORKLOAD_MANAGER_URL": "http://127.0.0.1:1",
	}
	args = append([]string{
		"--port=0", "--debug", "--allow-loopback-endpoints", "--kubeconfig=" + kubeconfig, "--drain-delay=0s",
	}, args...)
	cfg, err := config.ParseRouter(args, func(name string) string { return env[name] })
	require.NoError(t, err)

	ctx, stop := context.WithCancel(t.Context())
	p := &program{t: t, redis: redis, stop: stop, done: make(chan error, 1)}
	address := make(chan net.Addr, 1)
	go func() { p.done <- Run(ctx, cfg, zap.NewNop(), func(a net.Addr) { address <- a }) }()
	select {
	case a := <-address:
		p.url = fmt.Sprintf("http://127.0.0.1:%d", a.(*net.TCPAddr).Port)
	case err := <-p.done:
		require.FailNow(t, "did not start", "%v", err)
	}
	t.Cleanup(stop)
	return p
}

// status of a GET; 0 if there was no answer.
func (p *program) status(path string, headers ...string) int {
	req, err := http.NewRequestWithContext(context.WithoutCancel(p.t.Context()), http.MethodGet, p.url+path, nil)
	if err != nil {
		return 0
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0
	}
	defer func() { _ = res.Body.Close() }()
	if _, err := io.Copy(io.Discard, res.Body); err != nil {
		return 0
	}
	return res.StatusCode
}

func (p *program) waitReady() {
	p.t.Helper()
	require.Eventually(p.t, func() bool { return p.status("/readyz") == http.StatusOK }, deadline, 10*time.Millisecond)
}

// row stores a session as an existing installation does.
func row(t *testing.T, redis *miniredis.Miniredis, endpoint string) {
	t.Helper()
	created := clock.RealClock{}.Now().Add(-time.Minute).UTC()
	require.NoError(t, redis.Set("session:"+sessionID, fmt.Sprintf(`{"kind":"Sandbox","sandboxId":"103ad0a0",`+
		`"sandboxNamespace":"default","name":"echo-0w6nv4p1","entryPoints":[{"path":"/","protocol":"HTTP","endpoint":%q}],`+
		`"sessionId":%q,"createdAt":%q,"expiresAt":%q,"idleTimeout":"15m0s","status":"ready"}`,
		endpoint, sessionID, created.Format(time.RFC3339Nano), created.Add(8*time.Hour).Format(time.RFC3339Nano))))
	_, err := redis.ZAdd("session:last_activity", 1, sessionID)
	require.NoError(t, err)
}

func TestTheProgramServesAndDrains(t *testing.T) {
	t.Parallel()
	redis := miniredis.RunT(t)
	reached, release := make(chan http.Header, 1), make(chan struct{})
	sandbox := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		reached <- r.Header
		<-release
	}))
	t.Cleanup(sandbox.Close)
	row(t, redis, sandbox.Listener.Addr().String())
	p := start(t, redis, "--drain-delay=300ms")
	p.waitReady()
	answered := make(chan int, 1)
	go func() { answered <- p.status(path, "x-agentcube-session-id", sessionID) }()
	header := <-reached
	assert.Regexp(t, `^Bearer [\w-]+\.[\w-]+\.[\w-]+$`, header.Get("Authorization"))

	p.stop()

	require.Eventually(t, func() bool { return p.status("/readyz") == http.StatusServiceUnavailable },
		deadline, time.Millisecond, "readiness fails while requests are still taken")
	assert.Empty(t, p.done, "a request is in flight")
	close(release)
	assert.Equal(t, http.StatusOK, <-answered)
	require.NoError(t, <-p.done)
	score, err := redis.ZScore("session:last_activity", sessionID)
	require.NoError(t, err)
	assert.Greater(t, score, 1.0, "activity is flushed before the store closes")
	assert.Zero(t, p.status("/livez"), "nobody listens any more")
}

func TestTheProgramAnswersWhileItWaitsForTheStore(t *testing.T) {
	t.Parallel()
	redis := miniredis.RunT(t)
	redis.SetError("LOADING")
	p := start(t, redis)
	assert.Equal(t, http.StatusOK, p.status("/livez"))
	assert.Equal(t, http.StatusServiceUnavailable, p.status("/readyz"))
	redis.SetError("")
	p.waitReady()
	p.stop()
	require.NoError(t, <-p.done)
}

func TestTheProgramStopsWhileItWaits(t *testing.T) {
	t.Parallel()
	redis := miniredis.RunT(t)
	redis.SetError("LOADING")
	p := start(t, redis)
	p.stop()
	require.NoError(t, <-p.done)
}

func TestATakenPortIsAnErrorAtOnce(t *testing.T) {
	t.Parallel()
	redis := miniredis.RunT(t)
	p := start(t, redis)
	port := p.url[strings.LastIndex(p.url, ":")+1:]
	cfg, err := config.ParseRouter([]string{"--port=" + port, "--kubeconfig=" + emptyKubeconfig(t)}, func(name string) string {
		return map[string]string{
			"REDIS_ADDR": redis.Addr(), "REDIS_PASSWORD_REQUIRED": "false", "WORKLOAD_MANAGER_URL": "http://127.0.0.1:1",
		}[name]
	})
	require.NoError(t, err)
	require.ErrorContains(t, Run(t.Context(), cfg, zap.NewNop(), nil), "address already in use")
	p.stop()
	require.NoError(t, <-p.done)
}

func emptyKubeconfig(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, os.WriteFile(file, []byte(`{"apiVersion":"v1","kind":"Config","current-context":"c",
		"clusters":[{"name":"c","cluster":{"server":"http://127.0.0.1:1"}}],
		"contexts":[{"name":"c","context":{"cluster":"c"}}]}`), 0o600))
	return file
}

func TestSandboxCAsAreReadAtTheStart(t *testing.T) {
	t.Parallel()
	none, err := sandboxCAs("")
	require.NoError(t, err)
	assert.Nil(t, none)
	_, err = sandboxCAs(filepath.Join(t.TempDir(), "absent"))
	require.ErrorContains(t, err, "--sandbox-ca")
	file := filepath.Join(t.TempDir(), "ca.pem")
	require.NoError(t, os.WriteFile(file, []byte("no certificate"), 0o600))
	_, err = sandboxCAs(file)
	require.ErrorContains(t, err, "holds no certificate")
}
