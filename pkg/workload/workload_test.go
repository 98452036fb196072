package workload

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/agentcube/agentcube/pkg/sandbox"
)

func podOf(containers ...any) Workload {
	return Workload{Pod: sandbox.PodTemplate{Spec: map[string]any{"containers": containers}}}
}

func TestThePublicKeyReachesEveryContainer(t *testing.T) {
	t.Parallel()
	variable := func(name, value string) any { return map[string]any{"name": name, "value": value} }
	for name, test := range map[string]struct{ before, after []any }{
		"a container without variables": {
			[]any{map[string]any{"name": "a"}},
			[]any{map[string]any{"name": "a", "env": []any{variable(PublicKeyEnv, "pem")}}},
		},
		"after those it has": {
			[]any{map[string]any{"env": []any{variable("A", "1")}}},
			[]any{map[string]any{"env": []any{variable("A", "1"), variable(PublicKeyEnv, "pem")}}},
		},
		"in place of the template's own, however often it stands there": {
			[]any{map[string]any{"env": []any{
				variable(PublicKeyEnv, "forged"), variable("A", "1"),
				map[string]any{"name": PublicKeyEnv, "valueFrom": map[string]any{}},
			}}},
			[]any{map[string]any{"env": []any{variable(PublicKeyEnv, "pem"), variable("A", "1")}}},
		},
		"each of several": {
			[]any{map[string]any{"name": "a"}, map[string]any{"name": "b"}},
			[]any{
				map[string]any{"name": "a", "env": []any{variable(PublicKeyEnv, "pem")}},
				map[string]any{"name": "b", "env": []any{variable(PublicKeyEnv, "pem")}},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := podOf(test.before...)
			untouched := runtime.DeepCopyJSON(w.Pod.Spec)

			got := w.WithPublicKey("pem")

			assert.Equal(t, test.after, got.Pod.Spec["containers"])
			assert.Equal(t, untouched, w.Pod.Spec)
		})
	}
}

func TestTheRuntimeClassIsForTemplatesThatNameNone(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		spec   map[string]any
		option string
		want   any
	}{
		"named by the template":        {map[string]any{"runtimeClassName": "kata"}, "gvisor", "kata"},
		"named by none":                {map[string]any{}, "gvisor", "gvisor"},
		"named empty by the template":  {map[string]any{"runtimeClassName": ""}, "gvisor", "gvisor"},
		"not named by the option":      {map[string]any{}, "", nil},
		"named by the template alone":  {map[string]any{"runtimeClassName": "kata"}, "", "kata"},
		"a template that says nothing": {nil, "gvisor", "gvisor"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := Workload{Pod: sandbox.PodTemplate{Spec: test.spec}}
			untouched := runtime.DeepCopyJSON(test.spec)

			got := w.WithRuntimeClass(test.option)

			assert.Equal(t, test.want, got.Pod.Spec["runtimeClassName"])
			assert.Equal(t, untouched, w.Pod.Spec)
		})
	}
}
