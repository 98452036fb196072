package sandbox

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/agentcube/agentcube/pkg/session"
)

// The conditions below are those that the controllers of the version named
// write, word for word: controllers/sandbox_controller.go and
// extensions/controllers/sandboxclaim_controller.go.

type observedParts struct {
	Ready, Suspended bool
	Failure          *Failure
	Reason, Message  string
	Addresses        []string
	SandboxName      string
}

func observed(o Object) observedParts {
	return observedParts{o.Ready, o.Suspended, o.Failure, o.Reason, o.Message, o.Addresses, o.SandboxName}
}

func ready(status, reason, message string) map[string]any {
	return map[string]any{"type": "Ready", "status": status, "reason": reason, "message": message}
}

func finished(reason, message string) map[string]any {
	return map[string]any{"type": "Finished", "status": "True", "reason": reason, "message": message}
}

func withStatus(u *unstructured.Unstructured, addresses []any, conditions ...any) *unstructured.Unstructured {
	status := map[string]any{"conditions": conditions}
	if addresses != nil {
		status["podIPs"] = addresses
	}
	u.Object["status"] = status
	return u
}

func withClaimStatus(u *unstructured.Unstructured, name string, addresses []any, conditions ...any) *unstructured.Unstructured {
	bound := map[string]any{}
	if name != "" {
		bound["name"] = name
	}
	if addresses != nil {
		bound["podIPs"] = addresses
	}
	u.Object["status"] = map[string]any{"conditions": conditions, "sandbox": bound}
	return u
}

func set(u *unstructured.Unstructured, value any, path ...string) *unstructured.Unstructured {
	if err := unstructured.SetNestedField(u.Object, value, path...); err != nil {
		panic(err)
	}
	return u
}

const quotaMessage = `Error seen: pods "echo-m7uzauz2" is forbidden: exceeded quota: compute, requested: pods=1, used: pods=3, limited: pods=3`

func TestParseSandbox(t *testing.T) {
	t.Parallel()
	const name = "echo-m7uzauz2"
	old, latest := API{Version: V1Alpha1}, API{Version: V1Beta1}
	for sentence, c := range map[string]struct {
		object *unstructured.Unstructured
		want   observedParts
	}{
		"without a status nothing is known": {
			latest.BuildSandbox(sandboxSpec()), observedParts{SandboxName: name},
		},
		"ready with an address": {
			withStatus(latest.BuildSandbox(sandboxSpec()), []any{"10.0.0.7", "fd00::7"}, ready("True", "DependenciesReady", "Pod is Ready")),
			observedParts{Ready: true, Reason: "DependenciesReady", Message: "Pod is Ready", Addresses: []string{"10.0.0.7", "fd00::7"}, SandboxName: name},
		},
		"ready before it has an address": {
			withStatus(latest.BuildSandbox(sandboxSpec()), nil, ready("True", "DependenciesReady", "Pod is Ready")),
			observedParts{Ready: true, Reason: "DependenciesReady", Message: "Pod is Ready", SandboxName: name},
		},
		"a pending pod passes": {
			withStatus(latest.BuildSandbox(sandboxSpec()), nil, ready("False", "DependenciesNotReady", "Pod exists with phase: Pending")),
			observedParts{Reason: "DependenciesNotReady", Message: "Pod exists with phase: Pending", SandboxName: name},
		},
		"a modified object passes": {
			withStatus(old.BuildSandbox(sandboxSpec()), nil, ready("False", "ReconcilerError", `Error seen: failed to patch pod: Operation cannot be fulfilled on pods "x": the object has been modified`)),
			observedParts{Reason: "ReconcilerError", Message: `Error seen: failed to patch pod: Operation cannot be fulfilled on pods "x": the object has been modified`, SandboxName: name},
		},
		"a quota that is not counted yet passes": {
			withStatus(old.BuildSandbox(sandboxSpec()), nil, ready("False", "ReconcilerError", `Error seen: pods "x" is forbidden: status unknown for quota: compute, resources: pods`)),
			observedParts{Reason: "ReconcilerError", Message: `Error seen: pods "x" is forbidden: status unknown for quota: compute, resources: pods`, SandboxName: name},
		},
		"more than one pod passes": {
			withStatus(latest.BuildSandbox(sandboxSpec()), nil, ready("False", "MultiplePods", "two")),
			observedParts{Reason: "MultiplePods", Message: "two", SandboxName: name},
		},
		"a full quota is final": {
			withStatus(latest.BuildSandbox(sandboxSpec()), nil, ready("False", "ReconcilerError", quotaMessage)),
			observedParts{
				Reason: "ReconcilerError", Message: quotaMessage, SandboxName: name,
				Failure: &Failure{Reason: "ReconcilerError", Message: quotaMessage, Quota: true},
			},
		},
		"v0.5: a failed pod is told by Ready and Finished": {
			withStatus(latest.BuildSandbox(sandboxSpec()), []any{"10.0.0.7"}, ready("False", "PodFailed", "Pod failed"), finished("PodFailed", "Pod failed")),
			observedParts{
				Reason: "PodFailed", Message: "Pod failed", Addresses: []string{"10.0.0.7"}, SandboxName: name,
				Failure: &Failure{Reason: "PodFailed", Message: "Pod failed", Ended: true},
			},
		},
		"v0.4: a failed pod is told by Finished alone": {
			withStatus(old.BuildSandbox(sandboxSpec()), nil, ready("False", "DependenciesNotReady", "Pod exists with phase: Failed"), finished("PodFailed", "Pod failed")),
			observedParts{
				Reason: "DependenciesNotReady", Message: "Pod exists with phase: Failed", SandboxName: name,
				Failure: &Failure{Reason: "PodFailed", Message: "Pod failed", Ended: true},
			},
		},
		"a pod that completed has ended too": {
			withStatus(old.BuildSandbox(sandboxSpec()), nil, finished("PodSucceeded", "Pod completed successfully")),
			observedParts{
				SandboxName: name,
				Failure:     &Failure{Reason: "PodSucceeded", Message: "Pod completed successfully", Ended: true},
			},
		},
		"a Finished that is not true says nothing": {
			withStatus(old.BuildSandbox(sandboxSpec()), nil, map[string]any{"type": "Finished", "status": "False", "reason": "PodFailed"}),
			observedParts{SandboxName: name},
		},
		"Ready decides over a Finished that lingers": {
			withStatus(latest.BuildSandbox(sandboxSpec()), []any{"10.0.0.7"}, ready("True", "DependenciesReady", ""), finished("PodFailed", "Pod failed")),
			observedParts{Ready: true, Reason: "DependenciesReady", Addresses: []string{"10.0.0.7"}, SandboxName: name},
		},
		"its time is over": {
			withStatus(old.BuildSandbox(sandboxSpec()), nil, ready("False", "SandboxExpired", "Sandbox has expired")),
			observedParts{
				Reason: "SandboxExpired", Message: "Sandbox has expired", SandboxName: name,
				Failure: &Failure{Reason: "SandboxExpired", Message: "Sandbox has expired", Ended: true},
			},
		},
		"v0.5: suspended": {
			withStatus(set(latest.BuildSandbox(sandboxSpec()), "Suspended", "spec", "operatingMode"), nil, ready("False", "SandboxSuspended", "Sandbox is suspended")),
			observedParts{Suspended: true, Reason: "SandboxSuspended", Message: "Sandbox is suspended", SandboxName: name},
		},
		"v0.5: suspended, and the controller has not noticed": {
			withStatus(set(latest.BuildSandbox(sandboxSpec()), "Suspended", "spec", "operatingMode"), []any{"10.0.0.7"}, ready("True", "DependenciesReady", "Pod is Ready")),
			observedParts{Suspended: true, Reason: "DependenciesReady", Message: "Pod is Ready", Addresses: []string{"10.0.0.7"}, SandboxName: name},
		},
		"v0.5: resumed, with a Suspended condition that lingers": {
			withStatus(latest.BuildSandbox(sandboxSpec()), []any{"10.0.0.7"}, ready("True", "DependenciesReady", ""), map[string]any{"type": "Suspended", "status": "True"}),
			observedParts{Ready: true, Reason: "DependenciesReady", Addresses: []string{"10.0.0.7"}, SandboxName: name},
		},
		"v0.4: zero replicas are suspended, whatever Ready says": {
			withStatus(set(old.BuildSandbox(sandboxSpec()), int64(0), "spec", "replicas"), nil, ready("True", "DependenciesReady", "Pod does not exist, replicas is 0")),
			observedParts{Suspended: true, Reason: "DependenciesReady", Message: "Pod does not exist, replicas is 0", SandboxName: name},
		},
		"what has another shape is left out": {
			set(withStatus(latest.BuildSandbox(sandboxSpec()), []any{"", int64(4), "10.0.0.7"}, "no condition", map[string]any{"status": "True"}), int64(9), "spec", "operatingMode"),
			observedParts{Addresses: []string{"10.0.0.7"}, SandboxName: name},
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			t.Parallel()
			got, err := latest.Parse(c.object)
			require.NoError(t, err)
			assert.Equal(t, c.want, observed(got))
		})
	}
}

func TestAStatusIsOutdated(t *testing.T) {
	t.Parallel()
	latest := API{Version: V1Beta1}
	observed := func(generation any) map[string]any {
		c := ready("True", "DependenciesReady", "Pod is Ready")
		c["observedGeneration"] = generation
		return c
	}
	ofSandbox := func(condition map[string]any) *unstructured.Unstructured {
		return withStatus(latest.BuildSandbox(sandboxSpec()), []any{"10.0.0.7"}, condition)
	}
	for sentence, c := range map[string]struct {
		object *unstructured.Unstructured
		want   bool
	}{
		"when it was computed from an older spec":          {ofSandbox(observed(int64(2))), true},
		"not when it was computed from this one":           {ofSandbox(observed(int64(3))), false},
		"not when it does not say":                         {ofSandbox(ready("True", "DependenciesReady", "")), false},
		"not when what it says is no number":               {ofSandbox(observed("2")), false},
		"not without a status":                             {latest.BuildSandbox(sandboxSpec()), false},
		"not of a claim, which copies that of its sandbox": {withClaimStatus(latest.BuildClaim(claimSpec()), "warm-47spl", []any{"10.0.0.9"}, observed(int64(1))), false},
	} {
		t.Run(sentence, func(t *testing.T) {
			t.Parallel()
			c.object.SetGeneration(3)
			got, err := latest.Parse(c.object)
			require.NoError(t, err)
			assert.Equal(t, c.want, got.Outdated)
		})
	}
}

func TestParseClaim(t *testing.T) {
	t.Parallel()
	api := API{Version: V1Beta1}
	fails := func(reason, message string, ended bool) observedParts {
		return observedParts{Reason: reason, Message: message, Failure: &Failure{Reason: reason, Message: message, Ended: ended}}
	}
	passes := func(reason, message string) observedParts { return observedParts{Reason: reason, Message: message} }

	for sentence, c := range map[string]struct {
		reason, message string
		want            observedParts
	}{
		"rejected metadata is final":                       {"InvalidMetadata", "invalid additionalPodMetadata", fails("InvalidMetadata", "invalid additionalPodMetadata", false)},
		"rejected env is final":                            {"EnvVarsInjectionRejected", "no env", fails("EnvVarsInjectionRejected", "no env", false)},
		"rejected volumes are final":                       {"VolumeClaimTemplatesError", "no volumes", fails("VolumeClaimTemplatesError", "no volumes", false)},
		"its time is over":                                 {"ClaimExpired", "Claim expired. Sandbox cleanup initiated.", fails("ClaimExpired", "Claim expired. Sandbox cleanup initiated.", true)},
		"its sandbox's time is over":                       {"SandboxExpired", "Underlying Sandbox resource has expired independently of the Claim.", fails("SandboxExpired", "Underlying Sandbox resource has expired independently of the Claim.", true)},
		"its pod failed":                                   {"PodFailed", "Pod failed", fails("PodFailed", "Pod failed", true)},
		"its pod completed":                                {"PodSucceeded", "done", fails("PodSucceeded", "done", true)},
		"a missing template is for the waiter to judge":    {"TemplateNotFound", `SandboxTemplate "warm" not found`, passes("TemplateNotFound", `SandboxTemplate "warm" not found`)},
		"a missing pool is for the waiter to judge":        {"WarmPoolNotFound", `SandboxWarmPool "warm" not found`, passes("WarmPoolNotFound", `SandboxWarmPool "warm" not found`)},
		"contention for a sandbox passes":                  {"AdoptionConflict", "adoption write conflict; the next pass retries from a converged view", passes("AdoptionConflict", "adoption write conflict; the next pass retries from a converged view")},
		"a pending create passes":                          {"SandboxCreatePending", "Sandbox already created; waiting for cache to converge", passes("SandboxCreatePending", "Sandbox already created; waiting for cache to converge")},
		"a missing sandbox passes":                         {"SandboxMissing", "Sandbox does not exist", passes("SandboxMissing", "Sandbox does not exist")},
		"a sandbox that is not ready passes":               {"SandboxNotReady", "Sandbox is not ready", passes("SandboxNotReady", "Sandbox is not ready")},
		"an adoption that is retried passes":               {"ReconcilerError", `Error seen: failed to complete adoption of "x"`, passes("ReconcilerError", `Error seen: failed to complete adoption of "x"`)},
		"a reason of a version to come passes":             {"Pondering", "", passes("Pondering", "")},
		"quota words of another reason than an error pass": {"SandboxMissing", "exceeded quota", passes("SandboxMissing", "exceeded quota")},
	} {
		t.Run(sentence, func(t *testing.T) {
			t.Parallel()
			got, err := api.Parse(withClaimStatus(api.BuildClaim(claimSpec()), "", nil, ready("False", c.reason, c.message)))
			require.NoError(t, err)
			assert.Equal(t, c.want, observed(got))
			assert.Empty(t, got.SandboxUID, "the status does not tell it")
		})
	}
}

func TestParseBoundClaim(t *testing.T) {
	t.Parallel()
	for _, api := range []API{{V1Alpha1}, {V1Beta1}} {
		t.Run(api.Version+": it tells name and addresses of its sandbox", func(t *testing.T) {
			t.Parallel()
			got, err := api.Parse(withClaimStatus(api.BuildClaim(claimSpec()), "warm-47spl", []any{"10.0.0.9"}, ready("True", "DependenciesReady", "Pod is Ready")))
			require.NoError(t, err)
			assert.Equal(t, observedParts{
				Ready: true, Reason: "DependenciesReady", Message: "Pod is Ready",
				Addresses: []string{"10.0.0.9"}, SandboxName: "warm-47spl",
			}, observed(got))
		})
		t.Run(api.Version+": its sandbox is suspended", func(t *testing.T) {
			t.Parallel()
			got, err := api.Parse(withClaimStatus(api.BuildClaim(claimSpec()), "warm-47spl", nil, ready("False", "SandboxSuspended", "Sandbox is suspended")))
			require.NoError(t, err)
			assert.True(t, got.Suspended)
			assert.False(t, got.Ready)
			assert.Nil(t, got.Failure)
		})
		t.Run(api.Version+": its sandbox's pod has ended", func(t *testing.T) {
			t.Parallel()
			got, err := api.Parse(withClaimStatus(api.BuildClaim(claimSpec()), "warm-47spl", nil, ready("False", "DependenciesNotReady", ""), finished("PodFailed", "Pod failed")))
			require.NoError(t, err)
			assert.Equal(t, &Failure{Reason: "PodFailed", Message: "Pod failed", Ended: true}, got.Failure)
		})
	}
}

func TestParseMetadata(t *testing.T) {
	t.Parallel()
	api := API{Version: V1Beta1}
	created := time.Date(2026, 11, 30, 20, 54, 7, 0, time.UTC)
	u := api.BuildSandbox(sandboxSpec())
	u.SetUID(types.UID(testUID))
	u.SetResourceVersion("42")
	u.SetCreationTimestamp(metav1.NewTime(created))

	got, err := api.Parse(u)
	require.NoError(t, err)
	assert.Equal(t, session.ObjectRef{Kind: session.KindSandbox, Namespace: "team", Name: "echo-m7uzauz2", UID: testUID}, got.Ref)
	assert.Equal(t, testUID, got.SandboxUID)
	assert.Equal(t, testSession, got.SessionID)
	assert.Equal(t, "echo", got.Workload)
	assert.Equal(t, testInstallation, got.Installation)
	assert.Equal(t, "42", got.ResourceVersion)
	assert.True(t, created.Equal(got.CreatedAt))
	assert.False(t, got.Deleting)

	u.SetDeletionTimestamp(&metav1.Time{Time: created})
	got, err = api.Parse(u)
	require.NoError(t, err)
	assert.True(t, got.Deleting)
}

func TestParseRejectsWhatCarriesNoSession(t *testing.T) {
	t.Parallel()
	api := API{Version: V1Beta1}
	for sentence, u := range map[string]*unstructured.Unstructured{
		"nothing":      nil,
		"no content":   {},
		"another kind": api.BuildWarmPool(poolSpec()),
	} {
		t.Run(sentence, func(t *testing.T) {
			t.Parallel()
			_, err := api.Parse(u)
			assert.Error(t, err)
		})
	}
}

func FuzzParse(f *testing.F) {
	api := API{Version: V1Beta1}
	for _, u := range []*unstructured.Unstructured{
		api.BuildSandbox(sandboxSpec()),
		withStatus(API{Version: V1Alpha1}.BuildSandbox(sandboxSpec()), []any{"10.0.0.7"}, ready("False", "ReconcilerError", quotaMessage)),
		withClaimStatus(api.BuildClaim(claimSpec()), "warm-47spl", []any{"10.0.0.9"}, ready("True", "DependenciesReady", ""), finished("PodFailed", "")),
	} {
		data, err := json.Marshal(u.Object)
		require.NoError(f, err)
		f.Add(data)
	}
	f.Add([]byte(`{"kind":"Sandbox","metadata":[],"spec":7,"status":{"conditions":{"a":1},"podIPs":"x"}}`))
	f.Add([]byte(`{"kind":"SandboxClaim","metadata":{"labels":3,"deletionTimestamp":"x"},"status":{"sandbox":[]}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var object map[string]any
		if json.Unmarshal(data, &object) != nil {
			return
		}
		got, err := api.Parse(&unstructured.Unstructured{Object: object})
		if err != nil {
			return
		}
		if got.Ready && (got.Failure != nil || got.Suspended) {
			t.Errorf("ready and not: %+v", got)
		}
		if got.Failure != nil && got.Failure.Quota && got.Failure.Ended {
			t.Errorf("two ends at once: %+v", got.Failure)
		}
		for _, a := range got.Addresses {
			if a == "" {
				t.Error("an empty address")
			}
		}
	})
}

func TestAClaimSaysWhichSandboxItIsAboutToGet(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		annotations, labels map[string]string
		want                string
	}{
		"in an annotation in v0.5.x": {annotations: map[string]string{"agents.x-k8s.io/sandbox-name": "pool-1"}, want: "pool-1"},
		"in a label in v0.4.x":       {labels: map[string]string{"agents.x-k8s.io/sandbox-name": "pool-2"}, want: "pool-2"},
		"not at all at first":        {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := API{Version: V1Beta1}.BuildClaim(Spec{Object: session.ObjectRef{
				Kind: session.KindSandboxClaim, Namespace: "team", Name: "warm-03ia9k2h",
			}})
			u.SetAnnotations(c.annotations)
			u.SetLabels(c.labels)
			o, err := API{Version: V1Beta1}.Parse(u)
			require.NoError(t, err)
			assert.Equal(t, c.want, o.Assigned)
			assert.Empty(t, o.SandboxName, "it has not got it yet")
		})
	}
}
