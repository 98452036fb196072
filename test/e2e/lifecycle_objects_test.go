package e2e

import (
	"context"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/agentcube/agentcube/pkg/sandbox"
)

// object waits for the one object in the namespace that carries a session.
func (e *env) object(t *testing.T) *unstructured.Unstructured {
	t.Helper()
	var found []unstructured.Unstructured
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		found = e.objects(t)
		assert.Len(c, found, 1)
	}, settle, probeInterval)
	require.Len(t, found, 1)
	return &found[0]
}

// conditionOf is a condition of an object, or nil.
func conditionOf(u *unstructured.Unstructured, kind string) map[string]any {
	conditions, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
	for _, c := range conditions {
		if condition, _ := c.(map[string]any); condition["type"] == kind {
			return condition
		}
	}
	return nil
}

// notReady waits until the one object in the namespace says that it is not
// ready, with a message that holds the text.
func (e *env) notReady(t *testing.T, text string) {
	t.Helper()
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		found := e.objects(t)
		require.Len(c, found, 1)
		object := &found[0]
		ready := conditionOf(object, "Ready")
		assert.Equal(c, "False", ready["status"])
		assert.Contains(c, ready["message"], text)
	}, settle, probeInterval)
}

// sandboxName is the name of the Sandbox, and so of the pod, that serves an
// object's session; empty as long as a claim has none.
func sandboxName(u *unstructured.Unstructured) string {
	if u.GetKind() == cold.kind {
		return u.GetName()
	}
	name, _, _ := unstructured.NestedString(u.Object, "status", "sandbox", "name")
	return name
}

// clean wants neither rows nor objects in the namespace, and no index entry
// anywhere that has no row.
func (e *env) clean(t *testing.T) {
	t.Helper()
	e.nothingLeft(t)
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		for _, key := range indexKeys {
			ids, err := e.redis.ZRange(t.Context(), key, 0, -1).Result()
			require.NoError(c, err)
			for _, id := range ids {
				_, ok := e.row(t, id)
				assert.True(c, ok, "%s has %s, which has no row", key, id)
			}
		}
	}, settle, probeInterval)
}

// sessionID is the session that an object carries.
func sessionID(u *unstructured.Unstructured) string { return u.GetLabels()[sandbox.LabelSessionID] }

// holdBack puts a finalizer on an object, so that it stays when it is deleted,
// marked, until the end of the test or until the returned func is called.
func (e *env) holdBack(t *testing.T, resource schema.GroupVersionResource, name string) (letGo func()) {
	t.Helper()
	objects := e.client.Resource(resource).Namespace(e.namespace)
	patch := func(ctx context.Context, finalizers string) error {
		_, err := objects.Patch(ctx, name, types.MergePatchType,
			[]byte(`{"metadata":{"finalizers":`+finalizers+`}}`), metav1.PatchOptions{})
		return err
	}
	require.NoError(t, patch(t.Context(), `["agentcube.dev/test"]`))
	letGo = sync.OnceFunc(func() {
		err := patch(context.WithoutCancel(t.Context()), "null")
		assert.True(t, err == nil || apierrors.IsNotFound(err), err)
	})
	t.Cleanup(letGo)
	return letGo
}
