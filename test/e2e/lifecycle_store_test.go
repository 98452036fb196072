package e2e

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/agentcube/agentcube/pkg/api"
	"github.com/agentcube/agentcube/pkg/session"
	"github.com/agentcube/agentcube/test/cluster/node"
)

// storeBehaviours are about creates while the store is away.
var storeBehaviours = []behaviour{
	{"while the store is down a create makes no object, and works after its return", storeDown},
	{"while the store is frozen a create makes no object, and works after its return", storeFrozen},
	{"a claim whose session cannot be committed goes, the store being away for long", commitFails},
}

// placeholderBound is when a placeholder is gone whose creator does not know of
// it: the create and undo bounds (see start) and the manager's margin of 10 s
// have passed, and the first look found no object, but that one may still be
// made.
var placeholderBound = createBound + 10*time.Second + 10*time.Second + session.RetryAfter(1) + settle

// stopStore takes the store away until the returned func brings it back.
func (e *env) stopStore(t *testing.T) (back func()) {
	t.Helper()
	require.NoError(t, e.Redis.Stop())
	away := true
	back = func() {
		t.Helper()
		if away {
			away = false
			require.NoError(t, e.Redis.Start(context.WithoutCancel(t.Context())))
		}
	}
	t.Cleanup(back)
	return back
}

// freezeStore lets the store not answer until the returned func is called.
func (e *env) freezeStore(t *testing.T) (thaw func()) {
	t.Helper()
	require.NoError(t, e.Redis.Pause())
	frozen := true
	thaw = func() {
		t.Helper()
		if frozen {
			frozen = false
			require.NoError(t, e.Redis.Resume())
		}
	}
	t.Cleanup(thaw)
	return thaw
}

func storeDown(t *testing.T, e *env) { withoutStore(t, e, e.stopStore) }

func storeFrozen(t *testing.T, e *env) { withoutStore(t, e, e.freezeStore) }

func withoutStore(t *testing.T, e *env, takeAway func(*testing.T) func()) {
	for _, w := range ways {
		w.prepare(t, e, w.name())
	}
	before := e.sandboxes(t)
	back := takeAway(t)
	for _, w := range ways {
		create := e.begin(t, w, w.name())
		fails(t, create.wait(t), http.StatusServiceUnavailable, api.CodeStoreUnavailable)
		assert.Less(t, create.took, createBound)
		assert.Empty(t, e.objects(t), "an object without a row")
	}
	back()
	e.storeSeen(t)
	for _, w := range ways {
		s := e.create(t, w.route, w.name())
		e.echoes(t, w.route, w.name(), s.SessionID)
		a := e.delete(t, s.SessionID)
		require.Equal(t, http.StatusOK, a.status, a)
	}
	// A frozen store may carry out later what it was sent.
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		for _, row := range e.rows(t) {
			id, _ := row["sessionId"].(string)
			assert.Fail(c, "a row is left", "%v in %v", row, e.indexed(t, id))
		}
	}, placeholderBound, 100*time.Millisecond)
	e.clean(t)
	assert.NotEmpty(t, before, "the pool had nothing that could have been taken")
}

// storeSeen waits until manager and router, if there is one, have noticed that the store is back:
// their clients look once a second, and until then callers are told to come again.
func (e *env) storeSeen(t *testing.T) {
	t.Helper()
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		var told struct{ Details map[string]string }
		e.manager(t, http.MethodGet, "/readyz", "").decode(t, &told)
		assert.Equal(c, "ok", told.Details["store"])
		if e.Router == nil {
			return
		}
		a := e.invoke(t, agentRuntime, "none", uuid.NewString(), "/x")
		assert.Equal(c, http.StatusNotFound, a.status, a)
	}, settle, probeInterval)
}

// name of the way's workload where both are in one namespace.
func (w way) name() string {
	if w.kind == cold.kind {
		return "cold"
	}
	return "warm"
}

// sandboxes are the names of all Sandboxes in the namespace.
func (e *env) sandboxes(t *testing.T) []string {
	t.Helper()
	list, err := e.client.Resource(e.api.Sandboxes()).Namespace(e.namespace).List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	var names []string
	for _, item := range list.Items {
		names = append(names, item.GetName())
	}
	return names
}

// commitFails lets the sandbox become ready only when the store is gone.
func commitFails(t *testing.T, e *env) {
	warm.prepare(t, e, "echo", node.NeverReady, "true")
	create := e.begin(t, warm, "echo")
	claim := e.bound(t)
	require.Eventually(t, func() bool { _, ok := e.row(t, sessionID(claim)); return ok }, settle, probeInterval)
	back := e.stopStore(t)
	require.NoError(t, e.Cluster.Node.SetReady(t.Context(), e.namespace, sandboxName(claim), true))
	fails(t, create.wait(t), http.StatusServiceUnavailable, api.CodeStoreUnavailable)
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		assert.Empty(c, e.objects(t), "the claim waits for the store")
	}, settle, probeInterval)
	back()
	e.gone(t, sessionID(claim))
	e.clean(t)
}
