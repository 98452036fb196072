package e2e

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/agentcube/agentcube/pkg/api"
)

// namespaceBehaviours are about namespaces that go with all that is in them.
var namespaceBehaviours = []behaviour{
	{"a namespace that is deleted takes its sessions along, and no others", namespaceDeleted},
}

func namespaceDeleted(t *testing.T, e *env) {
	e.apply(t, runtimeTemplate("echo"))
	alive := e.create(t, agentRuntime, "echo")
	going := *e
	created, err := e.client.Resource(namespaces).Create(t.Context(), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"generateName": "e2e-going-"},
	}}, metav1.CreateOptions{})
	require.NoError(t, err)
	going.namespace = created.GetName()
	going.apply(t, runtimeTemplate("echo"))
	going.apply(t, interpreterTemplate("cold", 0))
	going.apply(t, interpreterTemplate("warm", 2))
	going.pool(t, "warm")
	type one struct {
		api.CreateResponse
		route, name string
	}
	var sessions []one
	for _, s := range []one{
		{route: agentRuntime, name: "echo"},
		{route: codeInterpreter, name: "cold"},
		{route: codeInterpreter, name: "warm"},
		{route: codeInterpreter, name: "warm"},
	} {
		s.CreateResponse = going.create(t, s.route, s.name)
		going.echoes(t, s.route, s.name, s.SessionID)
		sessions = append(sessions, s)
	}
	require.NoError(t, e.client.Resource(namespaces).Delete(t.Context(), going.namespace, metav1.DeleteOptions{}))
	for _, s := range sessions {
		going.notFound(t, s.route, s.name, s.SessionID)
		going.gone(t, s.SessionID)
	}
	going.nothingLeft(t)
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		_, err := e.client.Resource(namespaces).Get(t.Context(), going.namespace, metav1.GetOptions{})
		assert.True(c, apierrors.IsNotFound(err), "something holds the namespace: %v", err)
	}, settle, pollInterval)
	assert.Equal(t, alive.SandboxName, e.echoes(t, agentRuntime, "echo", alive.SessionID).Pod)
}
