package e2e

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/agentcube/agentcube/pkg/api"
	"github.com/agentcube/agentcube/pkg/sandbox"
	"github.com/agentcube/agentcube/test/cluster/node"
)

// waitBehaviours are about what a create that waits for its sandbox sees.
var waitBehaviours = []behaviour{
	{"a quota without room for the pod ends a create at once, with its message", bothWays(noRoomForPod)},
	{"a pod that ends ends the create at once, with its message", podEnds},
	{"a pod from the pool that ends ends the create at once", pooledPodEnds},
	{"metadata that the controller rejects ends a create at once, with its message", metadataRejected},
	{"a claim whose pool is deleted fails at once, or starts cold where that is served", poolDeleted},
	{"a create outlasts a pod that is slow to become ready", bothWays(slowlyReady)},
	{"a create outlasts an error of the controller that passes", passingError},
	{"a create outlasts an application that listens after it is ready", listensLate},
	{"a sandbox that never listens fails the create and goes", bothWays(neverListens)},
	{"a failed create deletes its claim, and no stranger's Sandbox of that name", strangerKept},
}

var podObjects = schema.GroupVersionResource{Version: "v1", Resource: "pods"}

func noRoomForPod(t *testing.T, e *env, w way) {
	e.quota(t, "pods")
	e.refusesCreates(t, podObjects, "exceeded quota")
	w.prepare(t, e, "echo")
	create := e.begin(t, w, "echo")
	message := fails(t, create.atOnce(t), http.StatusTooManyRequests, api.CodeQuotaExceeded)
	assert.Contains(t, message, "exceeded quota: full")
	e.clean(t)
}

func podEnds(t *testing.T, e *env) {
	for name, how := range map[string]struct{ annotation, value string }{
		"with a failure":      {node.Fail, "out of memory"},
		"with an exit code":   {node.Exit, "3"},
		"as if all were done": {node.Exit, "0"},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEnv(t, e.System)
			e.apply(t, runtimeTemplate("echo", how.annotation, how.value))
			create := e.begin(t, cold, "echo")
			message := fails(t, create.atOnce(t), http.StatusBadGateway, api.CodeSandboxFailed)
			assert.Contains(t, message, "sandbox failed: Pod", "the condition's reason")
			e.clean(t)
		})
	}
}

// pooledPodEnds lets the pod end while the claim that has taken it waits.
func pooledPodEnds(t *testing.T, e *env) {
	warm.prepare(t, e, "echo", node.NeverReady, "true")
	create := e.begin(t, warm, "echo")
	bound := e.bound(t)
	require.NoError(t, e.Cluster.Node.Fail(t.Context(), e.namespace, sandboxName(bound), "out of memory"))
	fails(t, create.atOnce(t), http.StatusBadGateway, api.CodeSandboxFailed)
	e.clean(t)
}

// bound waits until the one claim in the namespace has a Sandbox whose pod has
// an address.
func (e *env) bound(t *testing.T) *unstructured.Unstructured {
	t.Helper()
	var object *unstructured.Unstructured
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		found := e.objects(t)
		require.Len(c, found, 1)
		object = &found[0]
		assert.NotEmpty(c, e.Cluster.Node.Address(e.namespace, sandboxName(object)))
	}, settle, probeInterval)
	return object
}

// metadataRejected has somebody else put onto the claim what its controller
// does not take: we write none of it.
func metadataRejected(t *testing.T, e *env) {
	warm.prepare(t, e, "echo", node.NeverReady, "true")
	create := e.begin(t, warm, "echo")
	claim := e.object(t)
	_, err := e.client.Resource(e.api.Claims()).Namespace(e.namespace).Patch(t.Context(), claim.GetName(), types.MergePatchType,
		[]byte(`{"spec":{"additionalPodMetadata":{"labels":{"agents.x-k8s.io/mine":"yes"}}}}`), metav1.PatchOptions{})
	require.NoError(t, err)
	message := fails(t, create.atOnce(t), http.StatusBadGateway, api.CodeSandboxFailed)
	assert.Contains(t, message, "InvalidMetadata")
	assert.Contains(t, message, "agents.x-k8s.io")
	e.clean(t)
}

// poolDeleted keeps the claim without a sandbox by refusing every Sandbox, and
// keeps the pool from being made anew.
func poolDeleted(t *testing.T, e *env) {
	sandboxes := e.gate(t, e.api.Sandboxes())
	sandboxes.set(refuse(http.StatusForbidden, "no more of these"))
	warm.prepare(t, e, "echo")
	create := e.begin(t, warm, "echo")
	e.notReady(t, "no more of these")
	remake := e.gate(t, e.api.WarmPools())
	remake.set(refuse(http.StatusForbidden, "no new pool"))
	require.False(t, create.over(), "a refused Sandbox is no reason to give up")
	require.NoError(t, e.client.Resource(e.api.WarmPools()).Namespace(e.namespace).
		Delete(t.Context(), "echo", metav1.DeleteOptions{}))
	if e.api.Version == sandbox.V1Alpha1 {
		sandboxes.set(allow)
		require.Equal(t, http.StatusOK, create.wait(t).status, create.answer)
		return
	}
	message := fails(t, create.atOnce(t), http.StatusBadGateway, api.CodeSandboxFailed)
	assert.Contains(t, message, `SandboxWarmPool "echo" not found`)
	e.clean(t)
}

// slowlyReady makes the pod ready once the object has said that it is not.
func slowlyReady(t *testing.T, e *env, w way) {
	w.prepare(t, e, "echo", node.NeverReady, "true")
	create := e.begin(t, w, "echo")
	name := sandboxName(e.bound(t))
	e.notReady(t, "")
	require.False(t, create.over(), "it did not wait")
	require.NoError(t, e.Cluster.Node.SetReady(t.Context(), e.namespace, name, true))
	require.Equal(t, http.StatusOK, create.wait(t).status, create.answer)
	var created api.CreateResponse
	create.answer.decode(t, &created)
	assert.Equal(t, name, e.echoes(t, w.route, "echo", created.SessionID).Pod)
}

// passingError lets the controller fail to make the pod, in the words of a
// conflict, and then not any more.
func passingError(t *testing.T, e *env) {
	const conflict = "the object has been modified; please apply your changes to the latest version and try again"
	e.apply(t, runtimeTemplate("echo"))
	g := e.gate(t, podObjects)
	g.set(refuse(http.StatusConflict, conflict))
	create := e.begin(t, cold, "echo")
	e.notReady(t, "the object has been modified")
	require.False(t, create.over(), "it did not wait")
	g.set(allow)
	require.Equal(t, http.StatusOK, create.wait(t).status, create.answer)
}

func listensLate(t *testing.T, e *env) {
	e.apply(t, runtimeTemplate("echo", node.ListenDelay, "2s"))
	s := e.create(t, agentRuntime, "echo")
	assert.Equal(t, s.SandboxName, e.echoes(t, agentRuntime, "echo", s.SessionID).Pod)
}

func neverListens(t *testing.T, e *env, w way) {
	w.prepare(t, e, "echo", node.NeverListen, "true")
	create := e.begin(t, w, "echo")
	id := sessionID(e.object(t))
	fails(t, create.wait(t), http.StatusBadGateway, api.CodeSandboxUnreachable)
	e.gone(t, id)
	e.clean(t)
}

// strangerKept: a claim that took a Sandbox from the pool leaves its own name
// to whoever makes a Sandbox.
func strangerKept(t *testing.T, e *env) {
	warm.prepare(t, e, "echo", node.NeverListen, "true")
	// Taken from the pool, not started cold.
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		list, err := e.client.Resource(e.api.Sandboxes()).Namespace(e.namespace).List(t.Context(), metav1.ListOptions{})
		require.NoError(c, err)
		require.Len(c, list.Items, 1)
		assert.Equal(c, "True", conditionOf(&list.Items[0], "Ready")["status"])
	}, settle, probeInterval)
	create := e.begin(t, warm, "echo")
	claim := e.bound(t)
	require.NotEqual(t, claim.GetName(), sandboxName(claim))
	stranger := e.probe(t, e.api.Sandboxes())
	stranger.SetName(claim.GetName())
	sandboxes := e.client.Resource(e.api.Sandboxes()).Namespace(e.namespace)
	stranger, err := sandboxes.Create(t.Context(), stranger, metav1.CreateOptions{})
	require.NoError(t, err)
	fails(t, create.wait(t), http.StatusBadGateway, api.CodeSandboxUnreachable)
	e.gone(t, sessionID(claim))
	e.clean(t)
	kept, err := sandboxes.Get(t.Context(), stranger.GetName(), metav1.GetOptions{})
	require.NoError(t, err)
	assert.Equal(t, stranger.GetUID(), kept.GetUID())
	assert.Nil(t, kept.GetDeletionTimestamp())
}
