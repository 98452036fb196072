package e2e

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/agentcube/agentcube/pkg/api"
	"github.com/agentcube/agentcube/test/cluster/node"
)

// clusterBehaviours are about what happens to the objects behind sessions.
var clusterBehaviours = []behaviour{
	{"a Sandbox deleted with kubectl ends its session and no other", sandboxDeleted},
	{"a SandboxClaim deleted with kubectl ends its session and no other", claimDeleted},
	{"a CodeInterpreter that is deleted takes the sessions of its claims along", interpreterDeleted},
	{"a claim that binds another sandbox keeps its session, in the next generation", sandboxReplaced},
	{"a Sandbox without our label is no business of ours", strangerDeleted},
}

var interpreters = schema.GroupVersionResource{Group: "runtime.agentcube.volcano.sh", Version: "v1alpha1", Resource: "codeinterpreters"}

// notFound wants the router to say that the session is gone.
func (e *env) notFound(t *testing.T, route, name, id string) {
	t.Helper()
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		a := e.invoke(t, route, name, id, "/x")
		var told api.RouterError
		a.decode(t, &told)
		assert.Equal(c, http.StatusNotFound, a.status, a)
		assert.Equal(c, api.CodeSessionNotFound, told.Code)
	}, settle, 10*time.Millisecond)
}

// echoes wants an answer of the sandbox.
func (e *env) echoes(t *testing.T, route, name, id string) node.Echo {
	t.Helper()
	a := e.invoke(t, route, name, id, "/x")
	require.Equal(t, http.StatusOK, a.status, a)
	var echo node.Echo
	a.decode(t, &echo)
	return echo
}

func sandboxDeleted(t *testing.T, e *env) {
	e.apply(t, runtimeTemplate("echo"))
	dead, alive := e.create(t, agentRuntime, "echo"), e.create(t, agentRuntime, "echo")
	assert.Equal(t, dead.SandboxName, e.echoes(t, agentRuntime, "echo", dead.SessionID).Pod)
	require.NoError(t, e.client.Resource(e.api.Sandboxes()).Namespace(e.namespace).
		Delete(t.Context(), dead.SandboxName, metav1.DeleteOptions{}))
	e.notFound(t, agentRuntime, "echo", dead.SessionID)
	e.gone(t, dead.SessionID)
	assert.Equal(t, alive.SandboxName, e.echoes(t, agentRuntime, "echo", alive.SessionID).Pod)
}

func claimDeleted(t *testing.T, e *env) {
	e.apply(t, interpreterTemplate("warm", 2))
	dead, alive := e.create(t, codeInterpreter, "warm"), e.create(t, codeInterpreter, "warm")
	require.Equal(t, "SandboxClaim", dead.Kind)
	e.echoes(t, codeInterpreter, "warm", dead.SessionID)
	require.NoError(t, e.client.Resource(e.api.Claims()).Namespace(e.namespace).
		Delete(t.Context(), dead.SandboxName, metav1.DeleteOptions{}))
	e.notFound(t, codeInterpreter, "warm", dead.SessionID)
	e.gone(t, dead.SessionID)
	e.echoes(t, codeInterpreter, "warm", alive.SessionID)
}

func interpreterDeleted(t *testing.T, e *env) {
	e.apply(t, interpreterTemplate("warm", 2))
	a, b := e.create(t, codeInterpreter, "warm"), e.create(t, codeInterpreter, "warm")
	require.NoError(t, e.client.Resource(interpreters).Namespace(e.namespace).
		Delete(t.Context(), "warm", metav1.DeleteOptions{}))
	for _, s := range []api.CreateResponse{a, b} {
		e.notFound(t, codeInterpreter, "warm", s.SessionID)
		e.gone(t, s.SessionID)
	}
	e.nothingLeft(t)
}

func sandboxReplaced(t *testing.T, e *env) {
	e.apply(t, interpreterTemplate("warm", 2))
	s := e.create(t, codeInterpreter, "warm")
	first := e.echoes(t, codeInterpreter, "warm", s.SessionID)
	row, ok := e.row(t, s.SessionID)
	require.True(t, ok)
	adopted, _ := row["sandboxName"].(string)
	require.NotEmpty(t, adopted)
	require.NoError(t, e.client.Resource(e.api.Sandboxes()).Namespace(e.namespace).
		Delete(t.Context(), adopted, metav1.DeleteOptions{}))
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		row, ok := e.row(t, s.SessionID)
		require.True(t, ok, "the session ended")
		assert.Equal(c, "ready", row["status"])
		assert.NotEqual(c, s.SandboxID, row["sandboxId"])
	}, settle, 20*time.Millisecond)
	a := e.invoke(t, codeInterpreter, "warm", s.SessionID, "/x")
	require.Equal(t, http.StatusOK, a.status, a)
	assert.Equal(t, "2", a.header.Get(api.HeaderSessionGeneration))
	var second node.Echo
	a.decode(t, &second)
	assert.NotEqual(t, first.UID, second.UID, "the same pod answers")
}

func strangerDeleted(t *testing.T, e *env) {
	e.apply(t, runtimeTemplate("echo"))
	s := e.create(t, agentRuntime, "echo")
	own, err := e.client.Resource(e.api.Sandboxes()).Namespace(e.namespace).Get(t.Context(), s.SandboxName, metav1.GetOptions{})
	require.NoError(t, err)
	stranger := own.DeepCopy()
	stranger.Object["metadata"] = map[string]any{"name": "stranger", "namespace": e.namespace}
	delete(stranger.Object, "status")
	sandboxes := e.client.Resource(e.api.Sandboxes()).Namespace(e.namespace)
	_, err = sandboxes.Create(t.Context(), stranger, metav1.CreateOptions{})
	require.NoError(t, err)
	require.NoError(t, sandboxes.Delete(t.Context(), "stranger", metav1.DeleteOptions{}))
	e.echoes(t, agentRuntime, "echo", s.SessionID)
}
