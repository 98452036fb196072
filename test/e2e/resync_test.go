package e2e

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/agentcube/agentcube/pkg/api"
	"github.com/agentcube/agentcube/pkg/sandbox"
	"github.com/agentcube/agentcube/test/system"
)

// resyncBehaviours are about what nobody saw happen. They stop the
// workload-manager or empty the store, so nothing may run beside them.
var resyncBehaviours = []behaviour{
	{"sandboxes deleted while no workload-manager runs end their sessions at its start", often(deletedUnseen)},
	{"an object of ours that no row names is removed, another's is not", often(orphanSwept)},
	{"a session's label copied by hand does not touch the session", often(labelCopied)},
	{"two installations on one cluster leave each other alone", often(twoInstallations)},
	{"a store that was emptied empties nothing until an operator confirms it", often(storeEmptied)},
}

// often runs a test with a workload-manager that resyncs every 2 s. Others
// must not have one: rows that they plant would be taken for what they are.
func often(test func(*testing.T, *env)) func(*testing.T, *env) {
	return func(t *testing.T, e *env) {
		restart := func(env ...string) {
			e.Manager().SetEnv(env...)
			require.NoError(t, e.Manager().Stop())
			require.NoError(t, e.Manager().Start(context.WithoutCancel(t.Context())))
		}
		restart("AGENTCUBE_RESYNC_INTERVAL=2s")
		t.Cleanup(func() { restart() })
		test(t, e)
	}
}

var configMaps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}

// installationRecord is the data of the ConfigMap of the installation in a
// namespace.
func (e *env) installationRecord(ctx context.Context, c require.TestingT, namespace string) map[string]string {
	u, err := e.client.Resource(configMaps).Namespace(namespace).Get(ctx, "agentcube-workload-manager", metav1.GetOptions{})
	require.NoError(c, err)
	data, _, err := unstructured.NestedStringMap(u.Object, "data")
	require.NoError(c, err)
	return data
}

// passes is how many passes of the resync a workload-manager has made.
func passes(t *testing.T, url, outcome string) int {
	t.Helper()
	a, err := send(t.Context(), http.MethodGet, url+"/metrics", nil, "")
	require.NoError(t, err)
	prefix := fmt.Sprintf("agentcube_resync_passes_total{outcome=%q} ", outcome)
	for line := range strings.Lines(a.body) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), prefix); ok {
			n, err := strconv.Atoi(value)
			require.NoError(t, err)
			return n
		}
	}
	t.Fatalf("no metric %s", prefix)
	return 0
}

// twoMorePasses waits until a pass that began after the call has ended.
func twoMorePasses(t *testing.T, url, outcome string) {
	t.Helper()
	before := passes(t, url, outcome)
	require.Eventually(t, func() bool { return passes(t, url, outcome) >= before+2 }, settle, 50*time.Millisecond)
}

// sandboxOf returns a session's Sandbox.
func (e *env) sandboxOf(t *testing.T, s api.CreateResponse) *unstructured.Unstructured {
	t.Helper()
	u, err := e.client.Resource(e.api.Sandboxes()).Namespace(e.namespace).Get(t.Context(), s.SandboxName, metav1.GetOptions{})
	require.NoError(t, err)
	return u
}

// copyOf makes a copy of a session's Sandbox, with labels changed; an empty
// value takes one off.
func (e *env) copyOf(t *testing.T, s api.CreateResponse, name string, labels map[string]string) {
	t.Helper()
	u := e.sandboxOf(t, s)
	all := u.GetLabels()
	for key, value := range labels {
		if all[key] = value; value == "" {
			delete(all, key)
		}
	}
	u.Object["metadata"] = map[string]any{"name": name, "namespace": e.namespace}
	u.SetLabels(all)
	delete(u.Object, "status")
	_, err := e.client.Resource(e.api.Sandboxes()).Namespace(e.namespace).Create(t.Context(), u, metav1.CreateOptions{})
	require.NoError(t, err)
}

// names of the objects in the test's namespace that carry a session.
func (e *env) names(t *testing.T) []string {
	t.Helper()
	names := []string{}
	for _, o := range e.objects(t) {
		names = append(names, o.GetName())
	}
	return names
}

func deletedUnseen(t *testing.T, e *env) {
	e.apply(t, runtimeTemplate("echo"))
	e.apply(t, interpreterTemplate("warm", 1))
	dead, alive := e.create(t, agentRuntime, "echo"), e.create(t, agentRuntime, "echo")
	claim := e.create(t, codeInterpreter, "warm")
	require.NoError(t, e.Manager().Stop())
	require.NoError(t, e.client.Resource(e.api.Sandboxes()).Namespace(e.namespace).
		Delete(t.Context(), dead.SandboxName, metav1.DeleteOptions{}))
	require.NoError(t, e.client.Resource(e.api.Claims()).Namespace(e.namespace).
		Delete(t.Context(), claim.SandboxName, metav1.DeleteOptions{}))
	require.Eventually(t, func() bool { return len(e.objects(t)) == 1 }, settle, 20*time.Millisecond)
	for _, s := range []api.CreateResponse{dead, claim} {
		_, there := e.row(t, s.SessionID)
		require.True(t, there, "nobody has seen the deletion, so something is tested")
	}
	require.NoError(t, e.Manager().Start(t.Context()))
	e.gone(t, dead.SessionID)
	e.gone(t, claim.SessionID)
	e.echoes(t, agentRuntime, "echo", alive.SessionID)
}

func orphanSwept(t *testing.T, e *env) {
	e.apply(t, runtimeTemplate("echo"))
	s := e.create(t, agentRuntime, "echo")
	id := uuid.NewString
	e.copyOf(t, s, "orphan", map[string]string{sandbox.LabelSessionID: id()})
	e.copyOf(t, s, "foreign", map[string]string{sandbox.LabelSessionID: id(), sandbox.LabelInstallation: id()})
	e.copyOf(t, s, "unmarked", map[string]string{sandbox.LabelSessionID: id(), sandbox.LabelInstallation: ""})
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		assert.NotContains(c, e.names(t), "orphan")
	}, settle, 50*time.Millisecond)
	twoMorePasses(t, e.Manager().URL, "done")
	assert.ElementsMatch(t, []string{"foreign", "unmarked", s.SandboxName}, e.names(t))
	e.echoes(t, agentRuntime, "echo", s.SessionID)
}

func labelCopied(t *testing.T, e *env) {
	e.apply(t, runtimeTemplate("echo"))
	s := e.create(t, agentRuntime, "echo")
	before, _ := e.row(t, s.SessionID)
	e.copyOf(t, s, "copy", nil)
	e.copyOf(t, s, "foreign", map[string]string{sandbox.LabelInstallation: uuid.NewString()})
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		assert.NotContains(c, e.names(t), "copy")
	}, settle, 50*time.Millisecond)
	twoMorePasses(t, e.Manager().URL, "done")
	assert.ElementsMatch(t, []string{"foreign", s.SandboxName}, e.names(t))
	after, _ := e.row(t, s.SessionID)
	assert.Equal(t, before, after)
	assert.Equal(t, s.SandboxName, e.echoes(t, agentRuntime, "echo", s.SessionID).Pod)
}

func twoInstallations(t *testing.T, e *env) {
	e.apply(t, runtimeTemplate("echo"))
	first := e.create(t, agentRuntime, "echo")
	another := e.site(t)
	another.addManager(t, "--resync-interval=2s")
	url := another.Manager().URL
	a, err := send(t.Context(), http.MethodPost, url+agentRuntime, nil, fmt.Sprintf(`{"namespace":%q,"name":"echo"}`, e.namespace))
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, a.status, a)
	var second api.CreateResponse
	a.decode(t, &second)
	twoMorePasses(t, url, "done")
	twoMorePasses(t, e.Manager().URL, "done")
	assert.ElementsMatch(t, []string{first.SandboxName, second.SandboxName}, e.names(t))
	mine := e.installationRecord(t.Context(), t, system.Namespace)["installation"]
	other := e.installationRecord(t.Context(), t, e.namespace)["installation"]
	assert.NotEqual(t, mine, other)
	assert.Equal(t, mine, e.sandboxOf(t, first).GetLabels()[sandbox.LabelInstallation])
	assert.Equal(t, other, e.sandboxOf(t, second).GetLabels()[sandbox.LabelInstallation])
	e.echoes(t, agentRuntime, "echo", first.SessionID)
}

func storeEmptied(t *testing.T, e *env) {
	const sessions = 22 // more than may go without leave
	e.apply(t, runtimeTemplate("echo"))
	for range sessions {
		e.create(t, agentRuntime, "echo")
	}
	id := e.installationRecord(t.Context(), t, system.Namespace)["installation"]
	require.NoError(t, e.redis.FlushAll(t.Context()).Err())
	// A restart must not make another installation out of it.
	require.NoError(t, e.Manager().Stop())
	require.NoError(t, e.Manager().Start(t.Context()))
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		assert.Equal(c, "store-without-id", e.installationRecord(t.Context(), c, system.Namespace)["brake-reason"])
	}, settle, 50*time.Millisecond)
	late := e.create(t, agentRuntime, "echo")
	assert.Equal(t, id, e.sandboxOf(t, late).GetLabels()[sandbox.LabelInstallation])
	twoMorePasses(t, e.Manager().URL, "held")
	assert.Len(t, e.objects(t), sessions+1)
	health, err := send(t.Context(), http.MethodGet, e.Manager().URL+"/readyz", nil, "")
	require.NoError(t, err)
	assert.Equal(t, http.StatusOK, health.status)
	assert.Contains(t, health.body, `"resync":"failing"`)

	e.confirm(t)
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		assert.Equal(c, []string{late.SandboxName}, e.names(t))
		assert.NotContains(c, e.installationRecord(t.Context(), c, system.Namespace), "brake-reason")
	}, settle, 50*time.Millisecond)
	stored, err := e.redis.Get(t.Context(), "agentcube:installation").Result()
	require.NoError(t, err)
	assert.Equal(t, id, stored)
	e.echoes(t, agentRuntime, "echo", late.SessionID)
}

// confirm does what the line says that the ConfigMap gives to operators.
func (e *env) confirm(t *testing.T) {
	t.Helper()
	line := strings.Fields(e.installationRecord(t.Context(), t, system.Namespace)["brake-confirm-with"])
	require.Len(t, line, 8)
	require.Equal(t, []string{"kubectl", "-n", system.Namespace, "annotate", "--overwrite", "configmap", "agentcube-workload-manager"}, line[:7])
	key, value, ok := strings.Cut(line[7], "=")
	require.True(t, ok)
	patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, key, value)
	_, err := e.client.Resource(configMaps).Namespace(system.Namespace).
		Patch(t.Context(), "agentcube-workload-manager", types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	require.NoError(t, err)
}
