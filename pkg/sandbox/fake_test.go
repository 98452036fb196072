package sandbox

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"
)

// newFake is an API server in memory. It checks no UID, no resource version
// and no schema, and its watch does not select by label.
func newFake(api API) *dynamicfake.FakeDynamicClient {
	return dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{
		api.Sandboxes(): "SandboxList",
		api.Claims():    "SandboxClaimList",
		api.Templates(): "SandboxTemplateList",
		api.WarmPools(): "SandboxWarmPoolList",
	})
}

// put creates or replaces an object as somebody else would.
func put(t *testing.T, f *dynamicfake.FakeDynamicClient, r schema.GroupVersionResource, u *unstructured.Unstructured) {
	t.Helper()
	objects := f.Resource(r).Namespace(u.GetNamespace())
	ctx := context.WithoutCancel(t.Context())
	_, err := objects.Get(ctx, u.GetName(), metav1.GetOptions{})
	if err != nil {
		_, err = objects.Create(ctx, u, metav1.CreateOptions{})
	} else {
		_, err = objects.Update(ctx, u, metav1.UpdateOptions{})
	}
	require.NoError(t, err)
}

// get reads an object of the namespace that all specs of these tests name.
func get(t *testing.T, f *dynamicfake.FakeDynamicClient, r schema.GroupVersionResource, name string) *unstructured.Unstructured {
	t.Helper()
	u, err := f.Resource(r).Namespace("team").Get(t.Context(), name, metav1.GetOptions{})
	require.NoError(t, err)
	return u
}

func remove(t *testing.T, f *dynamicfake.FakeDynamicClient, r schema.GroupVersionResource, namespace, name string) {
	t.Helper()
	require.NoError(t, f.Resource(r).Namespace(namespace).Delete(t.Context(), name, metav1.DeleteOptions{}))
}

// marked sets what the API server sets.
func marked(u *unstructured.Unstructured, uid, resourceVersion string) *unstructured.Unstructured {
	u.SetUID(types.UID(uid))
	u.SetResourceVersion(resourceVersion)
	return u
}

// failing makes the next calls of a verb on a resource fail.
func failing(f *dynamicfake.FakeDynamicClient, verb, resource string, err error) {
	f.PrependReactor(verb, resource, func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, err })
}

// verbs of the calls made so far.
func verbs(f *dynamicfake.FakeDynamicClient) []string {
	var out []string
	for _, action := range f.Actions() {
		out = append(out, action.GetVerb())
	}
	return out
}

type (
	schemaResource = schema.GroupVersionResource
	object         = unstructured.Unstructured
)
