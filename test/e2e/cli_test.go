package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentcube/agentcube/test/cluster/node"
)

// cliBehaviours are about the command line tool.
var cliBehaviours = []behaviour{
	{"the command line tool creates a session, sends requests to its sandbox and ends it", cliSession},
	{"the command line tool says why there is no session, and what to do", cliRefusals},
	{"the command line tool lists templates", cliTemplates},
	{"the doctor finds nothing broken in an installation that is in order", cliDoctorHealthy},
	{"the doctor finds missing rights and a service that does not answer", cliDoctorBroken},
}

// said is what the tool did.
type said struct {
	code        int
	out, errOut string
}

// agentcube runs the command line tool as an administrator, in the test's
// namespace.
func (e *env) agentcube(t *testing.T, in string, args ...string) said {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), e.binary("agentcube"), append([]string{"-n", e.namespace}, args...)...)
	cmd.Env = []string{
		"KUBECONFIG=" + e.Cluster.Kubeconfig,
		"AGENTCUBE_WORKLOAD_MANAGER_URL=" + e.Manager().URL,
		"AGENTCUBE_ROUTER_URL=" + e.Router.URL,
		"HOME=" + t.TempDir(),
	}
	var out, errOut bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(in), &out, &errOut
	err := cmd.Run()
	if _, ended := errors.AsType[*exec.ExitError](err); !ended {
		require.NoError(t, err)
	}
	return said{cmd.ProcessState.ExitCode(), out.String(), errOut.String()}
}

func cliSession(t *testing.T, e *env) {
	e.apply(t, runtimeTemplate("echo"))
	made := e.agentcube(t, "", "sessions", "create", "agentruntime/echo", "--ttl", "1h", "-o", "name")
	require.Zero(t, made.code, made)
	id, isSession := strings.CutPrefix(strings.TrimSpace(made.out), "session/")
	require.True(t, isSession, made)
	row, ok := e.row(t, id)
	require.True(t, ok)
	assert.Equal(t, "ready", row["status"])

	sent := e.agentcube(t, "hello", "invoke", "ar/echo", "/a%2Fb//c?x=1;2", "--session", id, "-X", "PUT", "-H", "X-Mine: yes", "-d", "@-")
	require.Zero(t, sent.code, sent)
	var echo node.Echo
	require.NoError(t, json.Unmarshal([]byte(sent.out), &echo), sent)
	assert.Equal(t, http.MethodPut, echo.Method)
	assert.Equal(t, "/a%2Fb//c?x=1;2", echo.URI)
	assert.Equal(t, "hello", echo.Body)
	assert.Equal(t, []string{"yes"}, echo.Headers["X-Mine"])
	assert.Equal(t, 5, e.agentcube(t, "", "invoke", "ar/echo", "/status/503", "--session", id).code)

	assert.Equal(t, said{0, "session/" + id + " deleted\n", ""}, e.agentcube(t, "", "sessions", "delete", id))
	e.gone(t, id)
	after := e.agentcube(t, "", "invoke", "ar/echo", "/", "--session", id)
	assert.Equal(t, 1, after.code)
	assert.Contains(t, after.errOut, "agentcube sessions create")
	again := e.agentcube(t, "", "sessions", "delete", id)
	assert.Equal(t, 1, again.code)
	assert.Zero(t, e.agentcube(t, "", "sessions", "delete", id, "--ignore-not-found").code)

	// Without a session the router makes one, and the tool tells which.
	first := e.agentcube(t, "", "invoke", "ar/echo")
	require.Zero(t, first.code, first)
	id, _, _ = strings.Cut(strings.TrimPrefix(first.errOut, "session/"), " ")
	_, ok = e.row(t, id)
	assert.True(t, ok, first)
}

func cliRefusals(t *testing.T, e *env) {
	e.apply(t, runtimeTemplate("echo"))
	none := e.agentcube(t, "", "sessions", "create", "agentruntime/none")
	assert.Equal(t, 1, none.code)
	assert.Contains(t, none.errOut, "agent runtime not found")
	assert.Contains(t, none.errOut, "agentcube templates list")
	none = e.agentcube(t, "", "invoke", "ci/none")
	assert.Equal(t, 1, none.code)
	assert.Contains(t, none.errOut, "agentcube templates list")
	assert.Equal(t, 2, e.agentcube(t, "", "sessions", "create", "echo").code)
	away := e.agentcube(t, "", "sessions", "create", "ar/echo", "--workload-manager-url", "http://127.0.0.1:1")
	assert.Equal(t, 1, away.code)
	assert.Contains(t, away.errOut, "agentcube doctor")
	// The pods of a development cluster are not those of the services.
	away = e.agentcube(t, "", "sessions", "create", "ar/echo", "--workload-manager-url", "")
	assert.Equal(t, 1, away.code)
	assert.Contains(t, away.errOut, "no way to the workload-manager")
	e.nothingLeft(t)
}

func cliTemplates(t *testing.T, e *env) {
	e.apply(t, runtimeTemplate("echo"))
	e.apply(t, interpreterTemplate("python", 0))
	assert.Equal(t, said{0, "agentruntime/echo\ncodeinterpreter/python\n", ""}, e.agentcube(t, "", "templates", "list", "-o", "name"))
	table := e.agentcube(t, "", "templates", "list")
	require.Zero(t, table.code, table)
	lines := strings.Split(strings.TrimSpace(table.out), "\n")
	require.Len(t, lines, 3)
	assert.Equal(t, []string{"TEMPLATE", "READY", "WARM", "IDLE", "MAX", "AGE"}, strings.Fields(lines[0]))
	// The definitions of the cluster fill the defaults.
	assert.Equal(t, []string{"15m", "8h"}, strings.Fields(lines[1])[3:5])
	offered := e.agentcube(t, "", "__complete", "invoke", "")
	assert.Contains(t, offered.out, "agentruntime/echo\ncodeinterpreter/python\n")
}

// diagnosis is what the doctor prints as JSON.
type diagnosis struct {
	Items []struct {
		Check   string `json:"check"`
		Verdict string `json:"verdict"`
		Message string `json:"message"`
	} `json:"items"`
}

func cliDoctorHealthy(t *testing.T, e *env) {
	e.apply(t, runtimeTemplate("echo"))
	e.create(t, agentRuntime, "echo") // for the controller to look after
	told := e.agentcube(t, "", "doctor", "-o", "json")
	var found diagnosis
	require.NoError(t, json.Unmarshal([]byte(told.out), &found), told)
	var checked []string
	for _, f := range found.Items {
		checked = append(checked, f.Check)
		assert.Equal(t, "ok", f.Verdict, "%s: %s", f.Check, f.Message)
	}
	assert.Subset(t, checked, []string{
		"API server", "clock of the API server", "AgentCube's custom resources", "agent-sandbox's custom resources",
		"agent-sandbox's controller", "rights of the workload-manager", "rights of the router",
		"workload-manager", "store as the workload-manager sees it", "cluster as the workload-manager sees it",
		"identity-key as the workload-manager sees it", "resync as the workload-manager sees it",
		"clock of the workload-manager", "router", "store as the router sees it",
		"identity-key as the router sees it", "clock of the router",
	})
	assert.Zero(t, told.code)
	text := e.agentcube(t, "", "doctor")
	assert.Zero(t, text.code)
	assert.True(t, strings.HasSuffix(text.out, "\nNothing is broken.\n"), text.out)
}

func cliDoctorBroken(t *testing.T, e *env) {
	told := e.agentcube(t, "", "doctor", "--agentcube-namespace", e.namespace, "--router-url", "http://127.0.0.1:1")
	assert.Equal(t, 1, told.code)
	assert.Contains(t, told.out, "BROKEN  rights of the workload-manager: service account "+e.namespace+"/workload-manager may not ")
	assert.Contains(t, told.out, "kubectl apply -f manifests/base/workload-manager-rbac.yaml")
	assert.Contains(t, told.out, "BROKEN  router: it does not answer")
	assert.Contains(t, told.out, "ok      workload-manager: it is ready")
}
