package e2e

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/agentcube/agentcube/pkg/api"
)

// refusalBehaviours are about creates that the API server does not carry out.
var refusalBehaviours = []behaviour{
	{"a create that a webhook refuses, with whatever code, leaves nothing", bothWays(refusedByWebhook)},
	{"a create for which a quota has no room leaves nothing", bothWays(noRoomForObject)},
	{"a create in a namespace that is going leaves nothing", namespaceGoing},
}

// slowRefusalBehaviours are those of them that wait for the API server or for
// a bound.
var slowRefusalBehaviours = []behaviour{
	{"a create whose webhook cannot be asked leaves nothing", bothWays(webhookBroken)},
	{"a create that the API server does not answer leaves nothing", bothWays(unanswered)},
	{"a create that the API server carries out after we gave up leaves nothing", bothWays(carriedOutLate)},
	{"a placeholder that the store writes after its create was undone goes", placeholderLate},
}

func refusedByWebhook(t *testing.T, e *env, w way) {
	w.prepare(t, e, "echo")
	g := e.gate(t, w.objects(e))
	for _, code := range []int32{403, 409, 422, 429, 500} {
		reason := fmt.Sprintf("not on a day with a %d", code)
		objects := make(chan *unstructured.Unstructured, 100)
		g.set(seen(objects, refuse(code, reason)))
		message := fails(t, e.post(t, w.route, "echo"), http.StatusUnprocessableEntity, api.CodeRejectedByCluster)
		assert.Contains(t, message, reason, "the cluster's message")
		e.gone(t, sessionID(next(t, objects)))
		assert.Empty(t, objects, "an answer of %d is no reason to ask again", code)
	}
	e.clean(t)
}

// A webhook that cannot be asked is a 500 of the API server, which says
// nothing about what was carried out.
func webhookBroken(t *testing.T, e *env, w way) {
	w.prepare(t, e, "echo")
	g := e.gate(t, w.objects(e))
	g.breakDown()
	fails(t, e.post(t, w.route, "echo"), http.StatusServiceUnavailable, api.CodeClusterUnavailable)
	e.clean(t)
}

func unanswered(t *testing.T, e *env, w way) {
	w.prepare(t, e, "echo")
	objects, release := make(chan *unstructured.Unstructured, 1), make(chan struct{})
	g := e.gate(t, w.objects(e))
	g.set(seen(objects, held(release)))
	create := e.begin(t, w, "echo")
	id := sessionID(next(t, objects))
	fails(t, create.atOnce(t), http.StatusServiceUnavailable, api.CodeClusterUnavailable)
	close(release) // too late for anyone
	e.gone(t, id)
	e.clean(t)
}

// carriedOutLate has the object made just as the API server would make it: of
// what the create call sent, after the manager has given up. (This API server
// drops a call whose caller has left, unless it does not see him leave.)
func carriedOutLate(t *testing.T, e *env, w way) {
	w.prepare(t, e, "echo")
	objects, release := make(chan *unstructured.Unstructured, 1), make(chan struct{})
	g := e.gate(t, w.objects(e))
	g.set(seen(objects, held(release)))
	create := e.begin(t, w, "echo")
	late := next(t, objects)
	fails(t, create.wait(t), http.StatusServiceUnavailable, api.CodeClusterUnavailable)
	row, ok := e.row(t, sessionID(late))
	require.True(t, ok, "while the object may still be made, its row stays")
	assert.Equal(t, "deleting", row["status"])
	g.set(allow)
	close(release)
	made, err := e.client.Resource(w.objects(e)).Namespace(e.namespace).Create(t.Context(), asSent(late), metav1.CreateOptions{})
	require.NoError(t, err)
	e.gone(t, sessionID(made))
	e.clean(t)
}

// held is a verdict that comes when released, or never.
func held(release <-chan struct{}) verdict {
	return func(ctx context.Context, _ *unstructured.Unstructured) *metav1.Status {
		select {
		case <-release:
		case <-ctx.Done():
		}
		return nil
	}
}

// asSent is an object without what the API server adds to it.
func asSent(u *unstructured.Unstructured) *unstructured.Unstructured {
	u = u.DeepCopy()
	for _, field := range []string{"uid", "creationTimestamp", "generation", "managedFields", "resourceVersion"} {
		unstructured.RemoveNestedField(u.Object, "metadata", field)
	}
	unstructured.RemoveNestedField(u.Object, "status")
	return u
}

var runtimes = interpreters.GroupVersion().WithResource("agentruntimes")

var quotas = schema.GroupVersionResource{Version: "v1", Resource: "resourcequotas"}

// quota makes a ResourceQuota that has room for nothing more of a kind. The
// controller that counts what is used does not run here, so the test does.
func (e *env) quota(t *testing.T, kind string) {
	t.Helper()
	e.apply(t, fmt.Sprintf(`
apiVersion: v1
kind: ResourceQuota
metadata: {name: full, namespace: NAMESPACE}
spec: {hard: {%q: "0"}}
`, kind))
	none := map[string]any{kind: "0"}
	quota, err := e.client.Resource(quotas).Namespace(e.namespace).Get(t.Context(), "full", metav1.GetOptions{})
	require.NoError(t, err)
	quota.Object["status"] = map[string]any{"hard": none, "used": none}
	_, err = e.client.Resource(quotas).Namespace(e.namespace).UpdateStatus(t.Context(), quota, metav1.UpdateOptions{})
	require.NoError(t, err)
}

func noRoomForObject(t *testing.T, e *env, w way) {
	w.prepare(t, e, "echo")
	e.quota(t, "count/"+w.objects(e).GroupResource().String())
	e.refusesCreates(t, w.objects(e), "exceeded quota")
	message := fails(t, e.post(t, w.route, "echo"), http.StatusTooManyRequests, api.CodeQuotaExceeded)
	assert.Contains(t, message, "exceeded quota: full")
	e.clean(t)
}

// namespaceGoing holds a namespace back by the workload itself, which has to
// be found: nobody may delete it.
func namespaceGoing(t *testing.T, shared *env) {
	e := *shared
	going, err := e.client.Resource(namespaces).Create(t.Context(), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"generateName": "e2e-going-"},
	}}, metav1.CreateOptions{})
	require.NoError(t, err)
	e.namespace = going.GetName()
	e.apply(t, runtimeTemplate("echo"))
	e.gate(t, runtimes, "DELETE").set(refuse(http.StatusForbidden, "this one stays"))
	require.NoError(t, e.client.Resource(namespaces).Delete(t.Context(), e.namespace, metav1.DeleteOptions{}))
	e.refusesCreates(t, e.api.Sandboxes(), "is being terminated")
	message := fails(t, e.post(t, agentRuntime, "echo"), http.StatusUnprocessableEntity, api.CodeRejectedByCluster)
	assert.Contains(t, message, "is being terminated")
	e.clean(t)
}

// placeholderLate puts a placeholder back after its create was undone, as a
// store does that carries out late what it was sent.
func placeholderLate(t *testing.T, e *env) {
	e.apply(t, runtimeTemplate("echo"))
	objects, release := make(chan *unstructured.Unstructured, 1), make(chan struct{})
	refused := refuse(http.StatusForbidden, "not today")
	e.gate(t, e.api.Sandboxes()).set(seen(objects, func(ctx context.Context, u *unstructured.Unstructured) *metav1.Status {
		held(release)(ctx, u)
		return refused(ctx, u)
	}))
	create := e.begin(t, cold, "echo")
	id := sessionID(next(t, objects))
	kept := e.snapshot(t, id)
	close(release)
	fails(t, create.wait(t), http.StatusUnprocessableEntity, api.CodeRejectedByCluster)
	e.gone(t, id)
	kept.putBack(t, id, id)
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		row, ok := e.row(t, id)
		assert.False(c, ok, "%v in %v", row, e.indexed(t, id))
	}, placeholderBound, 100*time.Millisecond)
	e.clean(t)
}
