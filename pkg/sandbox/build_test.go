package sandbox

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/agentcube/agentcube/pkg/session"
)

var update = flag.Bool("update", false, "write the golden files; read them before you commit")

const (
	testSession      = "ddfbc331-97a6-4180-a964-8cfa274fc47f"
	testInstallation = "3e6b2a1c-1f5e-4b7a-9d56-0c4f1f1f7a11"
	testUID          = "94928ff2-5548-493e-b4b4-c2c118878bc1"
)

func sandboxSpec() Spec {
	return Spec{
		Object:       session.ObjectRef{Kind: session.KindSandbox, Namespace: "team", Name: "echo-m7uzauz2"},
		SessionID:    testSession,
		Workload:     session.WorkloadRef{Kind: session.KindAgentRuntime, Namespace: "team", Name: "echo"},
		Installation: testInstallation,
		OwnerID:      "jane@example.com",
		IdleTimeout:  15 * time.Minute,
		ShutdownTime: time.Date(2026, 12, 1, 4, 54, 7, 0, time.UTC),
		Pod: PodTemplate{
			Labels:      map[string]string{"app": "echo", LabelSessionID: "of the template"},
			Annotations: map[string]string{"note": "kept"},
			Spec: map[string]any{
				"containers": []any{map[string]any{
					"name": "echo", "image": "echo:1",
					"ports": []any{map[string]any{"containerPort": int64(8080), "protocol": "TCP"}},
				}},
				"aFieldOfTomorrow": map[string]any{"deep": []any{true, int64(9007199254740993), 0.5}},
			},
		},
	}
}

func claimSpec() Spec {
	return Spec{
		Object:       session.ObjectRef{Kind: session.KindSandboxClaim, Namespace: "team", Name: "warm-03ia9k2h"},
		SessionID:    testSession,
		Workload:     session.WorkloadRef{Kind: session.KindCodeInterpreter, Namespace: "team", Name: "warm"},
		WorkloadUID:  testUID,
		Installation: testInstallation,
		OwnerID:      "jane@example.com",
		IdleTimeout:  15 * time.Minute,
		ShutdownTime: time.Date(2026, 12, 1, 4, 54, 7, 0, time.UTC),
	}
}

func templateSpec() TemplateSpec {
	return TemplateSpec{Namespace: "team", Name: "warm", OwnerUID: testUID, Pod: PodTemplate{
		Labels: map[string]string{"tier": "pool"},
		Spec: map[string]any{
			"runtimeClassName": "sandboxed",
			"containers":       []any{map[string]any{"name": "codeinterpreter", "image": "echo:1"}},
		},
	}}
}

func poolSpec() PoolSpec {
	return PoolSpec{Namespace: "team", Name: "warm", OwnerUID: testUID, Replicas: 2}
}

func TestBuiltObjectsMatchTheGoldenFiles(t *testing.T) {
	t.Parallel()
	bare := sandboxSpec()
	bare.OwnerID, bare.Installation, bare.IdleTimeout, bare.ShutdownTime, bare.Pod = "", "", 0, time.Time{}, PodTemplate{}
	unlimited := claimSpec()
	unlimited.ShutdownTime = time.Time{}

	for _, version := range []string{V1Alpha1, V1Beta1} {
		api := API{Version: version}
		for name, built := range map[string]*unstructured.Unstructured{
			"sandbox":         api.BuildSandbox(sandboxSpec()),
			"sandbox-bare":    api.BuildSandbox(bare),
			"claim":           api.BuildClaim(claimSpec()),
			"claim-unlimited": api.BuildClaim(unlimited),
			"template":        api.BuildTemplate(templateSpec()),
			"warmpool":        api.BuildWarmPool(poolSpec()),
		} {
			t.Run(version+" "+name, func(t *testing.T) {
				t.Parallel()
				got, err := json.MarshalIndent(built.Object, "", "  ")
				require.NoError(t, err)
				file := filepath.Join("testdata", "golden", version, name+".json")
				if *update {
					require.NoError(t, os.WriteFile(file, append(got, '\n'), 0o600))
				}
				want, err := os.ReadFile(file)
				require.NoError(t, err)
				assert.Equal(t, string(want), string(got)+"\n")
			})
		}
	}
}

func TestBuildDoesNotShareOrChangeTheTemplate(t *testing.T) {
	t.Parallel()
	spec := sandboxSpec()
	built := API{Version: V1Beta1}.BuildSandbox(spec)
	require.NoError(t, unstructured.SetNestedField(built.Object, "changed", "spec", "podTemplate", "spec", "aFieldOfTomorrow", "deep"))

	assert.Equal(t, sandboxSpec(), spec)
}

func TestBuiltObjectsAreMadeOfJSONTypes(t *testing.T) {
	t.Parallel()
	spec := sandboxSpec()
	spec.Pod.Spec = map[string]any{
		"containers": []map[string]any{{"args": []string{"-v"}, "port": 8080, "weight": int32(3)}},
	}
	built := API{Version: V1Beta1}.BuildSandbox(spec)

	var copied *unstructured.Unstructured
	require.NotPanics(t, func() { copied = built.DeepCopy() })
	containers, found, err := unstructured.NestedSlice(copied.Object, "spec", "podTemplate", "spec", "containers")
	require.NoError(t, err)
	require.True(t, found)
	assert.Equal(t, []any{map[string]any{"args": []any{"-v"}, "port": int64(8080), "weight": int64(3)}}, containers)
}

func TestBuildRefusesATemplateThatIsNoJSON(t *testing.T) {
	t.Parallel()
	spec := sandboxSpec()
	spec.Pod.Spec = map[string]any{"f": func() {}}

	assert.Panics(t, func() { API{Version: V1Beta1}.BuildSandbox(spec) })
}

func TestShutdownTimeIsNeverEarlierThanTheSessionsEnd(t *testing.T) {
	t.Parallel()
	whole := time.Date(2026, 12, 1, 4, 54, 7, 0, time.UTC)
	zone := time.FixedZone("east", 2*60*60)

	assert.Equal(t, "2026-12-01T04:54:07Z", shutdownTime(whole), "a whole second stays")
	assert.Equal(t, "2026-12-01T04:54:08Z", shutdownTime(whole.Add(time.Nanosecond)), "a part of one counts whole")
	assert.Equal(t, "2026-12-01T04:54:07Z", shutdownTime(whole.In(zone)), "the zone is UTC")
}

// differences from the recorded objects that are meant, by path: what the
// contract adds, and what the API has as a default.
var (
	addedByContract = []string{
		"metadata.labels." + LabelSandboxName,
		"metadata.labels." + LabelWorkloadName,
		"metadata.labels." + LabelManagedBy,
		"metadata.labels." + LabelInstallation,
		"metadata.annotations." + annotationSpecHash,
		"spec.lifecycle.shutdownTime",
		"spec.lifecycle.shutdownPolicy",
	}
	leftOut = []string{
		"spec.additionalPodMetadata", // empty
	}
	changed = map[string]any{
		// "default" would become a pool that does not exist on v0.5.x.
		"spec.warmpool": "warm",
	}
)

func TestBuiltObjectsMatchTheRecordedOnes(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("testdata/compat/objects.json")
	require.NoError(t, err)
	var recorded []map[string]any
	require.NoError(t, utiljson.Unmarshal(data, &recorded))
	require.Len(t, recorded, 6)

	for _, object := range recorded {
		want := &unstructured.Unstructured{Object: object}
		t.Run(want.GetKind()+" "+want.GetName(), func(t *testing.T) {
			t.Parallel()
			got := flatten(rebuild(t, want).Object)
			for path, value := range flatten(want.Object) {
				if strings.Contains(path, ".agents.x-k8s.io/") || slices.Contains(leftOut, path) {
					continue // written by the controller, or empty
				}
				if other, meant := changed[path]; meant {
					value = other
				}
				assert.Equal(t, value, got[path], path)
				delete(got, path)
			}
			for path := range got {
				assert.Contains(t, addedByContract, path, "an addition that the contract does not know")
			}
		})
	}
}

// rebuild makes our object from the facts of a recorded one.
func rebuild(t *testing.T, want *unstructured.Unstructured) *unstructured.Unstructured {
	t.Helper()
	api := API{Version: V1Alpha1}
	labels, name := want.GetLabels(), want.GetName()
	workload, uid := labels[LabelWorkloadName], ""
	if owners := want.GetOwnerReferences(); len(owners) > 0 {
		workload, uid = owners[0].Name, string(owners[0].UID)
	}
	podSpec, _, err := unstructured.NestedMap(want.Object, "spec", "podTemplate", "spec")
	require.NoError(t, err)
	spec := Spec{
		Object:       session.ObjectRef{Kind: want.GetKind(), Namespace: want.GetNamespace(), Name: name},
		SessionID:    labels[LabelSessionID],
		Workload:     session.WorkloadRef{Kind: session.KindCodeInterpreter, Namespace: want.GetNamespace(), Name: workload},
		WorkloadUID:  uid,
		Installation: testInstallation,
		Pod:          PodTemplate{Spec: podSpec},
		ShutdownTime: time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC),
	}
	if idle := want.GetAnnotations()[AnnotationIdle]; idle != "" {
		spec.IdleTimeout, err = time.ParseDuration(idle)
		require.NoError(t, err)
	}
	if end, found, _ := unstructured.NestedString(want.Object, "spec", "shutdownTime"); found {
		spec.ShutdownTime, err = time.Parse(time.RFC3339, end)
		require.NoError(t, err)
	}
	switch want.GetKind() {
	case session.KindSandbox:
		return api.BuildSandbox(spec)
	case session.KindSandboxClaim:
		return api.BuildClaim(spec)
	case "SandboxTemplate":
		return api.BuildTemplate(TemplateSpec{Namespace: want.GetNamespace(), Name: name, OwnerUID: uid, Pod: spec.Pod})
	case "SandboxWarmPool":
		replicas, _, err := unstructured.NestedInt64(want.Object, "spec", "replicas")
		require.NoError(t, err)
		return api.BuildWarmPool(PoolSpec{Namespace: want.GetNamespace(), Name: name, OwnerUID: uid, Replicas: int32(replicas)}) //nolint:gosec // 2.
	}
	t.Fatalf("unknown kind %s", want.GetKind())
	return nil
}

// flatten gives each leaf of an object its path; lists are leaves.
func flatten(m map[string]any) map[string]any {
	out := map[string]any{}
	for key, value := range m {
		fields, ok := value.(map[string]any)
		if !ok || len(fields) == 0 {
			out[key] = value
			continue
		}
		for path, leaf := range flatten(fields) {
			out[key+"."+path] = leaf
		}
	}
	return out
}

func TestLabelsStayLegalForEveryName(t *testing.T) {
	t.Parallel()
	for sentence, workload := range map[string]string{
		"a short name":                 "echo",
		"63 characters":                strings.Repeat("a", 63),
		"64 characters":                strings.Repeat("a", 64),
		"253 characters with dots":     strings.Repeat("abc.def-", 31) + "endss",
		"a cut that falls on a hyphen": strings.Repeat("a", 53) + "----------b",
	} {
		t.Run(sentence, func(t *testing.T) {
			t.Parallel()
			spec := sandboxSpec()
			spec.Workload.Name = workload
			name, err := ObjectName(workload, nil)
			require.NoError(t, err)
			spec.Object.Name = name
			for _, built := range []*unstructured.Unstructured{
				API{Version: V1Beta1}.BuildSandbox(spec), API{Version: V1Beta1}.BuildClaim(spec),
			} {
				for key, value := range built.GetLabels() {
					assert.Empty(t, validation.IsValidLabelValue(value), "%s=%s", key, value)
				}
			}
		})
	}
}
