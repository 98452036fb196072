package e2e

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentcube/agentcube/pkg/api"
	"github.com/agentcube/agentcube/test/cluster/node"
)

// plant stores a changed copy of a session's row under an id of its own, and
// returns that. The copy names an object that does not exist and is in no
// index, so that nobody but the router ever looks at it.
func (e *env) plant(t *testing.T, id string, change func(row map[string]any)) string {
	t.Helper()
	row, ok := e.row(t, id)
	require.True(t, ok)
	planted := uuid.NewString()
	row["sessionId"], row["name"] = planted, "planted-"+planted[:8]
	delete(row, "objectUid")
	change(row)
	text, err := json.Marshal(row)
	require.NoError(t, err)
	require.NoError(t, e.redis.Set(t.Context(), "session:"+planted, text, 0).Err())
	t.Cleanup(func() {
		assert.NoError(t, e.redis.Del(context.WithoutCancel(t.Context()), "session:"+planted).Err())
	})
	return planted
}

// pointedAt is a change of a row that makes its sandbox answer at an endpoint.
func pointedAt(endpoint string) func(map[string]any) {
	return func(row map[string]any) {
		row["entryPoints"] = []any{map[string]any{"path": "/", "protocol": "HTTP", "endpoint": endpoint}}
	}
}

// status is a change of a row, to a state without entry points.
func status(state string) func(map[string]any) {
	return func(row map[string]any) { row["status"], row["entryPoints"] = state, nil }
}

// comesBack wants a Retry-After of whole seconds.
func comesBack(t *testing.T, a answer) {
	t.Helper()
	seconds, err := strconv.Atoi(a.header.Get("Retry-After"))
	if assert.NoError(t, err, "Retry-After of %s", a) {
		assert.Positive(t, seconds)
	}
}

func notUsable(t *testing.T, e *env) {
	e.apply(t, runtimeTemplate("echo"))
	s := e.create(t, agentRuntime, "echo")
	for state, code := range map[string]string{
		"creating":  api.CodeSandboxNotReady,
		"not-ready": api.CodeSandboxNotReady,
		"suspended": api.CodeSessionSuspended,
	} {
		id := e.plant(t, s.SessionID, status(state))
		a := e.invoke(t, agentRuntime, "echo", id, "/x")
		routerRefuses(t, a, http.StatusServiceUnavailable, code)
		comesBack(t, a)
		namesSession(t, a, id)
	}
}

func overRows(t *testing.T, e *env) {
	e.apply(t, runtimeTemplate("echo"))
	s := e.create(t, agentRuntime, "echo")
	for name, change := range map[string]func(map[string]any){
		"deleting": status("deleting"),
		"expired": func(row map[string]any) {
			row["expiresAt"] = time.Now().Add(-time.Second).UTC().Format(time.RFC3339Nano)
		},
	} {
		id := e.plant(t, s.SessionID, change)
		a := e.invoke(t, agentRuntime, "echo", id, "/x")
		told := routerRefuses(t, a, http.StatusNotFound, api.CodeSessionNotFound)
		assert.Contains(t, told.Error, id, name)
		namesSession(t, a, id)
	}
	unlimited := e.plant(t, s.SessionID, func(row map[string]any) { row["expiresAt"] = "0001-01-01T00:00:00Z" })
	e.echoes(t, agentRuntime, "echo", unlimited)
}

func notAnswering(t *testing.T, e *env) {
	// The address of a pod that is gone stays silent for as long as the test
	// needs it.
	e.apply(t, runtimeTemplate("echo", node.AtEnd, string(node.Silent), node.SilentFor, "60s"))
	s := e.create(t, agentRuntime, "echo")
	gone := e.create(t, agentRuntime, "echo")
	require.Equal(t, http.StatusOK, e.delete(t, gone.SessionID).status)
	e.podGone(t, gone.SandboxName)

	for name, c := range map[string]struct {
		change func(map[string]any)
		status int
		code   string
	}{
		"refuses":        {pointedAt(closedPort(t)), http.StatusBadGateway, api.CodeSandboxUnreachable},
		"is silent":      {pointedAt(gone.EntryPoints[0].Endpoint), http.StatusGatewayTimeout, api.CodeSandboxTimeout},
		"hangs up":       {pointedAt(listens(t, func(c net.Conn) { _ = c.Close() })), http.StatusBadGateway, api.CodeSandboxUnreachable},
		"speaks no HTTP": {pointedAt(listens(t, speaksNonsense)), http.StatusBadGateway, api.CodeSandboxUnreachable},
		"is no address":  {pointedAt("echo.default.svc:8080"), http.StatusBadGateway, api.CodeSandboxUnreachable},
		"is no pod":      {pointedAt("169.254.169.254:80"), http.StatusBadGateway, api.CodeSandboxUnreachable},
		"has no way in": {
			func(row map[string]any) { row["entryPoints"] = nil }, http.StatusBadGateway, api.CodeSandboxUnreachable,
		},
	} {
		id := e.plant(t, s.SessionID, c.change)
		a := e.invoke(t, agentRuntime, "echo", id, "/x")
		t.Log(name)
		told := routerRefuses(t, a, c.status, c.code)
		assert.NotContains(t, told.Error, "169.254.169.254", "internal detail")
		namesSession(t, a, id)
		activity := e.indexed(t, id)
		assert.Empty(t, activity, "%s: the router made an index entry", name)
	}
}

// closedPort is an address that refuses.
func closedPort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, l.Close())
	return l.Addr().String()
}

// listens is an address whose connections are handled by the function.
func listens(t *testing.T, handle func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return // closed at the end of the test
			}
			handle(c)
		}
	}()
	t.Cleanup(func() {
		_ = l.Close()
		<-done
	})
	return l.Addr().String()
}

func speaksNonsense(c net.Conn) {
	_, _ = c.Write([]byte("220 mail.example ESMTP\r\n")) // the router may be gone
	_ = c.Close()
}
