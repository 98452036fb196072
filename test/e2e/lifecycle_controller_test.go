package e2e

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/agentcube/agentcube/pkg/api"
	"github.com/agentcube/agentcube/test/system"
)

// controllerBehaviours take the place of the agent-sandbox controller.
var controllerBehaviours = []behaviour{
	{"a sandbox that is ready before it has an address is waited for until it has one", addressLate},
	{"a create that our own role does not allow is our mistake, and leaves nothing", roleLacksRight},
}

func addressLate(t *testing.T, e *env) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	port := listener.Addr().(*net.TCPAddr).Port
	e.apply(t, fmt.Sprintf(portTemplate, port, port))
	require.NoError(t, e.Cluster.Controller.Pause())
	t.Cleanup(func() { require.NoError(t, e.Cluster.Controller.Resume()) })

	create := e.begin(t, cold, "echo")
	name := e.object(t).GetName()
	ready := fmt.Sprintf(`"conditions":[{"type":"Ready","status":"True","reason":"DependenciesReady","message":"","lastTransitionTime":%q}]`,
		time.Now().UTC().Format(time.RFC3339))
	e.patchStatus(t, name, `{`+ready+`}`)
	select {
	case <-create.done:
		require.Fail(t, "a create is over without an address", create.answer)
	case <-time.After(500 * time.Millisecond):
	}
	e.patchStatus(t, name, `{`+ready+`,"podIPs":["127.0.0.1"]}`)
	require.Equal(t, http.StatusOK, create.wait(t).status, create.answer)
	var s api.CreateResponse
	create.answer.decode(t, &s)
	require.Len(t, s.EntryPoints, 1)
	assert.Equal(t, net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), s.EntryPoints[0].Endpoint)
	e.deletes(t, s.SessionID)
}

const portTemplate = `
apiVersion: runtime.agentcube.volcano.sh/v1alpha1
kind: AgentRuntime
metadata: {name: echo, namespace: NAMESPACE}
spec:
  targetPort: [{pathPrefix: /, port: %d}]
  podTemplate:
    spec:
      containers:
      - {name: echo, image: echo, ports: [{containerPort: %d}]}
`

func (e *env) patchStatus(t *testing.T, name, status string) {
	t.Helper()
	_, err := e.client.Resource(e.api.Sandboxes()).Namespace(e.namespace).Patch(t.Context(), name, types.MergePatchType,
		[]byte(`{"status":`+status+`}`), metav1.PatchOptions{}, "status")
	require.NoError(t, err)
}

var (
	clusterRoles  = schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterroles"}
	accessReviews = schema.GroupVersionResource{Group: "authorization.k8s.io", Version: "v1", Resource: "subjectaccessreviews"}
)

func roleLacksRight(t *testing.T, e *env) {
	for _, w := range ways {
		w.prepare(t, e, w.name())
	}
	e.withoutRightToCreate(t)
	for _, w := range ways {
		message := fails(t, e.post(t, w.route, w.name()), http.StatusInternalServerError, api.CodeInternal)
		assert.Equal(t, "internal error", message, "no internal detail")
	}
	e.clean(t)
}

// withoutRightToCreate takes the manager's right to create the objects of
// sessions, until the end of the test.
func (e *env) withoutRightToCreate(t *testing.T) {
	t.Helper()
	manifest := filepath.Join(system.Root(), "manifests", "base", "workload-manager-rbac.yaml")
	t.Cleanup(func() { require.NoError(t, e.Cluster.ApplyFile(context.WithoutCancel(t.Context()), manifest)) })
	role, err := e.client.Resource(clusterRoles).Get(t.Context(), "agentcube-workload-manager", metav1.GetOptions{})
	require.NoError(t, err)
	rules, _, err := unstructured.NestedSlice(role.Object, "rules")
	require.NoError(t, err)
	for _, r := range rules {
		rule, ok := r.(map[string]any)
		require.True(t, ok)
		if resources, _ := rule["resources"].([]any); slices.Contains(resources, any("sandboxes")) ||
			slices.Contains(resources, any("sandboxclaims")) {
			rule["verbs"] = []any{"get", "list", "watch", "delete", "patch"}
		}
	}
	require.NoError(t, unstructured.SetNestedSlice(role.Object, rules, "rules"))
	_, err = e.client.Resource(clusterRoles).Update(t.Context(), role, metav1.UpdateOptions{})
	require.NoError(t, err)
	for _, resource := range []schema.GroupVersionResource{e.api.Sandboxes(), e.api.Claims()} {
		require.Eventually(t, func() bool { return !e.mayCreate(t, resource) }, settle, probeInterval)
	}
}

// mayCreate asks the API server for the manager's right.
func (e *env) mayCreate(t *testing.T, resource schema.GroupVersionResource) bool {
	t.Helper()
	review := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
		"spec": map[string]any{
			"user": "system:serviceaccount:" + system.Namespace + ":workload-manager",
			"resourceAttributes": map[string]any{
				"namespace": e.namespace, "verb": "create", "group": resource.Group, "resource": resource.Resource,
			},
		},
	}}
	answer, err := e.client.Resource(accessReviews).Create(t.Context(), review, metav1.CreateOptions{})
	require.NoError(t, err)
	allowed, _, err := unstructured.NestedBool(answer.Object, "status", "allowed")
	require.NoError(t, err)
	return allowed
}
