package sandbox

import (
	"encoding/json"
	"fmt"
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/agentcube/agentcube/pkg/session"
)

const (
	workloadAPIVersion = "runtime.agentcube.volcano.sh/v1alpha1"
	// shutdownRetain keeps an object past its shutdown time. Ended by us, it
	// goes together with its row; were it to vanish by itself, a lost event
	// would leave the row.
	shutdownRetain = "Retain"
	modeRunning    = "Running"
	modeSuspended  = "Suspended"
)

// BuildSandbox makes the object of a session without a warm pool.
func (a API) BuildSandbox(s Spec) *unstructured.Unstructured {
	pod := s.Pod
	pod.Labels = map[string]string{}
	maps.Copy(pod.Labels, s.Pod.Labels)
	pod.Labels[LabelSessionID] = s.SessionID
	pod.Labels[LabelSandboxName] = s.Object.Name

	spec := map[string]any{"podTemplate": podTemplate(pod), "shutdownPolicy": shutdownRetain}
	if a.Version == V1Alpha1 {
		spec["replicas"] = int64(1)
	} else {
		spec["operatingMode"] = modeRunning
	}
	if !s.ShutdownTime.IsZero() {
		spec["shutdownTime"] = shutdownTime(s.ShutdownTime)
	}
	return a.build(coreGroup, session.KindSandbox, sessionMetadata(s), spec)
}

// BuildClaim makes the object of a session that takes its sandbox from the
// warm pool of its workload, whose name the pool bears.
func (a API) BuildClaim(s Spec) *unstructured.Unstructured {
	spec := map[string]any{}
	if a.Version == V1Alpha1 {
		spec["sandboxTemplateRef"] = map[string]any{"name": s.Workload.Name}
		// The pool's own name: "default" and "none" would be converted into a
		// pool that does not exist.
		spec["warmpool"] = s.Workload.Name
	} else {
		spec["warmPoolRef"] = map[string]any{"name": s.Workload.Name}
	}
	if !s.ShutdownTime.IsZero() {
		spec["lifecycle"] = map[string]any{
			"shutdownTime": shutdownTime(s.ShutdownTime), "shutdownPolicy": shutdownRetain,
		}
	}
	return a.build(extensionsGroup, session.KindSandboxClaim, sessionMetadata(s), spec)
}

// BuildTemplate makes the SandboxTemplate of a CodeInterpreter's pool. The
// controller's own NetworkPolicy would shut our router out, so it is told to
// make none.
func (a API) BuildTemplate(t TemplateSpec) *unstructured.Unstructured {
	spec := map[string]any{
		"podTemplate":             podTemplate(t.Pod),
		"networkPolicyManagement": "Unmanaged",
		"envVarsInjectionPolicy":  "Disallowed",
	}
	metadata := pooledMetadata(t.Namespace, t.Name, t.OwnerUID)
	metadata["annotations"] = map[string]any{annotationSpecHash: specHash(spec)}
	return a.build(extensionsGroup, "SandboxTemplate", metadata, spec)
}

// BuildWarmPool makes the SandboxWarmPool of a CodeInterpreter.
func (a API) BuildWarmPool(p PoolSpec) *unstructured.Unstructured {
	return a.build(extensionsGroup, "SandboxWarmPool", pooledMetadata(p.Namespace, p.Name, p.OwnerUID), map[string]any{
		"replicas":           int64(p.Replicas),
		"sandboxTemplateRef": map[string]any{"name": p.Name},
	})
}

func (a API) build(group, kind string, metadata, spec map[string]any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": group + "/" + a.Version,
		"kind":       kind,
		"metadata":   metadata,
		"spec":       spec,
	}}
}

// sessionMetadata is what both kinds that carry a session have in common.
func sessionMetadata(s Spec) map[string]any {
	labels := map[string]any{
		LabelSessionID:    s.SessionID,
		LabelWorkloadName: WorkloadLabel(s.Workload.Name),
		LabelSandboxName:  s.Object.Name,
		LabelManagedBy:    ManagedByAgentCube,
	}
	annotations := map[string]any{}
	if s.Installation != "" {
		labels[LabelInstallation] = s.Installation
	}
	if s.OwnerID != "" {
		labels[LabelOwnerHash] = OwnerHash(s.OwnerID)
		annotations[AnnotationOwner] = s.OwnerID
	}
	if s.IdleTimeout > 0 {
		annotations[AnnotationIdle] = s.IdleTimeout.String()
	}
	metadata := map[string]any{"namespace": s.Object.Namespace, "name": s.Object.Name, "labels": labels}
	if len(annotations) > 0 {
		metadata["annotations"] = annotations
	}
	if s.WorkloadUID != "" {
		metadata["ownerReferences"] = []any{ownerReference(s.Workload.Kind, s.Workload.Name, s.WorkloadUID)}
	}
	return metadata
}

// pooledMetadata is that of an object which its CodeInterpreter controls.
func pooledMetadata(namespace, name, ownerUID string) map[string]any {
	owner := ownerReference(session.KindCodeInterpreter, name, ownerUID)
	owner["controller"] = true
	owner["blockOwnerDeletion"] = true
	return map[string]any{"namespace": namespace, "name": name, "ownerReferences": []any{owner}}
}

func ownerReference(kind, name, uid string) map[string]any {
	return map[string]any{"apiVersion": workloadAPIVersion, "kind": kind, "name": name, "uid": uid}
}

func podTemplate(p PodTemplate) map[string]any {
	metadata := map[string]any{}
	if len(p.Labels) > 0 {
		metadata["labels"] = stringMap(p.Labels)
	}
	if len(p.Annotations) > 0 {
		metadata["annotations"] = stringMap(p.Annotations)
	}
	return map[string]any{"metadata": metadata, "spec": jsonCopy(p.Spec)}
}

func stringMap(m map[string]string) map[string]any {
	out := make(map[string]any, len(m))
	for k, v := range m {
		out[k] = v
	}
	return out
}

// jsonCopy is a deep copy in the types that unstructured objects are made of,
// whatever Go types the caller built the value from: their DeepCopy panics on
// an int or a []string. It panics itself on what JSON cannot express.
func jsonCopy(m map[string]any) map[string]any {
	out := map[string]any{}
	data, err := json.Marshal(m)
	if err == nil {
		err = utiljson.Unmarshal(data, &out)
	}
	if err != nil {
		panic(fmt.Sprintf("a pod template is no JSON: %v", err))
	}
	if out == nil {
		return map[string]any{}
	}
	return out
}

// shutdownTime is in whole seconds, as the API keeps it, and never before the
// moment it stands for.
func shutdownTime(t time.Time) string {
	whole := t.Truncate(time.Second)
	if whole.Before(t) {
		whole = whole.Add(time.Second)
	}
	return whole.UTC().Format(time.RFC3339)
}
