package workload

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/agentcube/agentcube/pkg/session"
)

func parsed(kind string, spec map[string]any) *template {
	return parse(kind, &unstructured.Unstructured{Object: object(kind, "x", spec)})
}

func recordedPodSpec(t *testing.T, kind, workload string) map[string]any {
	t.Helper()
	spec, found, err := unstructured.NestedMap(recorded(t, kind, workload).Object, "spec", "podTemplate", "spec")
	require.NoError(t, err)
	require.True(t, found)
	return spec
}

func TestPodsAreThoseOfRunningInstallations(t *testing.T) {
	t.Parallel()

	t.Run("a cold CodeInterpreter", func(t *testing.T) {
		t.Parallel()
		got := parsed(session.KindCodeInterpreter, echoInterpreter())
		require.NoError(t, got.invalid)
		assert.Equal(t, recordedPodSpec(t, "Sandbox", "cold"), got.workload.Pod.Spec)
	})
	t.Run("one that gets the public key", func(t *testing.T) {
		t.Parallel()
		got := parsed(session.KindCodeInterpreter, set(echoInterpreter(), "picod", "authMode"))
		require.NoError(t, got.invalid)
		withKey := got.workload.WithPublicKey("<PEM of the router's public key>")
		assert.Equal(t, recordedPodSpec(t, "Sandbox", "picod"), withKey.Pod.Spec)
	})
	t.Run("the template of a warm pool", func(t *testing.T) {
		t.Parallel()
		got := parsed(session.KindCodeInterpreter, warmInterpreter(2))
		require.NoError(t, got.invalid)
		assert.Equal(t, recordedPodSpec(t, "SandboxTemplate", "warm"), got.workload.pooled().Spec)
	})
	t.Run("an AgentRuntime passes its pod through", func(t *testing.T) {
		t.Parallel()
		want := recordedPodSpec(t, "Sandbox", "echo")
		want["aFieldOfTomorrow"] = map[string]any{"deep": []any{int64(1), 2.5, true, nil, "x"}}
		spec := set(echoRuntime(), runtime.DeepCopyJSON(want), "podTemplate", "spec")
		got := parsed(session.KindAgentRuntime, spec)
		require.NoError(t, got.invalid)
		assert.Equal(t, want, got.workload.Pod.Spec)
	})
}

func TestEverythingACodeInterpreterNamesReachesThePod(t *testing.T) {
	t.Parallel()
	spec := echoInterpreter()
	spec["template"] = map[string]any{
		"labels":           map[string]any{"team": "a"},
		"annotations":      map[string]any{"note": "b"},
		"runtimeClassName": "kata",
		"image":            "python:3",
		"imagePullPolicy":  "IfNotPresent",
		"imagePullSecrets": []any{map[string]any{"name": "pull"}},
		"environment": []any{
			map[string]any{"name": "A", "value": "1"},
			map[string]any{"name": "B", "valueFrom": map[string]any{"secretKeyRef": map[string]any{"name": "s", "key": "k"}}},
		},
		"command":   []any{"python"},
		"args":      []any{"-m", "server"},
		"resources": map[string]any{"limits": map[string]any{"cpu": int64(1), "memory": "1Gi"}},
	}

	got := parsed(session.KindCodeInterpreter, spec)

	require.NoError(t, got.invalid)
	assert.Equal(t, map[string]string{"team": "a"}, got.workload.Pod.Labels)
	assert.Equal(t, map[string]string{"note": "b"}, got.workload.Pod.Annotations)
	assert.Equal(t, map[string]any{
		"runtimeClassName": "kata",
		"imagePullSecrets": []any{map[string]any{"name": "pull"}},
		"containers": []any{map[string]any{
			"name":            "code-interpreter",
			"image":           "python:3",
			"imagePullPolicy": "IfNotPresent",
			"env": []any{
				map[string]any{"name": "A", "value": "1"},
				map[string]any{"name": "B", "valueFrom": map[string]any{"secretKeyRef": map[string]any{"name": "s", "key": "k"}}},
			},
			"command":   []any{"python"},
			"args":      []any{"-m", "server"},
			"resources": map[string]any{"limits": map[string]any{"cpu": int64(1), "memory": "1Gi"}},
		}},
	}, got.workload.Pod.Spec)
}

func TestTemplatesSayWhatTheirSessionsNeed(t *testing.T) {
	t.Parallel()
	http := func(path string, port int32) session.Port {
		return session.Port{Path: path, Port: port, Protocol: "HTTP"}
	}
	for name, test := range map[string]struct {
		kind string
		spec map[string]any
		want Workload
	}{
		"a CodeInterpreter that names nothing has the defaults": {
			session.KindCodeInterpreter,
			map[string]any{"template": map[string]any{"image": "echo"}},
			Workload{Ports: []session.Port{http("/", 8080)}, AuthMode: "picod", Idle: 15 * time.Minute, Max: 8 * time.Hour},
		},
		"an empty list of ports is none": {
			session.KindCodeInterpreter,
			set(echoInterpreter(), []any{}, "ports"),
			Workload{Ports: []session.Port{http("/", 8080)}, AuthMode: "none", Idle: 15 * time.Minute, Max: 8 * time.Hour},
		},
		"ports of its own, in order, their paths as given": {
			session.KindCodeInterpreter,
			set(echoInterpreter(), []any{
				map[string]any{"pathPrefix": "/api/", "port": int64(1), "protocol": "HTTPS"},
				map[string]any{"name": "x", "port": int64(65535)},
			}, "ports"),
			Workload{
				Ports:    []session.Port{{Path: "/api/", Port: 1, Protocol: "HTTPS"}, http("", 65535)},
				AuthMode: "none", Idle: 15 * time.Minute, Max: 8 * time.Hour,
			},
		},
		"a pool": {
			session.KindCodeInterpreter,
			warmInterpreter(3),
			Workload{
				Ports: []session.Port{http("/", 8080)}, AuthMode: "none",
				Warm: true, PoolSize: 3, Idle: 15 * time.Minute, Max: 8 * time.Hour,
			},
		},
		"a pool of none": {
			session.KindCodeInterpreter,
			warmInterpreter(0),
			Workload{Ports: []session.Port{http("/", 8080)}, AuthMode: "none", Idle: 15 * time.Minute, Max: 8 * time.Hour},
		},
		"an AgentRuntime has no auth mode and no pool": {
			session.KindAgentRuntime,
			set(set(echoRuntime(), "picod", "authMode"), int64(2), "warmPoolSize"),
			Workload{Ports: []session.Port{http("/", 8080)}, Idle: 15 * time.Minute, Max: 8 * time.Hour},
		},
		"lifetimes": {
			session.KindAgentRuntime,
			set(set(echoRuntime(), "5m", "sessionTimeout"), "1h30m", "maxSessionDuration"),
			Workload{Ports: []session.Port{http("/", 8080)}, Idle: 5 * time.Minute, Max: 90 * time.Minute},
		},
		"an idle timeout of zero is the default, a maximum of zero unlimited": {
			session.KindAgentRuntime,
			set(set(echoRuntime(), "0s", "sessionTimeout"), "0s", "maxSessionDuration"),
			Workload{Ports: []session.Port{http("/", 8080)}, Idle: 15 * time.Minute},
		},
		"null is absent": {
			session.KindAgentRuntime,
			set(set(echoRuntime(), nil, "sessionTimeout"), nil, "maxSessionDuration"),
			Workload{Ports: []session.Port{http("/", 8080)}, Idle: 15 * time.Minute, Max: 8 * time.Hour},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			object := object(test.kind, "x", test.spec)
			metadata := object["metadata"].(map[string]any)
			metadata["resourceVersion"], metadata["generation"] = "17", int64(4)

			got := parse(test.kind, &unstructured.Unstructured{Object: object})

			require.NoError(t, got.invalid)
			test.want.Ref = session.WorkloadRef{Kind: test.kind, Namespace: "default", Name: "x"}
			test.want.UID, test.want.ResourceVersion, test.want.Generation = "uid-of-x", "17", 4
			test.want.Pod = got.workload.Pod
			assert.Equal(t, test.want, got.workload)
		})
	}
}

func TestTemplatesThatCannotBeUsedNameTheField(t *testing.T) {
	t.Parallel()
	port := func(fields map[string]any) []any { return []any{fields} }
	for name, test := range map[string]struct {
		kind string
		spec map[string]any
		want []string
	}{
		"no spec": {
			session.KindAgentRuntime, nil,
			[]string{"spec.targetPort: must hold at least one port", "spec.podTemplate.spec.containers: must hold at least one container"},
		},
		"a spec that is none": {
			session.KindCodeInterpreter,
			map[string]any{"template": "echo"},
			[]string{"spec.template: must be an object", "spec.template.image: must be set"},
		},
		"no ports": {
			session.KindAgentRuntime, set(echoRuntime(), []any{}, "targetPort"),
			[]string{"spec.targetPort: must hold at least one port"},
		},
		"ports that are no list": {
			session.KindAgentRuntime, set(echoRuntime(), "8080", "targetPort"),
			[]string{"spec.targetPort: must be a list", "spec.targetPort: must hold at least one port"},
		},
		"a port that is no object": {
			session.KindCodeInterpreter, set(echoInterpreter(), []any{int64(8080)}, "ports"),
			[]string{"spec.ports[0]: must be an object"},
		},
		"port 0": {
			session.KindAgentRuntime, set(echoRuntime(), port(map[string]any{"port": int64(0)}), "targetPort"),
			[]string{"spec.targetPort[0].port: must be 1 to 65535, is 0"},
		},
		"port 65536": {
			session.KindCodeInterpreter, set(echoInterpreter(), port(map[string]any{"port": int64(65536)}), "ports"),
			[]string{"spec.ports[0].port: must be 1 to 65535, is 65536"},
		},
		"a port by name": {
			session.KindCodeInterpreter, set(echoInterpreter(), port(map[string]any{"port": "http"}), "ports"),
			[]string{"spec.ports[0].port: must be an integer", "spec.ports[0].port: must be 1 to 65535, is 0"},
		},
		"another protocol": {
			session.KindCodeInterpreter, set(echoInterpreter(), port(map[string]any{"port": int64(1), "protocol": "TCP"}), "ports"),
			[]string{`spec.ports[0].protocol: must be HTTP or HTTPS, is "TCP"`},
		},
		"negative lifetimes": {
			session.KindAgentRuntime,
			set(set(echoRuntime(), "-1s", "sessionTimeout"), "-8h", "maxSessionDuration"),
			[]string{"spec.sessionTimeout: must not be negative, is -1s", "spec.maxSessionDuration: must not be negative, is -8h"},
		},
		"a lifetime that is no duration": {
			session.KindAgentRuntime, set(echoRuntime(), "soon", "sessionTimeout"),
			[]string{`spec.sessionTimeout: must be a duration such as 15m or 8h, is "soon"`},
		},
		"a lifetime as a number": {
			session.KindAgentRuntime, set(echoRuntime(), int64(60), "sessionTimeout"),
			[]string{"spec.sessionTimeout: must be a string"},
		},
		"a pod without containers": {
			session.KindAgentRuntime, set(echoRuntime(), map[string]any{}, "podTemplate", "spec"),
			[]string{"spec.podTemplate.spec.containers: must hold at least one container"},
		},
		"a pod spec that is none": {
			session.KindAgentRuntime, set(echoRuntime(), []any{}, "podTemplate", "spec"),
			[]string{"spec.podTemplate.spec: must be an object", "spec.podTemplate.spec.containers: must hold at least one container"},
		},
		"a container that is none": {
			session.KindAgentRuntime, set(echoRuntime(), []any{"echo"}, "podTemplate", "spec", "containers"),
			[]string{"spec.podTemplate.spec.containers[0]: must be an object"},
		},
		"an environment that is no list": {
			session.KindAgentRuntime,
			set(echoRuntime(), []any{map[string]any{"env": map[string]any{"A": "1"}}}, "podTemplate", "spec", "containers"),
			[]string{"spec.podTemplate.spec.containers[0].env: must be a list"},
		},
		"a label that is no string": {
			session.KindAgentRuntime, set(echoRuntime(), map[string]any{"tier": int64(1)}, "podTemplate", "labels"),
			[]string{"spec.podTemplate.labels[tier]: must be a string"},
		},
		"no image": {
			session.KindCodeInterpreter, set(echoInterpreter(), "", "template", "image"),
			[]string{"spec.template.image: must be set"},
		},
		"an argument that is no string": {
			session.KindCodeInterpreter, set(echoInterpreter(), []any{"-p", int64(80)}, "template", "args"),
			[]string{"spec.template.args[1]: must be a string"},
		},
		"variables and secrets that are no objects": {
			session.KindCodeInterpreter,
			set(set(echoInterpreter(), []any{"A=1"}, "template", "environment"), []any{"pull"}, "template", "imagePullSecrets"),
			[]string{"spec.template.environment[0]: must be an object", "spec.template.imagePullSecrets[0]: must be an object"},
		},
		"a negative pool": {
			session.KindCodeInterpreter, warmInterpreter(-1),
			[]string{"spec.warmPoolSize: must be 0 to 2147483647, is -1"},
		},
		"a pool beyond all bounds": {
			session.KindCodeInterpreter, warmInterpreter(1 << 31),
			[]string{"spec.warmPoolSize: must be 0 to 2147483647, is 2147483648"},
		},
		"another auth mode": {
			session.KindCodeInterpreter, set(echoInterpreter(), "basic", "authMode"),
			[]string{`spec.authMode: must be picod or none, is "basic"`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := parsed(test.kind, test.spec)
			require.ErrorIs(t, got.invalid, ErrInvalid)
			want := test.kind + " default/x is not valid: "
			for i, problem := range test.want {
				if i > 0 {
					want += "; "
				}
				want += problem
			}
			assert.Equal(t, want, got.invalid.Error())
		})
	}
}

// FuzzParse looks for templates that bring the translation down, or that pass
// without what every session relies on.
func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"kind":"CodeInterpreter","spec":{"template":{"image":"x","environment":[{"name":"A"}]},"warmPoolSize":1}}`))
	f.Add([]byte(`{"kind":"AgentRuntime","spec":{"targetPort":[{"port":1}],"podTemplate":{"spec":{"containers":[{}]}}}}`))
	f.Add([]byte(`{"kind":"CodeInterpreter","spec":[],"status":{"conditions":[1,{"type":2}],"ready":"x"}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, kind := range []string{session.KindAgentRuntime, session.KindCodeInterpreter} {
			var u unstructured.Unstructured
			if u.UnmarshalJSON(data) != nil {
				return // The client decodes it, or nobody.
			}
			got := parse(kind, &u)
			if got.invalid != nil {
				continue
			}
			require.NotEmpty(t, got.workload.Ports)
			require.Positive(t, got.workload.Idle)
			require.GreaterOrEqual(t, got.workload.Max, time.Duration(0))
			require.NotEmpty(t, containers(got.workload.WithPublicKey("key").pooled()))
		}
	})
}
