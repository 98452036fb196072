package e2e

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentcube/agentcube/pkg/api"
)

// cliSessionBehaviours are about what the command line tool does with sessions
// that there are.
var cliSessionBehaviours = []behaviour{
	{"the command line tool finds, inspects and extends sessions, and tells why one ended", cliFindAndExtend},
}

func cliFindAndExtend(t *testing.T, e *env) {
	e.apply(t, runtimeTemplate("echo"))
	e.apply(t, interpreterTemplate("warm", 1))
	first := e.create(t, agentRuntime, "echo").SessionID
	second := e.create(t, codeInterpreter, "warm").SessionID

	listed := e.agentcube(t, "", "sessions", "list", "-o", "name")
	assert.Equal(t, said{0, "session/" + first + "\nsession/" + second + "\n", ""}, listed)
	listed = e.agentcube(t, "", "sessions", "list", "--template", "codeinterpreter/warm", "--state", "ready", "-o", "name")
	assert.Equal(t, said{0, "session/" + second + "\n", ""}, listed)
	wide := e.agentcube(t, "", "sessions", "list", "-o", "wide")
	require.Zero(t, wide.code, wide)
	assert.Contains(t, wide.out, "agentruntime/echo")
	assert.Contains(t, e.agentcube(t, "", "sessions", "list", "-A", "--limit", "1000").out, e.namespace+" ")

	read := func() (s api.Session) {
		got := e.agentcube(t, "", "sessions", "get", first, "-o", "json")
		require.Zero(t, got.code, got)
		require.NoError(t, json.Unmarshal([]byte(got.out), &s))
		return s
	}
	before := read()
	assert.Equal(t, "ready", before.State)
	assert.Equal(t, api.WorkloadRef{Kind: "AgentRuntime", Namespace: e.namespace, Name: "echo"}, before.Workload)

	require.Zero(t, e.agentcube(t, "", "sessions", "extend", first, "--ttl", "1h").code)
	after := read()
	assert.WithinDuration(t, time.Now().Add(time.Hour), after.ExpiresAt, time.Minute)
	assert.Equal(t, before.IdleTimeout, after.IdleTimeout)
	require.Zero(t, e.agentcube(t, "", "sessions", "extend", first, "--idle-timeout", "30m").code)
	assert.Equal(t, int64(1800), read().IdleTimeout)
	assert.Equal(t, said{0, "session/" + first + " kept alive\n", ""}, e.agentcube(t, "", "sessions", "extend", first))

	require.Zero(t, e.agentcube(t, "", "sessions", "delete", first, second).code)
	e.nothingLeft(t)
	gone := e.agentcube(t, "", "sessions", "get", first)
	assert.Equal(t, 1, gone.code)
	assert.Contains(t, gone.errOut, "the session has ended: it was deleted")
	gone = e.agentcube(t, "", "invoke", "ar/echo", "--session", first)
	assert.Equal(t, 1, gone.code)
	assert.Contains(t, gone.errOut, "the session has ended: it was deleted")
	assert.Contains(t, e.agentcube(t, "", "sessions", "list").errOut, "No sessions found in namespace "+e.namespace)
}
