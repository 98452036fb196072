package e2e

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/agentcube/agentcube/pkg/sandbox"
	"github.com/agentcube/agentcube/test/cluster/pki"
)

// verdict of a gate on an object. It is called in the API server's time; ctx
// ends when that does not wait any more.
type verdict func(ctx context.Context, object *unstructured.Unstructured) *metav1.Status

// allow lets everything pass.
func allow(context.Context, *unstructured.Unstructured) *metav1.Status { return nil }

// refuse refuses everything, with a status code and a message.
func refuse(code int32, message string) verdict {
	return func(context.Context, *unstructured.Unstructured) *metav1.Status {
		return &metav1.Status{Status: metav1.StatusFailure, Code: code, Message: message}
	}
}

// gate is an admission webhook for creates, or other operations, in the
// test's namespace.
type gate struct {
	mu      sync.Mutex // guards verdict and broken
	verdict verdict
	broken  bool
}

const (
	// probeName is the object by which a gate finds out that it is asked.
	probeName = "gate-probe"
	// probeInterval is how often one looks whether the API server has seen a
	// new webhook or quota.
	probeInterval = 20 * time.Millisecond
)

var webhooks = schema.GroupVersionResource{
	Group: "admissionregistration.k8s.io", Version: "v1", Resource: "validatingwebhookconfigurations",
}

// gate puts a gate before the creates of a resource, and the operations given
// (DELETE), open at first. It returns once the API server asks it.
func (e *env) gate(t *testing.T, resource schema.GroupVersionResource, operations ...string) *gate {
	t.Helper()
	g := &gate{verdict: allow}
	ca, err := pki.NewCA("gate")
	require.NoError(t, err)
	pair, err := ca.Serving("127.0.0.1")
	require.NoError(t, err)
	certificate, err := tls.X509KeyPair(pair.Cert, pair.Key)
	require.NoError(t, err)
	server := httptest.NewUnstartedServer(g)
	server.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}}
	server.StartTLS()
	t.Cleanup(server.Close)
	e.apply(t, fmt.Sprintf(gateManifest, resource.Resource, server.URL, base64.StdEncoding.EncodeToString(ca.Cert),
		resource.Group, resource.Version, resource.Resource, strings.Join(append(operations, "CREATE"), ",")))
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		assert.NoError(t, e.client.Resource(webhooks).Delete(ctx, e.namespace+"-"+resource.Resource, metav1.DeleteOptions{}))
	})
	e.refusesCreates(t, resource, "this is the probe")
	return g
}

const gateManifest = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata:
  name: NAMESPACE-%s
webhooks:
- name: gate.agentcube.dev
  admissionReviewVersions: [v1]
  sideEffects: None
  failurePolicy: Fail
  timeoutSeconds: 30
  clientConfig:
    url: %s
    caBundle: %s
  namespaceSelector:
    matchLabels: {kubernetes.io/metadata.name: NAMESPACE}
  rules:
  - apiGroups: [%q]
    apiVersions: [%q]
    resources: [%q]
    operations: [%s]
`

// refusesCreates waits until the API server refuses to create an object of the
// resource, with a message that holds the text: it sees a new webhook or quota
// a moment later.
func (e *env) refusesCreates(t *testing.T, resource schema.GroupVersionResource, text string) {
	t.Helper()
	probe := e.probe(t, resource)
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		_, err := e.client.Resource(resource).Namespace(e.namespace).
			Create(t.Context(), probe, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		assert.ErrorContains(c, err, text)
	}, settle, probeInterval)
}

// probe is a valid object of the resource, which is never made.
func (e *env) probe(t *testing.T, resource schema.GroupVersionResource) *unstructured.Unstructured {
	t.Helper()
	pod := map[string]any{"containers": []any{map[string]any{"name": "probe", "image": "probe"}}}
	ref := map[string]any{"name": probeName}
	claim := map[string]any{"warmPoolRef": ref}
	if e.api.Version == sandbox.V1Alpha1 {
		claim = map[string]any{"sandboxTemplateRef": ref}
	}
	specs := map[string]struct {
		kind string
		spec map[string]any
	}{
		"pods":          {"Pod", pod},
		"sandboxes":     {"Sandbox", map[string]any{"podTemplate": map[string]any{"spec": pod}}},
		"sandboxclaims": {"SandboxClaim", claim},
		"agentruntimes": {"AgentRuntime", map[string]any{
			"targetPort": []any{map[string]any{"pathPrefix": "/", "port": int64(8080)}}, "podTemplate": map[string]any{"spec": pod},
		}},
		"sandboxwarmpools": {"SandboxWarmPool", map[string]any{"replicas": int64(0), "sandboxTemplateRef": ref}},
	}
	s, ok := specs[resource.Resource]
	require.True(t, ok, resource)
	u := &unstructured.Unstructured{Object: map[string]any{"spec": s.spec}}
	u.SetGroupVersionKind(resource.GroupVersion().WithKind(s.kind))
	u.SetName(probeName)
	return u
}

// set changes the verdict.
func (g *gate) set(v verdict) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.verdict = v
}

// breakDown makes the gate answer nonsense.
func (g *gate) breakDown() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.broken = true
}

func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var review admissionv1.AdmissionReview
	object := &unstructured.Unstructured{}
	if err := json.NewDecoder(r.Body).Decode(&review); err != nil || review.Request == nil {
		http.Error(w, "no review", http.StatusBadRequest)
		return
	}
	raw := review.Request.Object.Raw
	if len(raw) == 0 {
		raw = review.Request.OldObject.Raw // of a deletion
	}
	if err := json.Unmarshal(raw, &object.Object); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	g.mu.Lock()
	decide, broken := g.verdict, g.broken
	g.mu.Unlock()
	if object.GetName() == probeName {
		decide = refuse(http.StatusForbidden, "this is the probe")
	} else if broken {
		http.Error(w, "out of order", http.StatusInternalServerError)
		return
	}
	status := decide(r.Context(), object)
	review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: status == nil, Result: status}
	review.Request = nil
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(review) //nolint:errchkjson // an error says that the API server does not wait any more
}

// seen is a verdict that shows each object before it decides as another.
func seen(objects chan<- *unstructured.Unstructured, decide verdict) verdict {
	return func(ctx context.Context, object *unstructured.Unstructured) *metav1.Status {
		select {
		case objects <- object:
		case <-ctx.Done():
		}
		return decide(ctx, object)
	}
}

// next is the next object that a gate has seen.
func next(t *testing.T, objects <-chan *unstructured.Unstructured) *unstructured.Unstructured {
	t.Helper()
	select {
	case object := <-objects:
		return object
	case <-time.After(settle):
		require.Fail(t, "the webhook was not asked")
		return nil
	}
}
