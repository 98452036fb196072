package fleet

import (
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/agentcube/agentcube/pkg/sandbox"
	"github.com/agentcube/agentcube/pkg/session"
)

// api is the version that the objects are of.
var api = sandbox.API{Version: sandbox.V1Beta1}

// Object is what the cluster holds of session i, as an API server shows it: with
// status and the book-keeping of who wrote which field, which is a good part of
// what has to be decoded.
func (f Fleet) Object(i int) *unstructured.Unstructured {
	spec := f.spec(i)
	u := api.BuildSandbox(spec)
	if Pooled(i) {
		u = api.BuildClaim(spec)
	}
	f.stamp(u, spec.Object.UID, i)
	status := map[string]any{"conditions": f.conditions()}
	if Pooled(i) {
		status["sandbox"] = map[string]any{"name": f.adopted(i).Name, "podIPs": []any{address(i)}}
	} else {
		status["podIPs"] = []any{address(i)}
	}
	u.Object["status"] = status
	return u
}

// Adopted is the Sandbox that the claim of session i has taken from its pool. It
// bears none of our labels.
func (f Fleet) Adopted(i int) *unstructured.Unstructured {
	ref := f.adopted(i)
	u := api.BuildSandbox(sandbox.Spec{
		Object: session.ObjectRef{Kind: session.KindSandbox, Namespace: Namespace(i), Name: ref.Name},
		Pod:    podTemplate(),
	})
	u.SetLabels(map[string]string{"agents.x-k8s.io/claim-uid": f.object(i).UID})
	f.stamp(u, ref.UID, i)
	u.Object["status"] = map[string]any{"conditions": f.conditions(), "podIPs": []any{address(i)}}
	return u
}

func (f Fleet) stamp(u *unstructured.Unstructured, uid string, i int) {
	metadata := u.Object["metadata"].(map[string]any)
	metadata["uid"] = uid
	metadata["resourceVersion"] = strconv.FormatInt(ResourceVersion(i), 10)
	metadata["generation"] = int64(1)
	metadata["creationTimestamp"] = f.Created.UTC().Format(time.RFC3339)
	metadata["managedFields"] = []any{
		f.manager(sandbox.ManagedByAgentCube, "", map[string]any{
			"f:metadata": map[string]any{"f:labels": owned(u.GetLabels()), "f:annotations": owned(u.GetAnnotations())},
			"f:spec":     map[string]any{"f:operatingMode": map[string]any{}, "f:podTemplate": map[string]any{}},
		}),
		f.manager("agent-sandbox-controller", "status", map[string]any{
			"f:status": map[string]any{"f:conditions": map[string]any{}, "f:podIPs": map[string]any{}},
		}),
	}
}

func (f Fleet) manager(name, subresource string, fields map[string]any) map[string]any {
	entry := map[string]any{
		"manager": name, "operation": "Update", "apiVersion": "agents.x-k8s.io/" + sandbox.V1Beta1,
		"time": f.Created.UTC().Format(time.RFC3339), "fieldsType": "FieldsV1", "fieldsV1": fields,
	}
	if subresource != "" {
		entry["subresource"] = subresource
	}
	return entry
}

func owned(values map[string]string) map[string]any {
	out := map[string]any{".": map[string]any{}}
	for key := range values {
		out["f:"+key] = map[string]any{}
	}
	return out
}

func (f Fleet) conditions() []any {
	at := f.Created.UTC().Format(time.RFC3339)
	return []any{
		map[string]any{
			"type": "PodScheduled", "status": "True", "reason": "PodScheduled", "message": "",
			"lastTransitionTime": at, "observedGeneration": int64(1),
		},
		map[string]any{
			"type": "Ready", "status": "True", "reason": "DependenciesReady",
			"message":            "Pod is Ready; Service is not required",
			"lastTransitionTime": at, "observedGeneration": int64(1),
		},
	}
}

// podTemplate has the size of one in use: two containers would be unusual, some
// settings are not.
func podTemplate() sandbox.PodTemplate {
	environment := []any{}
	for _, name := range []string{"HOME", "LANG", "LOG_LEVEL", "MODEL_ENDPOINT", "WORKSPACE", "PICOD_AUTH_PUBLIC_KEY"} {
		environment = append(environment, map[string]any{"name": name, "value": "a value of ordinary length for " + name})
	}
	limits := map[string]any{"cpu": "500m", "memory": "512Mi"}
	return sandbox.PodTemplate{
		Labels: map[string]string{"app": "agent", "tier": "sandbox"},
		Spec: map[string]any{
			"automountServiceAccountToken": false,
			"containers": []any{map[string]any{
				"name": "agent", "image": "registry.example/agents/agent:v1", "imagePullPolicy": "IfNotPresent",
				"ports":     []any{map[string]any{"containerPort": port, "protocol": "TCP"}},
				"env":       environment,
				"resources": map[string]any{"limits": limits, "requests": limits},
				"securityContext": map[string]any{
					"allowPrivilegeEscalation": false, "runAsNonRoot": true,
					"capabilities": map[string]any{"drop": []any{"ALL"}},
				},
				"volumeMounts": []any{map[string]any{"name": "workspace", "mountPath": "/workspace"}},
			}},
			"volumes": []any{map[string]any{"name": "workspace", "emptyDir": map[string]any{}}},
		},
	}
}
