package e2e

import (
	"encoding/json"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/agentcube/agentcube/pkg/sandbox"
)

// labelBehaviours are about the label by which an object carries its session.
var labelBehaviours = []behaviour{
	{"a session's label taken off its object is put back, and the session lives", bothWays(relabelled(nil))},
	{"a session's label changed on its object is put right, and the session lives", bothWays(relabelled(uuid.NewString()))},
	{"a session's label changed to no id at all is put right, and the session lives", bothWays(relabelled("nonsense"))},
	{"an object labelled as another session's gets its own label back, and both sessions live", bothWays(swapped)},
}

// label sets the session's label of an object; nil takes it off.
func (e *env) label(t *testing.T, w way, object string, value any) {
	t.Helper()
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": map[string]any{sandbox.LabelSessionID: value}}})
	require.NoError(t, err)
	_, err = e.client.Resource(w.objects(e)).Namespace(e.namespace).
		Patch(t.Context(), object, types.MergePatchType, patch, metav1.PatchOptions{})
	require.NoError(t, err)
}

// keepsLabel wants the object to bear the session's label, now or soon, and the
// session to have come through it unchanged.
func (m made) keepsLabel(t *testing.T, e *env, w way, before map[string]any) {
	t.Helper()
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		u, err := e.client.Resource(w.objects(e)).Namespace(e.namespace).Get(t.Context(), m.object, metav1.GetOptions{})
		require.NoError(t, err)
		assert.Equal(c, m.id, sessionID(u))
	}, settle, pollInterval)
	after, ok := e.row(t, m.id)
	require.True(t, ok, "the session ended")
	assert.Equal(t, before, after)
	assert.Equal(t, m.pod, m.echo(t, e, w).Pod)
}

// relabelled follows the label with a change of the pod, which is noticed only
// if the object is watched as before.
func relabelled(value any) func(*testing.T, *env, way) {
	return func(t *testing.T, e *env, w way) {
		m := w.make(t, e)
		before, ok := e.row(t, m.id)
		require.True(t, ok)
		e.label(t, w, m.object, value)
		m.keepsLabel(t, e, w, before)
		require.NoError(t, e.Cluster.Node.SetReady(t.Context(), e.namespace, m.pod, false))
		m.notReady(t, e, w)
	}
}

func swapped(t *testing.T, e *env, w way) {
	m := w.make(t, e)
	created := e.create(t, w.route, "echo")
	other := made{id: created.SessionID, object: created.SandboxName, pod: e.echoes(t, w.route, "echo", created.SessionID).Pod}
	mine, _ := e.row(t, m.id)
	others, _ := e.row(t, other.id)
	e.label(t, w, m.object, other.id)
	m.keepsLabel(t, e, w, mine)
	other.keepsLabel(t, e, w, others)
}
