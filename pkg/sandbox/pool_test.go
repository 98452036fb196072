package sandbox

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	dynamicfake "k8s.io/client-go/dynamic/fake"
)

// pooled is one object in memory and a client to ensure it with.
type pooled struct {
	*dynamicfake.FakeDynamicClient
	client *Client
	api    API
}

func newPooled(version string) pooled {
	api := API{Version: version}
	f := newFake(api)
	return pooled{f, NewClient(f, api, ClientOptions{}), api}
}

func (p pooled) template(t *testing.T) *unstructured.Unstructured {
	t.Helper()
	return get(t, p.FakeDynamicClient, p.api.Templates(), "warm")
}

func (p pooled) pool(t *testing.T) *unstructured.Unstructured {
	t.Helper()
	return get(t, p.FakeDynamicClient, p.api.WarmPools(), "warm")
}

func TestEnsureCreatesWhatIsMissing(t *testing.T) {
	t.Parallel()
	for _, version := range []string{V1Alpha1, V1Beta1} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			p := newPooled(version)
			require.NoError(t, p.client.EnsureTemplate(t.Context(), templateSpec()))
			assert.Equal(t, p.api.BuildTemplate(templateSpec()), p.template(t))

			status, err := p.client.EnsureWarmPool(t.Context(), poolSpec())
			require.NoError(t, err)
			assert.Equal(t, PoolStatus{}, status)
			assert.Equal(t, p.api.BuildWarmPool(poolSpec()), p.pool(t))
		})
	}
}

func TestEnsureWarmPoolTellsTheStatus(t *testing.T) {
	t.Parallel()
	p := newPooled(V1Beta1)
	u := p.api.BuildWarmPool(poolSpec())
	u.Object["status"] = map[string]any{"replicas": int64(2), "readyReplicas": int64(1)}
	put(t, p.FakeDynamicClient, p.api.WarmPools(), u)

	status, err := p.client.EnsureWarmPool(t.Context(), poolSpec())
	require.NoError(t, err)
	assert.Equal(t, PoolStatus{Replicas: 2, ReadyReplicas: 1}, status)
}

func TestEnsureWritesNothingWhenNothingOfOursDiffers(t *testing.T) {
	t.Parallel()
	for sentence, change := range map[string]func(u *unstructured.Unstructured){
		"nothing changed":       func(*unstructured.Unstructured) {},
		"a field has a default": func(u *unstructured.Unstructured) { set(u, "Disallowed", "spec", "volumeClaimTemplatesPolicy") },
		"the pod has a default": func(u *unstructured.Unstructured) {
			set(u, false, "spec", "podTemplate", "spec", "automountServiceAccountToken")
		},
		"a container has a default": func(u *unstructured.Unstructured) { container(u)["terminationMessagePath"] = "/dev/termination-log" },
		"an empty value was dropped": func(u *unstructured.Unstructured) {
			delete(container(u), "resources")
			delete(container(u), "command")
			delete(container(u), "workingDir")
		},
		"somebody labelled it": func(u *unstructured.Unstructured) { u.SetLabels(map[string]string{"team": "a"}) },
		"the status moved":     func(u *unstructured.Unstructured) { u.Object["status"] = map[string]any{"readyReplicas": int64(1)} },
	} {
		t.Run(sentence, func(t *testing.T) {
			t.Parallel()
			p := newPooled(V1Beta1)
			spec := templateSpec()
			c := spec.Pod.Spec["containers"].([]any)[0].(map[string]any)
			c["resources"], c["command"], c["workingDir"] = map[string]any{}, []any{}, ""
			u := p.api.BuildTemplate(spec)
			change(u)
			put(t, p.FakeDynamicClient, p.api.Templates(), u)
			p.ClearActions()

			require.NoError(t, p.client.EnsureTemplate(t.Context(), spec))
			assert.Equal(t, []string{"get"}, verbs(p.FakeDynamicClient))
		})
	}
}

func container(u *unstructured.Unstructured) map[string]any {
	pod := u.Object["spec"].(map[string]any)["podTemplate"].(map[string]any)["spec"].(map[string]any)
	return pod["containers"].([]any)[0].(map[string]any)
}

func TestEnsureTemplateMendsWhatDiffers(t *testing.T) {
	t.Parallel()
	for sentence, change := range map[string]func(u *unstructured.Unstructured){
		"another image":    func(u *unstructured.Unstructured) { container(u)["image"] = "evil:1" },
		"a container more": func(u *unstructured.Unstructured) { appendContainer(u) },
		"a field of ours is gone": func(u *unstructured.Unstructured) {
			unstructured.RemoveNestedField(u.Object, "spec", "podTemplate", "spec", "runtimeClassName")
		},
		"another network policy":     func(u *unstructured.Unstructured) { set(u, "Managed", "spec", "networkPolicyManagement") },
		"another installation's age": func(u *unstructured.Unstructured) { u.SetAnnotations(nil) },
		"no spec at all":             func(u *unstructured.Unstructured) { delete(u.Object, "spec") },
	} {
		t.Run(sentence, func(t *testing.T) {
			t.Parallel()
			p := newPooled(V1Beta1)
			u := p.api.BuildTemplate(templateSpec())
			u.SetLabels(map[string]string{"team": "a"})
			u.SetAnnotations(map[string]string{annotationSpecHash: u.GetAnnotations()[annotationSpecHash]})
			change(u)
			put(t, p.FakeDynamicClient, p.api.Templates(), u)

			require.NoError(t, p.client.EnsureTemplate(t.Context(), templateSpec()))

			want := p.api.BuildTemplate(templateSpec())
			got := p.template(t)
			assert.Equal(t, want.Object["spec"], got.Object["spec"])
			assert.Equal(t, want.GetAnnotations(), got.GetAnnotations())
			assert.Equal(t, map[string]string{"team": "a"}, got.GetLabels(), "what is not ours stays")
		})
	}
}

func appendContainer(u *unstructured.Unstructured) {
	pod := u.Object["spec"].(map[string]any)["podTemplate"].(map[string]any)["spec"].(map[string]any)
	pod["containers"] = append(pod["containers"].([]any), map[string]any{"name": "more"})
}

func TestEnsureTemplateTakesAwayAFieldThatWeNoLongerSet(t *testing.T) {
	t.Parallel()
	p := newPooled(V1Beta1)
	require.NoError(t, p.client.EnsureTemplate(t.Context(), templateSpec()))
	spec := templateSpec()
	delete(spec.Pod.Spec, "runtimeClassName")

	require.NoError(t, p.client.EnsureTemplate(t.Context(), spec))

	_, found, err := unstructured.NestedString(p.template(t).Object, "spec", "podTemplate", "spec", "runtimeClassName")
	require.NoError(t, err)
	assert.False(t, found)
}

func TestEnsureWarmPoolResizesAndLeavesTheRest(t *testing.T) {
	t.Parallel()
	p := newPooled(V1Beta1)
	put(t, p.FakeDynamicClient, p.api.WarmPools(), set(p.api.BuildWarmPool(poolSpec()), "Recreate", "spec", "updateStrategy", "type"))
	spec := poolSpec()
	spec.Replicas = 5

	_, err := p.client.EnsureWarmPool(t.Context(), spec)
	require.NoError(t, err)

	want := set(p.api.BuildWarmPool(spec), "Recreate", "spec", "updateStrategy", "type")
	assert.Equal(t, want.Object["spec"], p.pool(t).Object["spec"])
}

func TestAStrangersObjectIsNeverTouched(t *testing.T) {
	t.Parallel()
	controller := true
	for sentence, owners := range map[string][]metav1.OwnerReference{
		"without an owner":                     nil,
		"of an earlier one of that name":       {{Kind: "CodeInterpreter", Name: "warm", UID: "another", Controller: &controller}},
		"that we own without being in control": {{Kind: "CodeInterpreter", Name: "warm", UID: types.UID(testUID)}},
	} {
		t.Run(sentence, func(t *testing.T) {
			t.Parallel()
			p := newPooled(V1Beta1)
			template, pool := p.api.BuildTemplate(TemplateSpec{Namespace: "team", Name: "warm"}), p.api.BuildWarmPool(PoolSpec{Namespace: "team", Name: "warm"})
			template.SetOwnerReferences(owners)
			pool.SetOwnerReferences(owners)
			put(t, p.FakeDynamicClient, p.api.Templates(), template)
			put(t, p.FakeDynamicClient, p.api.WarmPools(), pool)
			p.ClearActions()

			require.ErrorIs(t, p.client.EnsureTemplate(t.Context(), templateSpec()), ErrNotOwned)
			_, err := p.client.EnsureWarmPool(t.Context(), poolSpec())
			require.ErrorIs(t, err, ErrNotOwned)
			require.NoError(t, p.client.DeleteTemplate(t.Context(), "team", "warm", testUID))
			require.NoError(t, p.client.DeleteWarmPool(t.Context(), "team", "warm", testUID))
			assert.Equal(t, []string{"get", "get", "get", "get"}, verbs(p.FakeDynamicClient))
		})
	}
}

func TestAnUnknownOwnerOwnsNothing(t *testing.T) {
	t.Parallel()
	p := newPooled(V1Beta1)
	put(t, p.FakeDynamicClient, p.api.WarmPools(), p.api.BuildWarmPool(PoolSpec{Namespace: "team", Name: "warm"}))

	require.NoError(t, p.client.DeleteWarmPool(t.Context(), "team", "warm", ""))
	p.pool(t)
}

func TestDeleteOwned(t *testing.T) {
	t.Parallel()
	p := newPooled(V1Beta1)
	require.NoError(t, p.client.DeleteTemplate(t.Context(), "team", "warm", testUID), "what is not there is deleted")

	put(t, p.FakeDynamicClient, p.api.Templates(), marked(p.api.BuildTemplate(templateSpec()), "its own", "1"))
	put(t, p.FakeDynamicClient, p.api.WarmPools(), marked(p.api.BuildWarmPool(poolSpec()), "its own", "1"))
	require.NoError(t, p.client.DeleteTemplate(t.Context(), "team", "warm", testUID))
	require.NoError(t, p.client.DeleteWarmPool(t.Context(), "team", "warm", testUID))

	_, err := p.client.readPooled(t.Context(), p.api.Templates(), "team", "warm")
	require.ErrorIs(t, err, ErrNotFound)
	_, err = p.client.readPooled(t.Context(), p.api.WarmPools(), "team", "warm")
	require.ErrorIs(t, err, ErrNotFound)
}

func TestPoolsAndFailures(t *testing.T) {
	t.Parallel()
	down := apierrors.NewServiceUnavailable("starting")
	conflict := apierrors.NewConflict(claims, "warm", errors.New("the object has been modified"))
	smaller := poolSpec()
	smaller.Replicas = 1

	for sentence, c := range map[string]struct {
		exists bool
		verb   string
		err    error
		ensure error // nil: no error
		remove error
	}{
		"the read fails":                    {true, "get", down, ErrUnavailable, ErrUnavailable},
		"the create fails":                  {false, "create", down, ErrUnavailable, nil},
		"somebody creates it meanwhile":     {false, "create", apierrors.NewAlreadyExists(claims, "warm"), ErrConflict, nil},
		"the update fails":                  {true, "update", down, ErrUnavailable, nil},
		"somebody updates it meanwhile":     {true, "update", conflict, ErrConflict, nil},
		"the delete fails":                  {true, "delete", down, nil, ErrUnavailable},
		"it was replaced before the delete": {true, "delete", conflict, nil, nil},
		"it was gone before the delete":     {true, "delete", apierrors.NewNotFound(claims, "warm"), nil, nil},
	} {
		t.Run(sentence, func(t *testing.T) {
			t.Parallel()
			p := newPooled(V1Beta1)
			if c.exists {
				put(t, p.FakeDynamicClient, p.api.WarmPools(), p.api.BuildWarmPool(poolSpec()))
			}
			failing(p.FakeDynamicClient, c.verb, "sandboxwarmpools", c.err)

			_, err := p.client.EnsureWarmPool(t.Context(), smaller)
			require.ErrorIs(t, err, c.ensure)
			err = p.client.DeleteWarmPool(t.Context(), "team", "warm", testUID)
			require.ErrorIs(t, err, c.remove)
		})
	}
}

func TestEnsureWaitsForOneThatIsBeingDeleted(t *testing.T) {
	t.Parallel()
	p := newPooled(V1Beta1)
	u := p.api.BuildWarmPool(poolSpec())
	u.SetFinalizers([]string{"example.com/hold"})
	u.SetDeletionTimestamp(&metav1.Time{Time: time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)})
	put(t, p.FakeDynamicClient, p.api.WarmPools(), u)

	_, err := p.client.EnsureWarmPool(t.Context(), poolSpec())
	require.ErrorIs(t, err, ErrConflict)
}
