package workload

import (
	"os"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/agentcube/agentcube/pkg/session"
)

// applyLimit is what kubectl can keep in the last-applied annotation: the
// bound of all annotations together (TotalAnnotationSizeLimitB in apimachinery).
const applyLimit = 256 << 10

func readCRD(t *testing.T, kind string) map[string]any {
	t.Helper()
	data, err := os.ReadFile("../../manifests/crds/" + resources[kind].Resource + ".yaml")
	require.NoError(t, err)
	require.Less(t, len(data), applyLimit/2)
	var crd map[string]any
	require.NoError(t, yaml.UnmarshalStrict(data, &crd))
	return crd
}

func crdSpec(t *testing.T, kind string) map[string]any {
	t.Helper()
	crd := readCRD(t, kind)
	versions, _, err := unstructured.NestedSlice(crd, "spec", "versions")
	require.NoError(t, err)
	require.Len(t, versions, 1)
	require.Equal(t, groupVersion.Version, versions[0].(map[string]any)["name"])
	spec, found, err := unstructured.NestedMap(versions[0].(map[string]any), "schema", "openAPIV3Schema", "properties", "spec")
	require.NoError(t, err)
	require.True(t, found)
	return spec
}

func TestTheDefinitionsAreOfTheResourcesLookedUp(t *testing.T) {
	t.Parallel()
	for kind, resource := range resources {
		crd := readCRD(t, kind)
		assert.Equal(t, resource.Resource+"."+resource.Group, crd["metadata"].(map[string]any)["name"])
		for path, want := range map[string]string{"group": resource.Group, "scope": "Namespaced"} {
			got, _, err := unstructured.NestedString(crd, "spec", path)
			require.NoError(t, err)
			assert.Equal(t, want, got)
		}
		names, _, err := unstructured.NestedMap(crd, "spec", "names")
		require.NoError(t, err)
		assert.Equal(t, kind, names["kind"])
		assert.Equal(t, resource.Resource, names["plural"])
	}
}

func TestTheDefaultsOfTheDefinitionsAreThoseOfTheTranslation(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{session.KindAgentRuntime, session.KindCodeInterpreter} {
		properties := crdSpec(t, kind)["properties"].(map[string]any)
		for field, want := range map[string]time.Duration{"sessionTimeout": DefaultIdle, "maxSessionDuration": DefaultMax} {
			text := properties[field].(map[string]any)["default"].(string)
			got, err := time.ParseDuration(text)
			require.NoError(t, err)
			assert.Equal(t, want, got)
		}
	}
	mode := crdSpec(t, session.KindCodeInterpreter)["properties"].(map[string]any)["authMode"].(map[string]any)
	assert.Equal(t, session.AuthModePicoD, mode["default"])
}

func TestTheDefinitionsLetThroughWhatParsesAsADuration(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{session.KindAgentRuntime, session.KindCodeInterpreter} {
		properties := crdSpec(t, kind)["properties"].(map[string]any)
		for _, field := range []string{"sessionTimeout", "maxSessionDuration"} {
			pattern := regexp.MustCompile(properties[field].(map[string]any)["pattern"].(string))
			for text, want := range map[string]bool{
				"15m": true, "8h": true, "0s": true, "0": true, "1h30m": true, "1.5h": true, ".5h": true, "1.h": true,
				"+5m": true, "100ms": true, "1us": true, "1µs": true, "1μs": true, "1ns": true, "720h0m0s": true,
				"": false, "-5m": false, "5": false, "1d": false, "5 m": false, "m": false, ".s": false, "1h-5m": false, "soon": false,
			} {
				assert.Equal(t, want, pattern.MatchString(text), "%s %s: %q", kind, field, text)
				d, err := time.ParseDuration(text)
				assert.Equal(t, want, err == nil && d >= 0, "the pattern is that of Go: %q", text)
			}
		}
	}
}
