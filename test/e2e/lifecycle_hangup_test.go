package e2e

import (
	"context"
	"net/http"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/agentcube/agentcube/pkg/api"
	"github.com/agentcube/agentcube/test/cluster/node"
)

// hangUpBehaviours are about callers that do not wait for the answer, and
// about others that end what is still being created.
var hangUpBehaviours = []behaviour{
	{"a caller that hangs up during a create is let go at once, and what was made goes", bothWays(hangsUpCreating)},
	{"a caller that hangs up during a DELETE does not stop it", hangsUpDeleting},
	{"a DELETE on any replica ends the create that still waits, and nothing is left", bothWays(deletedWhileCreated)},
}

// waiting is the object of the one create of this kind in the namespace that
// waits for its sandbox: the row knows the object, and its pod has an address.
func (e *env) waiting(t *testing.T, w way) *unstructured.Unstructured {
	t.Helper()
	var object *unstructured.Unstructured
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		object = nil
		for _, found := range e.objects(t) {
			if found.GetKind() == w.kind {
				require.Nil(c, object, "two creates")
				object = &found
			}
		}
		require.NotNil(c, object, "no object")
		row, ok := e.row(t, sessionID(object))
		require.True(c, ok)
		assert.Equal(c, "creating", row["status"])
		assert.Equal(c, string(object.GetUID()), row["objectUid"])
		assert.NotEmpty(c, e.Cluster.Node.Address(e.namespace, sandboxName(object)))
	}, settle, pollInterval)
	return object
}

// hangsUpCreating keeps the undo from its work until the request is over, so
// that it is seen not to be waited for.
func hangsUpCreating(t *testing.T, e *env, w way) {
	w.prepare(t, e, "echo", node.NeverReady, "true")
	gate, release := e.gate(t, w.objects(e), "DELETE"), make(chan struct{})
	letPass := sync.OnceFunc(func() { close(release) })
	t.Cleanup(letPass)
	create := e.call(t, http.MethodPost, w.route, e.order("echo"))
	id := sessionID(e.waiting(t, w))
	deletions := make(chan *unstructured.Unstructured, 100)
	gate.set(seen(deletions, held(release)))

	create.hangUp()
	create.letGo(t, e.Manager())
	next(t, deletions)
	assert.Len(t, e.objects(t), 1, "it was the undo that was waited for")
	row, ok := e.row(t, id)
	require.True(t, ok, "the row names the object until it is gone")
	assert.Equal(t, "deleting", row["status"])
	letPass()
	e.gone(t, id)
	e.clean(t)
}

// hangsUpDeleting takes the store away in the moment in which the object goes:
// the caller leaves between the two halves of the deletion.
func hangsUpDeleting(t *testing.T, e *env) {
	s := e.site(t)
	s.addManager(t)
	for _, w := range ways {
		w.prepare(t, s.env, w.name())
		id := s.create(t, w.route, w.name()).SessionID
		gate := s.gate(t, w.objects(s.env), "DELETE")
		gate.set(func(context.Context, *unstructured.Unstructured) *metav1.Status {
			s.toStore.Freeze()
			return nil
		})
		deletion := s.call(t, http.MethodDelete, deletePath(id), "")
		require.Eventually(t, func() bool { return len(s.objects(t)) == 0 }, settle, pollInterval)
		deletion.hangUp()
		deletion.letGo(t, s.Manager())
		row, ok := s.row(t, id)
		require.True(t, ok, "nobody could remove the row yet")
		assert.Equal(t, "deleting", row["status"])
		gate.set(allow)
		require.NoError(t, s.toStore.Thaw())
		s.gone(t, id)
		s.clean(t)
		s.storeSeen(t)
	}
}

func deletedWhileCreated(t *testing.T, e *env, w way) {
	w.prepare(t, e, "echo", node.NeverReady, "true")
	another := e.start(t, launch{name: "workload-manager", args: managerArgs})
	serving(t, another.url)
	for _, url := range []string{e.Manager().URL, another.url} {
		create := e.begin(t, w, "echo")
		id := sessionID(e.waiting(t, w))
		endsBy(t, url, id)
		fails(t, create.atOnce(t), http.StatusConflict, api.CodeSessionDeleted)
		e.gone(t, id)
		e.clean(t)
	}
}
