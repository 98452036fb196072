package e2e

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// endBehaviours are about sandboxes that are over while their object stays.
var endBehaviours = []behaviour{
	{"a session ends at the shutdown time of an object that is to be retained, and the object goes", bothWays(shutDown)},
	{"a session whose pod fails for good ends, and its object goes", bothWays(podFails)},
	{"a session whose pod completes ends, and its object goes", bothWays(podCompletes)},
}

// ends wants nothing to be left of the session.
func (m made) ends(t *testing.T, e *env, w way) {
	t.Helper()
	e.notFound(t, w.route, "echo", m.id)
	e.gone(t, m.id)
	e.nothingLeft(t)
}

// shutDown moves the time alone: the row's own end is hours away.
func shutDown(t *testing.T, e *env, w way) {
	m := w.make(t, e)
	end := fmt.Sprintf(`{"shutdownTime":%q,"shutdownPolicy":"Retain"}`, time.Now().Add(time.Second).UTC().Format(time.RFC3339))
	if w.kind == warm.kind {
		end = `{"lifecycle":` + end + `}`
	}
	_, err := e.client.Resource(w.objects(e)).Namespace(e.namespace).
		Patch(t.Context(), m.object, types.MergePatchType, []byte(`{"spec":`+end+`}`), metav1.PatchOptions{})
	require.NoError(t, err)
	m.ends(t, e, w)
}

func podFails(t *testing.T, e *env, w way) {
	podEndsWith(t, e, w, func(ctx context.Context, namespace, name string) error {
		return e.Cluster.Node.Fail(ctx, namespace, name, "out of memory")
	})
}

func podCompletes(t *testing.T, e *env, w way) { podEndsWith(t, e, w, e.Cluster.Node.Complete) }

func podEndsWith(t *testing.T, e *env, w way, end func(ctx context.Context, namespace, name string) error) {
	t.Helper()
	m := w.make(t, e)
	require.NoError(t, end(t.Context(), e.namespace, m.pod))
	m.ends(t, e, w)
}
