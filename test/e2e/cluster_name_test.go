package e2e

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/agentcube/agentcube/pkg/sandbox"
)

// nameBehaviours are about a name that passes to another object.
var nameBehaviours = []behaviour{
	{"a Sandbox made anew by someone else under a session's name ends the session and is not reached", takenOver(false)},
	{"a Sandbox made anew with the session's labels ends the session and is not reached", takenOver(true)},
}

// nameAloneBehaviours hold up the workload-manager.
var nameAloneBehaviours = []behaviour{
	{"a deletion that is noticed late does not end the session of an object made anew since", deletionSeenLate},
}

// takenOver deletes the Sandbox and makes one of its name in the next moment.
func takenOver(labelled bool) func(*testing.T, *env) {
	return func(t *testing.T, e *env) {
		m := cold.make(t, e)
		stranger := e.remake(t, m, labelled)
		e.gone(t, m.id)
		e.notFound(t, cold.route, "echo", m.id)
		e.running(t, m.object)
		e.notFound(t, cold.route, "echo", m.id)
		assert.Zero(t, e.Cluster.Node.Requests(e.namespace, m.object), "the stranger's pod was reached")
		kept, err := e.client.Resource(e.api.Sandboxes()).Namespace(e.namespace).Get(t.Context(), m.object, metav1.GetOptions{})
		require.NoError(t, err)
		assert.Equal(t, stranger.GetUID(), kept.GetUID())
		assert.Nil(t, kept.GetDeletionTimestamp())
	}
}

// remake deletes a session's Sandbox and makes another one of that name.
func (e *env) remake(t *testing.T, m made, labelled bool) *unstructured.Unstructured {
	t.Helper()
	sandboxes := e.client.Resource(e.api.Sandboxes()).Namespace(e.namespace)
	anew, err := sandboxes.Get(t.Context(), m.object, metav1.GetOptions{})
	require.NoError(t, err)
	labels := anew.GetLabels()
	require.Equal(t, m.id, labels[sandbox.LabelSessionID])
	anew.Object["metadata"] = map[string]any{"name": m.object, "namespace": e.namespace}
	delete(anew.Object, "status")
	if labelled {
		anew.SetLabels(labels)
	}
	require.NoError(t, sandboxes.Delete(t.Context(), m.object, metav1.DeleteOptions{}))
	anew, err = sandboxes.Create(t.Context(), anew, metav1.CreateOptions{})
	require.NoError(t, err)
	return anew
}

// running waits until a Sandbox is ready and its pod has an address.
func (e *env) running(t *testing.T, name string) {
	t.Helper()
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		u, err := e.client.Resource(e.api.Sandboxes()).Namespace(e.namespace).Get(t.Context(), name, metav1.GetOptions{})
		require.NoError(c, err)
		assert.Equal(c, "True", conditionOf(u, "Ready")["status"])
		ips, _, _ := unstructured.NestedStringSlice(u.Object, "status", "podIPs")
		assert.Equal(c, []string{e.Cluster.Node.Address(e.namespace, name)}, ips)
	}, settle, pollInterval)
}

// deletionSeenLate stops the manager while the object is deleted and made anew
// for the same session, with a row that says so, as another replica leaves it.
func deletionSeenLate(t *testing.T, e *env) {
	m := cold.make(t, e)
	old := m.echo(t, e, cold)
	require.NoError(t, e.Manager().Pause())
	t.Cleanup(func() { require.NoError(t, e.Manager().Resume()) })
	anew := e.remake(t, m, true)
	e.rename(t, m.id, string(anew.GetUID()))
	e.running(t, m.object)
	require.NoError(t, e.Manager().Resume())
	m.serves(t, e, cold, 2)
	assert.NotEqual(t, old.UID, m.echo(t, e, cold).UID)
	row, ok := e.row(t, m.id)
	require.True(t, ok)
	assert.Equal(t, string(anew.GetUID()), row["sandboxId"])
}

// rename makes a row name another object of the same name.
func (e *env) rename(t *testing.T, id, uid string) {
	t.Helper()
	row, ok := e.row(t, id)
	require.True(t, ok)
	require.Contains(t, row, "objectUid")
	row["sandboxId"], row["objectUid"] = uid, uid
	row["status"], row["entryPoints"] = "not-ready", nil
	text, err := json.Marshal(row)
	require.NoError(t, err)
	require.NoError(t, e.redis.Set(t.Context(), "session:"+id, text, 0).Err())
}
