package e2e

import (
	"context"
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/agentcube/agentcube/pkg/api"
	"github.com/agentcube/agentcube/pkg/sandbox"
	"github.com/agentcube/agentcube/test/cluster/node"
)

// existingRow is a row as the programs of existing installations read it:
// these fields with these types, and no others.
type existingRow struct {
	Kind             string           `json:"kind"`
	SandboxID        string           `json:"sandboxId"`
	SandboxNamespace string           `json:"sandboxNamespace"`
	Name             string           `json:"name"`
	EntryPoints      []api.EntryPoint `json:"entryPoints"`
	SessionID        string           `json:"sessionId"`
	OwnerID          string           `json:"ownerId"`
	CreatedAt        time.Time        `json:"createdAt"`
	ExpiresAt        time.Time        `json:"expiresAt"`
	IdleTimeout      string           `json:"idleTimeout"`
	Status           string           `json:"status"`
}

// existingReader reads a row as an existing router does, and as its collector,
// which ends what session:expiry and session:last_activity say is due by the
// object that the row names. It returns where the router would dial; ok is
// false where it answers 404.
func (e *env) existingReader(t *testing.T, id string) (endpoint string, ok bool) {
	t.Helper()
	text, err := e.redis.Get(t.Context(), "session:"+id).Result()
	require.NoError(t, err)
	var row existingRow
	require.NoError(t, json.Unmarshal([]byte(text), &row), text)

	// It signs a token for these kinds alone.
	require.Contains(t, []string{"Sandbox", "SandboxClaim"}, row.Kind)
	// Its collector deletes this object, and finds the session by its id.
	require.Equal(t, id, row.SessionID)
	require.Equal(t, e.namespace, row.SandboxNamespace)
	require.NotEmpty(t, row.Name)
	idle, err := time.ParseDuration(row.IdleTimeout)
	require.NoError(t, err)
	require.Equal(t, 15*time.Minute, idle)
	require.Equal(t, 8*time.Hour, row.ExpiresAt.Sub(row.CreatedAt))
	require.NoError(t, e.redis.ZScore(t.Context(), "session:expiry", id).Err(), "it has no expiry")
	require.NoError(t, e.redis.ZScore(t.Context(), "session:last_activity", id).Err(), "it has no last activity")

	if row.EntryPoints == nil { // status and expiresAt are not looked at
		return "", false
	}
	require.NotEmpty(t, row.EntryPoints, "it takes the first one without looking whether there is any")
	require.Equal(t, "HTTP", row.EntryPoints[0].Protocol)
	require.Equal(t, "/", row.EntryPoints[0].Path)
	return row.EntryPoints[0].Endpoint, true
}

// inState waits until the row says so, and is as the state wants it for an
// existing router: without entry points unless ready.
func (e *env) inState(t *testing.T, id, state string) {
	t.Helper()
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		row, ok := e.row(t, id)
		require.True(t, ok, "the session ended")
		assert.Equal(c, state, row["status"])
		assert.Equal(c, state == "ready", row["entryPoints"] != nil, "entry points of %v", row)
	}, settle, pollInterval)
}

func rowsForExistingRouters(t *testing.T, e *env) {
	// Pods take their time, so that the states between are there to be seen.
	e.apply(t, runtimeTemplate("echo", node.BootTime, "3s"))
	created := make(chan answer, 1)
	url, body := e.Manager().URL+agentRuntime, `{"namespace":"`+e.namespace+`","name":"echo"}`
	go func() {
		a, err := send(t.Context(), http.MethodPost, url, nil, body)
		if err != nil {
			a.body = err.Error() // a status of 0 is none that is expected
		}
		created <- a
	}()
	id, _ := e.placeholder(t)["sessionId"].(string)
	unreachable := func(state string) {
		t.Helper()
		e.inState(t, id, state)
		_, ok := e.existingReader(t, id)
		assert.False(t, ok, "%s: an existing router would dial", state)
	}
	reachable := func() {
		t.Helper()
		e.inState(t, id, "ready")
		endpoint, ok := e.existingReader(t, id)
		require.True(t, ok, "ready: an existing router would answer 404")
		var echo node.Echo
		mustSend(t, http.MethodGet, "http://"+endpoint+"/x", nil, "").decode(t, &echo)
		row, _ := e.row(t, id)
		assert.Equal(t, row["name"], echo.Pod)
	}
	unreachable("creating")
	a := <-created
	require.Equal(t, http.StatusOK, a.status, a)
	var s api.CreateResponse
	a.decode(t, &s)
	require.Equal(t, id, s.SessionID)
	reachable()

	require.NoError(t, e.client.Resource(pods).Namespace(e.namespace).Delete(t.Context(), s.SandboxName, metav1.DeleteOptions{}))
	unreachable("not-ready")
	reachable()

	e.runs(t, s.SandboxName, false)
	unreachable("suspended")
	e.podGone(t, s.SandboxName)
	e.runs(t, s.SandboxName, true)
	reachable()

	e.keepSandboxes(t, func() {
		managerRefuses(t, e.delete(t, id), http.StatusUnprocessableEntity, api.CodeRejectedByCluster)
		unreachable("deleting")
	})
	assert.Equal(t, http.StatusOK, e.delete(t, id).status)
	e.gone(t, id)
}

// runs suspends or resumes a Sandbox, as an operator would.
func (e *env) runs(t *testing.T, name string, on bool) {
	t.Helper()
	patch := map[bool]string{true: `{"spec":{"operatingMode":"Running"}}`, false: `{"spec":{"operatingMode":"Suspended"}}`}[on]
	if e.api.Version == sandbox.V1Alpha1 {
		patch = map[bool]string{true: `{"spec":{"replicas":1}}`, false: `{"spec":{"replicas":0}}`}[on]
	}
	_, err := e.client.Resource(e.api.Sandboxes()).Namespace(e.namespace).
		Patch(t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	require.NoError(t, err)
}

// keepPolicy makes the API server refuse to delete Sandboxes of the namespace.
const keepPolicy = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata:
  name: NAMESPACE-keep
spec:
  failurePolicy: Fail
  matchConstraints:
    resourceRules:
    - apiGroups: [agents.x-k8s.io]
      apiVersions: ["*"]
      resources: [sandboxes]
      operations: [DELETE]
  validations:
  - expression: "false"
    message: sandboxes are kept
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata:
  name: NAMESPACE-keep
spec:
  policyName: NAMESPACE-keep
  validationActions: [Deny]
  matchResources:
    namespaceSelector:
      matchLabels: {kubernetes.io/metadata.name: NAMESPACE}
`

// keepSandboxes runs during while no Sandbox of the namespace can be deleted.
func (e *env) keepSandboxes(t *testing.T, during func()) {
	t.Helper()
	canDelete := func() error {
		sandboxes := e.client.Resource(e.api.Sandboxes()).Namespace(e.namespace)
		list, err := sandboxes.List(t.Context(), metav1.ListOptions{Limit: 1})
		require.NoError(t, err)
		require.NotEmpty(t, list.Items)
		return sandboxes.Delete(t.Context(), list.Items[0].GetName(), metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}})
	}
	remove := func(ctx context.Context) {
		for _, resource := range []string{"validatingadmissionpolicybindings", "validatingadmissionpolicies"} {
			policies := schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1", Resource: resource}
			_ = e.client.Resource(policies).Delete(ctx, e.namespace+"-keep", metav1.DeleteOptions{}) // it may be gone
		}
	}
	t.Cleanup(func() { remove(context.WithoutCancel(t.Context())) })
	e.apply(t, keepPolicy)
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		assert.ErrorContains(c, canDelete(), "sandboxes are kept")
	}, settle, pollInterval)
	during()
	remove(t.Context())
	require.EventuallyWithT(t, func(c *assert.CollectT) { assert.NoError(c, canDelete()) }, settle, pollInterval)
}
