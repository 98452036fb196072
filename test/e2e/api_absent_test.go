package e2e

import (
	"context"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/agentcube/agentcube/pkg/api"
	"github.com/agentcube/agentcube/test/system"
)

var definitions = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

// resourceAbsent also starts the workload-manager while the resource is
// absent: neither a running one nor a starting one may depend on it.
func resourceAbsent(t *testing.T, e *env) {
	e.apply(t, runtimeTemplate("echo"))
	e.apply(t, interpreterTemplate("cold", 0))
	old := e.create(t, agentRuntime, "echo")
	e.removeDefinition(t, "agentruntimes.runtime.agentcube.volcano.sh")

	missing := func() {
		told := managerRefuses(t, e.post(t, agentRuntime, "echo"), http.StatusNotFound, api.CodeTemplateNotFound)
		assert.Equal(t, "agent runtime not found", told.Message)
		e.serves(t)
		e.echoes(t, codeInterpreter, "cold", e.create(t, codeInterpreter, "cold").SessionID)
		e.echoes(t, agentRuntime, "echo", old.SessionID) // a session outlives its template
	}
	missing()
	require.NoError(t, e.Manager().Stop())
	require.NoError(t, e.Manager().Start(t.Context()))
	missing()

	e.addDefinitions(t)
	e.apply(t, runtimeTemplate("echo"))
	e.echoes(t, agentRuntime, "echo", e.create(t, agentRuntime, "echo").SessionID)
}

// removeDefinition takes a custom resource away, and brings it back at the end
// of the test if the test has not.
func (e *env) removeDefinition(t *testing.T, name string) {
	t.Helper()
	t.Cleanup(func() { e.addDefinitions(t) })
	require.NoError(t, e.client.Resource(definitions).Delete(t.Context(), name, metav1.DeleteOptions{}))
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		_, err := e.client.Resource(definitions).Get(t.Context(), name, metav1.GetOptions{})
		assert.True(c, apierrors.IsNotFound(err), "the definition is still there: %v", err)
	}, settle, 50*time.Millisecond)
}

// addDefinitions installs those we ship, as an operator would.
func (e *env) addDefinitions(t *testing.T) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context()) // also at the end of a test
	require.NoError(t, e.Cluster.ApplyFile(ctx, filepath.Join(system.Root(), "manifests", "crds")))
}
