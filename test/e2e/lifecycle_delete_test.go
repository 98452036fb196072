package e2e

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/agentcube/agentcube/pkg/api"
)

// deleteBehaviours are about DELETE in every state of the sandbox.
var deleteBehaviours = []behaviour{
	{"a session can be deleted while its sandbox is not ready", bothWays(deletedNotReady)},
	{"a session can be deleted when its sandbox has failed", bothWays(deletedFailed)},
	{"a session can be deleted while its object is being deleted", bothWays(deletedTwice)},
	{"a session can be deleted when its object is gone", bothWays(deletedGone)},
}

// made is a session and what serves it.
type made struct {
	id, object, pod string
}

// make creates a session of a new workload whose pods bear the annotations.
func (w way) make(t *testing.T, e *env, annotations ...string) made {
	t.Helper()
	w.prepare(t, e, "echo", annotations...)
	s := e.create(t, w.route, "echo")
	return made{id: s.SessionID, object: s.SandboxName, pod: e.echoes(t, w.route, "echo", s.SessionID).Pod}
}

// deletes wants a DELETE to be answered with success, and nothing to be left.
func (e *env) deletes(t *testing.T, id string) {
	t.Helper()
	a := e.delete(t, id)
	require.Equal(t, http.StatusOK, a.status, a)
	var told api.DeleteResponse
	a.decode(t, &told)
	assert.Equal(t, "Sandbox deleted successfully", told.Message)
	_, there := e.row(t, id)
	assert.False(t, there, "the row is there after a DELETE that succeeded")
	assert.Empty(t, e.indexed(t, id))
	e.clean(t)
	fails(t, e.delete(t, id), http.StatusNotFound, api.CodeSessionNotFound)
}

func deletedNotReady(t *testing.T, e *env, w way) {
	m := w.make(t, e)
	require.NoError(t, e.Cluster.Node.SetReady(t.Context(), e.namespace, m.pod, false))
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		row, ok := e.row(t, m.id)
		require.True(c, ok)
		assert.Equal(c, "not-ready", row["status"])
	}, settle, probeInterval)
	e.deletes(t, m.id)
}

// deletedFailed: a session whose pod has failed is ended by itself, unless its
// object cannot be deleted just then.
func deletedFailed(t *testing.T, e *env, w way) {
	m := w.make(t, e)
	g := e.gate(t, w.objects(e), "DELETE")
	g.set(refuse(http.StatusForbidden, "not just now"))
	require.NoError(t, e.Cluster.Node.Fail(t.Context(), e.namespace, m.pod, "out of memory"))
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		row, ok := e.row(t, m.id)
		require.True(c, ok)
		assert.Equal(c, "deleting", row["status"])
	}, settle, probeInterval)
	require.Len(t, e.objects(t), 1)
	g.set(allow)
	e.deletes(t, m.id)
}

// The rows of sessions whose object is deleted go by themselves. A row that
// another session's has become, which no event speaks of, stands for one whose
// event was lost.

func deletedTwice(t *testing.T, e *env, w way) {
	m := w.make(t, e)
	kept := e.snapshot(t, m.id)
	twin := e.unlabelledTwin(t, w.objects(e), m.object)
	e.deletes(t, m.id)
	id := uuid.NewString()
	objects := e.client.Resource(w.objects(e)).Namespace(e.namespace)
	require.NoError(t, objects.Delete(t.Context(), twin.GetName(), metav1.DeleteOptions{}))
	kept.putBack(t, m.id, id, kept.uid, string(twin.GetUID()), m.object, twin.GetName())
	e.deletes(t, id)
	object, err := objects.Get(t.Context(), twin.GetName(), metav1.GetOptions{})
	require.NoError(t, err, "the finalizer is not ours to remove")
	assert.NotNil(t, object.GetDeletionTimestamp())
}

func deletedGone(t *testing.T, e *env, w way) {
	m := w.make(t, e)
	kept := e.snapshot(t, m.id)
	e.deleteObject(t, w, m)
	e.gone(t, m.id)
	id := uuid.NewString()
	kept.putBack(t, m.id, id)
	e.deletes(t, id)
}

// unlabelledTwin makes a copy of an object that nobody takes for a session's,
// and that stays when it is deleted.
func (e *env) unlabelledTwin(t *testing.T, resource schema.GroupVersionResource, name string) *unstructured.Unstructured {
	t.Helper()
	objects := e.client.Resource(resource).Namespace(e.namespace)
	object, err := objects.Get(t.Context(), name, metav1.GetOptions{})
	require.NoError(t, err)
	twin := &unstructured.Unstructured{Object: map[string]any{"spec": object.Object["spec"]}}
	twin.SetGroupVersionKind(object.GroupVersionKind())
	twin.SetName(name + "-twin")
	twin, err = objects.Create(t.Context(), twin, metav1.CreateOptions{})
	require.NoError(t, err)
	e.holdBack(t, resource, twin.GetName())
	return twin
}

func (e *env) deleteObject(t *testing.T, w way, m made) {
	t.Helper()
	require.NoError(t, e.client.Resource(w.objects(e)).Namespace(e.namespace).
		Delete(t.Context(), m.object, metav1.DeleteOptions{}))
}

// kept is what the store says of a session.
type kept struct {
	redis redis.UniversalClient
	row   string
	// uid of the object.
	uid     string
	entries map[string]float64
}

// snapshot reads a session's row and index entries.
func (e *env) snapshot(t *testing.T, id string) kept {
	t.Helper()
	row, err := e.redis.Get(t.Context(), "session:"+id).Result()
	require.NoError(t, err)
	var object struct {
		UID string `json:"objectUid"`
	}
	require.NoError(t, json.Unmarshal([]byte(row), &object))
	k := kept{redis: e.redis, row: row, uid: object.UID, entries: map[string]float64{}}
	for _, key := range e.indexed(t, id) {
		k.entries[key], err = e.redis.ZScore(t.Context(), key, id).Result()
		require.NoError(t, err)
	}
	return k
}

// putBack writes the row and its entries again, with the replacements, of
// which the first is that of the id.
func (k kept) putBack(t *testing.T, id, as string, more ...string) {
	t.Helper()
	row := strings.NewReplacer(append([]string{id, as}, more...)...).Replace(k.row)
	_, err := k.redis.TxPipelined(t.Context(), func(p redis.Pipeliner) error {
		p.Set(t.Context(), "session:"+as, row, 0)
		for key, score := range k.entries {
			p.ZAdd(t.Context(), key, redis.Z{Score: score, Member: as})
		}
		return nil
	})
	require.NoError(t, err)
}
