package cluster

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestEveryServedVersionMustShow(t *testing.T) {
	t.Parallel()
	crds, err := parseManifests([]byte(`
kind: CustomResourceDefinition
spec:
  group: g
  names: {plural: things}
  versions: [{name: v1, served: true}, {name: v2, served: true}, {name: v0, served: false}]
`))
	require.NoError(t, err)
	want, err := servedResources(crds)
	require.NoError(t, err)
	v1 := schema.GroupVersionResource{Group: "g", Version: "v1", Resource: "things"}
	v2 := schema.GroupVersionResource{Group: "g", Version: "v2", Resource: "things"}
	require.Equal(t, []schema.GroupVersionResource{v1, v2}, want)

	shows := func(version, resource string) *metav1.APIResourceList {
		return &metav1.APIResourceList{GroupVersion: version, APIResources: []metav1.APIResource{{Name: resource}}}
	}
	assert.Equal(t, want, missingResources(want, nil))
	assert.Equal(t, []schema.GroupVersionResource{v2},
		missingResources(want, []*metav1.APIResourceList{shows("g/v1", "things"), shows("g/v2", "others")}))
	assert.Empty(t, missingResources(want, []*metav1.APIResourceList{shows("g/v2", "things"), shows("g/v1", "things")}))
}
