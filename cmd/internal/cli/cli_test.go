package cli

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
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

// some makes three sessions: one ready, one without a place yet, one of another
// namespace.
func (b *bench) some(t *testing.T) {
	t.Helper()
	require.Zero(t, b.run(t.Context(), "", "sessions", "create", "codeinterpreter/python", "--metadata", `{"team":"a"}`).code)
	b.Advance(time.Minute)
	require.Zero(t, b.run(t.Context(), "", "sessions", "create", "ar/echo", "--ttl", "1h", "--wait=false").code)
	require.Zero(t, b.run(t.Context(), "", "sessions", "create", "ar/echo").code)
	b.Change(clienttest.ID(3), func(s *api.Session) {
		s.Workload.Namespace, s.Object.Namespace, s.OwnerID = "other", "other", "ann"
	})
	b.clock.SetTime(b.Now().Add(time.Minute))
	b.transcript.Reset()
}

func TestSessionsAreListed(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.some(t)
	for _, args := range [][]string{
		{},
		{"-A"},
		{"-o", "wide"},
		{"-o", "json", "--state", "ready"},
		{"-o", "yaml", "--template", "ar/echo"},
		{"-o", "name"},
		{"-o", "jsonpath={.items[*].sessionId}"},
		{"-o", "go-template={{len .items}}{{\"\\n\"}}"},
		{"--kind", "codeinterpreter", "--no-headers"},
		{"--limit", "1"},
		{"-A", "--owner", "ann"},
		{"-n", "empty"},
		{"-o", "xml"},
		{"--kind", "pod"},
		{"--limit", "-1"},
		{"extra"},
	} {
		b.run(t.Context(), "", append([]string{"sessions", "list"}, args...)...)
	}
	b.golden(t, "list")
}

func TestSessionsAreShown(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.some(t)
	b.End("gone", api.EndedIdle)
	for _, args := range [][]string{
		{clienttest.ID(1)},
		{"session/" + clienttest.ID(1), "-o", "yaml"},
		{clienttest.ID(1), "-o", "json"},
		{clienttest.ID(1), clienttest.ID(3), "-o", "wide"},
		{clienttest.ID(1), "-o", "jsonpath={.entryPoints[0].endpoint}"},
		{clienttest.ID(1), "gone"},
		{"never"},
		{"gone", "never"},
		{},
		{"a", "b", "-w"},
	} {
		b.run(t.Context(), "", append([]string{"sessions", "get"}, args...)...)
	}
	b.golden(t, "get")
}

func TestSessionsAreCreated(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.StartSlowly(2)
	for _, args := range [][]string{
		{"agentruntime/echo"},
		{"codeinterpreter/python", "--ttl", "10m", "-o", "name"},
		{"ci/python", "--idempotency-key", "k", "-o", "jsonpath={.sessionId}{\"\\n\"}"},
		{"ci/python", "--idempotency-key", "k", "-o", "yaml"},
		{"ci/python", "--idempotency-key", "k", "--ttl", "1h"},
		{"ar/echo", "--wait=false"},
		{"ar/none"},
		{"ar/echo", "-n", "other"},
		{"echo"},
		{"pod/echo"},
		{"ar/echo", "--metadata", "[]"},
		{"ar/echo", "--ttl", "soon"},
	} {
		b.run(t.Context(), "", append([]string{"sessions", "create"}, args...)...)
	}
	b.golden(t, "create")
}

// An existing installation knows no answer before the session is ready.
func TestASessionOfAnExistingInstallationIsCreated(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.Fault(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"kind":"Sandbox","sessionId":"`+clienttest.ID(5)+`","sandboxId":"u","sandboxName":"echo-1",`+
			`"entryPoints":[{"path":"/","protocol":"HTTP","endpoint":"10.0.0.7:8080"}]}`)
	})
	b.run(t.Context(), "", "sessions", "create", "ar/echo")
	b.Fault(func(w http.ResponseWriter, _ *http.Request) { http.NotFound(w, nil) })
	b.run(t.Context(), "", "sessions", "list")
	b.golden(t, "existing")
}

func TestSessionsAreExtendedAndDeleted(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.some(t)
	id := clienttest.ID(1)
	for _, args := range [][]string{
		{"extend", id, "--ttl", "2h"},
		{"extend", id, "--idle-timeout", "30m", "-o", "json"},
		{"extend", id},
		{"extend", id, "--ttl", "100h"},
		{"extend", id, "--ttl", "0"},
		{"extend"},
		{"delete", id, "session/" + clienttest.ID(2)},
		{"delete", id},
		{"delete", id, "--ignore-not-found"},
		{"extend", id, "--ttl", "1h"},
	} {
		b.run(t.Context(), "", append([]string{"sessions"}, args...)...)
	}
	b.golden(t, "extend")
}

func TestRequestsReachTheSandbox(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.some(t)
	b.End("gone", api.EndedDeletedInCluster)
	id := clienttest.ID(1)
	for _, args := range [][]string{
		{"ci/python"},
		{"ci/python", "/a%2Fb//c?q=1;2", "--session", id},
		{"ci/python", "/run", "--session", id, "-d", "print(1)"},
		{"ci/python", "/run", "--session", id, "-X", "PUT", "-d", "@-", "-H", "X-A: b"},
		{"ci/python", "/status/404", "--session", id},
		{"ci/python", "/status/503", "--session", id},
		{"ci/python", "/", "--session", "gone"},
		{"ar/echo", "/", "--session", id},
		{"ci/none"},
		{"ci/python", "/a b"},
		{"ci/python", "-H", "none"},
		{"ci/python", "-d", "@testdata/no such file"},
	} {
		b.run(t.Context(), "from standard input\n", append([]string{"invoke"}, args...)...)
	}
	b.golden(t, "invoke")
}

func TestTheHeadOfAnAnswerCanBePrinted(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := b.run(t.Context(), "", "invoke", "ci/python", "-i")
	assert.True(t, strings.HasPrefix(r.out, "HTTP/1.1 200 OK\n"), r.out)
	assert.Contains(t, r.out, "X-Agentcube-Session-Id: "+clienttest.ID(1)+"\n")
	assert.True(t, strings.HasSuffix(r.out, "\n\nGET /\n"), r.out)
}

func TestHeadersAndTheTokenAreSent(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.run(t.Context(), "", "invoke", "ci/python", "-H", "X-A: b", "-H", "X-A:c", "-d", "@testdata/agentruntimes.json")
	r := b.Requests()[0]
	assert.Equal(t, []string{"b", "c"}, r.Header.Values("X-A"))
	assert.Equal(t, "Bearer secret", r.Header.Get("Authorization"))
	assert.Equal(t, http.MethodPost, r.Method)
	assert.Positive(t, r.ContentLength)
}

func TestTemplatesAreListed(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, args := range [][]string{{}, {"-A", "-o", "wide"}, {"-o", "name"}, {"-o", "jsonpath={.items[*].metadata.name}{\"\\n\"}"}, {"-o", "yaml"}} {
		b.run(t.Context(), "", append([]string{"templates", "list"}, args...)...)
	}
	b.golden(t, "templates")
}

func TestErrorsSayWhatToDo(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, fault := range []http.HandlerFunc{
		clienttest.Refuse(401, api.CodeUnauthenticated, "unauthenticated"),
		clienttest.Refuse(403, api.CodeForbidden, "not the owner"),
		clienttest.Refuse(429, api.CodeQuotaExceeded, "pods: 10 of 10 used", "Retry-After", "60"),
		clienttest.Refuse(422, api.CodeRejectedByCluster, "denied by policy"),
		clienttest.Refuse(502, api.CodeSandboxFailed, "image cannot be pulled"),
		clienttest.Refuse(504, api.CodeCreateTimeout, "not ready in time: pod is pending"),
		clienttest.Refuse(503, api.CodeStoreUnavailable, "store is unavailable", "Retry-After", "60"),
		clienttest.Refuse(500, api.CodeInternal, "internal error"),
		clienttest.Refuse(409, "SESSION_ENDED", "the session of this key has ended"),
		func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html>") },
	} {
		b.Fault(fault)
		b.run(t.Context(), "", "sessions", "create", "ar/echo")
	}
	b.run(t.Context(), "", "sessions", "list", "--workload-manager-url", "services:8080")
	b.run(t.Context(), "", "sessions", "list", "--workload-manager-url", "")
	b.run(t.Context(), "", "sessions", "lst")
	b.run(t.Context(), "", "templates", "ls", "--all")
	b.golden(t, "errors")
}

// What client-go does without a kubeconfig depends on whether it runs in a pod.
func TestWithoutAClusterTheToolSaysSo(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	b := newBench(t)
	b.kubeconfig = filepath.Join(t.TempDir(), "empty")
	require.NoError(t, os.WriteFile(b.kubeconfig, nil, 0o600))
	const next = "Say which cluster is meant with --kubeconfig or --context.\n"
	r := b.run(t.Context(), "", "templates", "list")
	assert.Equal(t, exitFailed, r.code)
	assert.Equal(t, "error: there is no kubeconfig\n"+next, r.errOut)
	r = b.run(t.Context(), "", "sessions", "list", "--workload-manager-url", "")
	assert.Equal(t, exitFailed, r.code)
	assert.Contains(t, r.errOut, "there is no kubeconfig\nGive the URL of the service")
	assert.Zero(t, b.run(t.Context(), "", "templates", "list", "--server", b.cluster.URL).code, "a flag is enough")
	assert.Zero(t, b.run(t.Context(), "", "sessions", "list").code, "a URL is enough")
}

func TestShellsAreTold(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.some(t)
	for _, args := range [][]string{
		{"sessions", "get", ""},
		{"invoke", ""},
		{"sessions", "list", "--template", ""},
		{"sessions", "list", "-o", ""},
		{"invoke", "ci/python", "--session", ""},
	} {
		b.run(t.Context(), "", append([]string{"__complete"}, args...)...)
	}
	b.golden(t, "completion")
}

func TestTheFlagsOfAnUnfinishedLineCount(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.some(t)
	var out bytes.Buffer
	o := b.options(nil, &out, io.Discard)
	o.Env.WorkloadManagerURL = ""
	Run(t.Context(), o, []string{
		"__complete", "sessions", "delete", "--kubeconfig", b.kubeconfig, "--workload-manager-url", b.URL.String(), "",
	})
	assert.Contains(t, out.String(), clienttest.ID(1)+"\t")
}

// lines is what a watch writes; each line can be waited for.
type lines struct {
	mu    sync.Mutex
	text  bytes.Buffer
	grown chan struct{}
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case l.grown <- struct{}{}:
	default:
	}
	return l.text.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func TestAWatchPrintsWhatChanges(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.some(t)
	ctx, stop := context.WithCancel(t.Context())
	out := &lines{grown: make(chan struct{}, 1)}
	done := make(chan int, 1)
	go func() {
		done <- Run(ctx, b.options(nil, out, io.Discard), []string{"--kubeconfig", b.kubeconfig, "sessions", "list", "-w"})
	}()
	step := func(change func()) {
		<-out.grown
		require.Eventually(t, b.clock.HasWaiters, 10*time.Second, time.Millisecond)
		change()
		b.clock.Step(2 * time.Second)
	}
	step(func() { b.Change(clienttest.ID(2), func(s *api.Session) { s.State = api.StateReady }) })
	step(func() { b.End(clienttest.ID(1), api.EndedDeleted) })
	<-out.grown
	stop()
	require.Zero(t, <-done)
	var states []string
	for line := range strings.Lines(out.String()) {
		states = append(states, strings.Join(strings.Fields(line)[:2], " "))
	}
	assert.Equal(t, []string{
		"SESSION STATE", clienttest.ID(1) + " ready", clienttest.ID(2) + " creating",
		clienttest.ID(2) + " ready", clienttest.ID(1) + " gone",
	}, states)
}

func TestAWatchOfOneSessionEndsWithIt(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.some(t)
	id := clienttest.ID(1)
	reads := 0
	next := func(w http.ResponseWriter, r *http.Request) {
		reads++
		assert.Equal(t, map[bool]string{true: "", false: "30s"}[reads == 1], r.URL.Query().Get("wait"))
		state := map[bool]string{true: "ready", false: "suspended"}[reads < 3]
		_, _ = io.WriteString(w, `{"sessionId":"`+id+`","state":"`+state+`","object":{"kind":"Sandbox","namespace":"default","name":"x"}}`)
	}
	b.Fault(next)
	b.Fault(next)
	b.Fault(next, clienttest.Refuse(404, api.CodeSessionNotFound, "not found"))
	r := b.run(t.Context(), "", "sessions", "get", id, "-w")
	assert.Equal(t, 1, r.code)
	assert.Equal(t, 3, strings.Count(r.out, "\n"), "the header, ready, suspended:\n%s", r.out)
}

func TestWhatIsCutOffCanBeTakenUpAgain(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	ctx, stop := context.WithCancel(t.Context())
	b.Fault(func(http.ResponseWriter, *http.Request) {
		stop()
		panic(http.ErrAbortHandler)
	})
	r := b.run(ctx, "", "sessions", "create", "ar/echo", "--idempotency-key", "mine")
	assert.Equal(t, 1, r.code)
	assert.Contains(t, r.errOut, "--idempotency-key mine")
}

func TestAnAnswerThatCutsAWaitOffIsTold(t *testing.T) {
	t.Parallel()
	for what, why := range map[string]error{"not ready in time": context.DeadlineExceeded, "interrupted": context.Canceled} {
		answer := &client.Error{Status: 503, Code: api.CodeStoreUnavailable, Message: "store is unavailable", RequestID: "r"}
		err := &cutOffError{why: why, err: fmt.Errorf("creating a session: %w", answer), next: "Repeat it."}
		assert.Equal(t, what+": creating a session: store is unavailable (request r)\nRepeat it.", explain(err, "agentcube", "agentcube"))
		err.err = fmt.Errorf("creating a session: %w", why)
		assert.Equal(t, what+"\nRepeat it.", explain(err, "agentcube", "agentcube"), "there was no answer")
	}
}
