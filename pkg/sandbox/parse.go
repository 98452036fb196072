package sandbox

import (
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/agentcube/agentcube/pkg/session"
)

// Parse reads a Sandbox or SandboxClaim of either version. Whatever a field
// holds that it should not is taken as absent; the only errors are no object
// and an object of another kind.
func (a API) Parse(u *unstructured.Unstructured) (Object, error) {
	if u == nil || u.Object == nil {
		return Object{}, errors.New("parsing an object: there is none")
	}
	o := parseMetadata(u)
	found := conditions(u)
	ready := found[conditionReady]
	o.Reason, o.Message = ready.Reason, ready.Message

	switch u.GetKind() {
	case session.KindSandbox:
		o.SandboxName, o.SandboxUID = o.Ref.Name, o.Ref.UID
		o.Addresses = stringsAt(u, "status", "podIPs")
		o.Suspended = suspended(u)
		// Both versions give Ready the generation it was computed from
		// (computeReadyCondition). A claim copies it from its Sandbox, so there
		// it says nothing of the claim.
		o.Outdated = ready.Observed != 0 && ready.Observed < u.GetGeneration()
	case session.KindSandboxClaim:
		o.SandboxName, _, _ = unstructured.NestedString(u.Object, "status", "sandbox", "name")
		o.Assigned = assigned(u)
		o.Addresses = stringsAt(u, "status", "sandbox", "podIPs")
		// A claim has no switch of its own and copies the condition of its
		// Sandbox. On v0.4.x that one says Ready, without an address: there the
		// Sandbox itself must be asked.
		o.Suspended = ready.Status == "False" && ready.Reason == reasonSandboxSuspended
	default:
		return Object{}, fmt.Errorf("parsing an object: %q carries no session", u.GetKind())
	}
	// v0.4.x reports a Sandbox with zero replicas as ready, and both versions
	// say Ready until they have noticed the switch.
	o.Ready = ready.Status == "True" && !o.Suspended
	o.Failure = failure(ready, found[conditionFinished])
	return o, nil
}

// parseMetadata reads what every object has.
func parseMetadata(u *unstructured.Unstructured) Object {
	labels := u.GetLabels()
	return Object{
		Ref: session.ObjectRef{
			Kind: u.GetKind(), Namespace: u.GetNamespace(), Name: u.GetName(), UID: string(u.GetUID()),
		},
		SessionID:       labels[LabelSessionID],
		Workload:        labels[LabelWorkloadName],
		Installation:    labels[LabelInstallation],
		ResourceVersion: u.GetResourceVersion(),
		CreatedAt:       u.GetCreationTimestamp().Time,
		Deleting:        u.GetDeletionTimestamp() != nil,
	}
}

// assigned is in an annotation in v0.5.x and in a label in v0.4.x
// (extensions/api/*/sandboxclaim_types.go of both).
func assigned(u *unstructured.Unstructured) string {
	const key = "agents.x-k8s.io/sandbox-name"
	if name := u.GetAnnotations()[key]; name != "" {
		return name
	}
	return u.GetLabels()[key]
}

// suspended tells the switch of a Sandbox, which is replicas in v1alpha1 and
// operatingMode in v1beta1. The Suspended condition is not asked: it lingers
// after a resume.
func suspended(u *unstructured.Unstructured) bool {
	mode, _, _ := unstructured.NestedString(u.Object, "spec", "operatingMode")
	if mode == modeSuspended {
		return true
	}
	replicas, found, err := unstructured.NestedInt64(u.Object, "spec", "replicas")
	return found && err == nil && replicas == 0
}

// stringsAt is the list of non-empty strings at a path, nil without one.
func stringsAt(u *unstructured.Unstructured, path ...string) []string {
	value, _, _ := unstructured.NestedFieldNoCopy(u.Object, path...)
	items, _ := value.([]any)
	var out []string
	for _, item := range items {
		if s, ok := item.(string); ok && s != "" {
			out = append(out, s)
		}
	}
	return out
}
