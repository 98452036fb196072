package e2e

import (
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/agentcube/agentcube/pkg/sandbox"
)

// recordedObject finds the recorded object of a kind whose name begins so.
func recordedObject(t *testing.T, kind, prefix string) map[string]any {
	t.Helper()
	var objects []map[string]any
	recorded(t, "objects.json", &objects)
	for _, o := range objects {
		u := unstructured.Unstructured{Object: o}
		if u.GetKind() == kind && strings.HasPrefix(u.GetName(), prefix) {
			return o
		}
	}
	require.Fail(t, "not recorded", "%s %s…", kind, prefix)
	return nil
}

// comparison is of one recorded object with ours. Objects are read in v1alpha1,
// in which they were recorded and which both versions of agent-sandbox serve.
type objectComparison struct {
	resource     schema.GroupVersionResource
	kind, prefix string // of the recorded object
	name         string // of ours
	replace      map[string]string
	// differences that are on purpose, as the comparison writes them; those in
	// unconverted show only where agent-sandbox stores what it was sent.
	differences, unconverted []string
}

var alpha = struct{ sandboxes, claims, templates, pools schema.GroupVersionResource }{
	schema.GroupVersionResource{Group: "agents.x-k8s.io", Version: "v1alpha1", Resource: "sandboxes"},
	schema.GroupVersionResource{Group: "extensions.agents.x-k8s.io", Version: "v1alpha1", Resource: "sandboxclaims"},
	schema.GroupVersionResource{Group: "extensions.agents.x-k8s.io", Version: "v1alpha1", Resource: "sandboxtemplates"},
	schema.GroupVersionResource{Group: "extensions.agents.x-k8s.io", Version: "v1alpha1", Resource: "sandboxwarmpools"},
}

func recordedObjects(t *testing.T, e *env) {
	e.apply(t, recordedTemplates())
	for _, c := range []struct {
		route, workload, kind string
		more, unconverted     []string
	}{
		// A pod spec passes as the template has it. Theirs goes through Go
		// types, which write out this field.
		{agentRuntime, "echo", "Sandbox", nil, []string{"- spec.podTemplate.spec.containers[0].resources: map[]"}},
		{codeInterpreter, "cold", "Sandbox", nil, nil},
		{codeInterpreter, "picod", "Sandbox", nil, nil},
		{
			codeInterpreter, "warm", "SandboxClaim",
			// So that nothing outlives a dead workload-manager for ever.
			[]string{
				`+ metadata.labels.managed-by: agentcube-workload-manager`,
				`+ metadata.labels.runtime.agentcube.io/workload-name: warm`,
				`+ spec.lifecycle.shutdownPolicy: Retain`,
				`+ spec.lifecycle.shutdownTime: <end>`,
				// The pool by its own name: "default" would be converted into
				// that of a pool which does not exist.
				`~ spec.warmpool: default -> warm`,
			},
			nil,
		},
	} {
		s := e.create(t, c.route, c.workload)
		require.Equal(t, c.kind, s.Kind)
		row, ok := e.row(t, s.SessionID)
		require.True(t, ok)
		resource := map[string]schema.GroupVersionResource{"Sandbox": alpha.sandboxes, "SandboxClaim": alpha.claims}[s.Kind]
		both := []string{"+ metadata.labels.runtime.agentcube.io/installation: <installation>"}
		if c.kind == "Sandbox" {
			both = append(both, "+ metadata.labels.runtime.agentcube.io/sandbox-name: <name>")
		}
		e.compareObject(t, objectComparison{
			resource: resource, kind: s.Kind, prefix: c.workload + "-", name: s.SandboxName,
			replace: map[string]string{
				fmt.Sprint(row["installation"]): "<installation>",
				e.shutdownTime(t, s):            "<end>",
				e.publicPEM(t):                  "<PEM of the router's public key>",
			},
			differences: append(both, c.more...), unconverted: c.unconverted,
		})
		e.endsWith(t, s.SessionID, e.shutdownTime(t, s))
		assert.Equal(t, http.StatusOK, e.delete(t, s.SessionID).status)
	}
	template, err := e.client.Resource(alpha.templates).Namespace(e.namespace).Get(t.Context(), "warm", metav1.GetOptions{})
	require.NoError(t, err)
	hash := template.GetAnnotations()["runtime.agentcube.io/spec-hash"]
	require.NotEmpty(t, hash)
	e.compareObject(t, objectComparison{
		resource: alpha.templates, kind: "SandboxTemplate", prefix: "warm", name: "warm",
		// By which our reconciler sees that the template is to change, whatever
		// the API server has filled in.
		replace:     map[string]string{hash: "<hash>"},
		differences: []string{"+ metadata.annotations.runtime.agentcube.io/spec-hash: <hash>"},
	})
	e.compareObject(t, objectComparison{resource: alpha.pools, kind: "SandboxWarmPool", prefix: "warm", name: "warm"})
}

// endsWith wants the object to be shut down when the session expires.
func (e *env) endsWith(t *testing.T, id, shutdown string) {
	t.Helper()
	row, _ := e.row(t, id)
	at, err := time.Parse(time.RFC3339, shutdown)
	require.NoError(t, err)
	expires := timeOf(t, row, "expiresAt")
	assert.False(t, at.Before(expires), "it is shut down at %s, before it expires at %s", at, expires)
	assert.Less(t, at.Sub(expires), time.Second)
}

// compareObject wants no difference but those that are listed.
func (e *env) compareObject(t *testing.T, c objectComparison) {
	t.Helper()
	was := plain(t, recordedObject(t, c.kind, c.prefix), nil)
	object, err := e.client.Resource(c.resource).Namespace(e.namespace).Get(t.Context(), c.name, metav1.GetOptions{})
	require.NoError(t, err)
	if form := metadataOf(was)["name"]; form == "<name>" {
		assert.Regexp(t, `^`+c.prefix+`[a-z0-9]{8}$`, c.name)
	}
	is := plain(t, object.Object, c.replace)
	want := c.differences
	if e.api.Version == sandbox.V1Alpha1 {
		want = append(want, c.unconverted...)
	}
	assert.ElementsMatch(t, want, differences("", was, is), "%s %s", c.kind, c.name)
}

func metadataOf(object map[string]any) map[string]any { return object["metadata"].(map[string]any) }

// plain is an object without what servers and controllers set, and with words
// in the place of what differs each time.
func plain(t *testing.T, object map[string]any, replace map[string]string) map[string]any {
	t.Helper()
	u := (&unstructured.Unstructured{Object: object}).DeepCopy()
	delete(u.Object, "status")
	for _, field := range []string{"uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "selfLink"} {
		unstructured.RemoveNestedField(u.Object, "metadata", field)
	}
	for _, field := range []string{"labels", "annotations"} {
		kept, _, err := unstructured.NestedStringMap(u.Object, "metadata", field)
		require.NoError(t, err)
		// What agent-sandbox sets, its conversion included.
		maps.DeleteFunc(kept, func(key, _ string) bool {
			return strings.HasPrefix(key, "agents.x-k8s.io/") || strings.HasPrefix(key, "api.agents.x-k8s.io/")
		})
		unstructured.RemoveNestedField(u.Object, "metadata", field)
		if len(kept) > 0 {
			require.NoError(t, unstructured.SetNestedStringMap(u.Object, kept, "metadata", field))
		}
	}
	words := maps.Clone(replace)
	if words == nil {
		words = map[string]string{}
	}
	if id := u.GetLabels()[sandbox.LabelSessionID]; id != "" {
		words[id], words[u.GetName()] = "<session>", "<name>"
	}
	if owners := u.GetOwnerReferences(); len(owners) > 0 {
		words[string(owners[0].UID)] = "<owner>"
	}
	u.SetNamespace("<namespace>")
	if end, ok, _ := unstructured.NestedString(u.Object, "spec", "shutdownTime"); ok {
		words[end] = "<end>"
	}
	return worded(u.Object, words).(map[string]any)
}

// worded is a copy of a value whose texts are replaced.
func worded(value any, words map[string]string) any {
	switch value := value.(type) {
	case map[string]any:
		out := map[string]any{}
		for k, v := range value {
			out[k] = worded(v, words)
		}
		return out
	case []any:
		out := []any{}
		for _, v := range value {
			out = append(out, worded(v, words))
		}
		return out
	case string:
		if word, ok := words[value]; ok {
			return word
		}
		return value
	case int64:
		return float64(value) // as the recorded ones are read
	default:
		return value
	}
}

// differences are what ours has more (+), less (-) or otherwise (~).
func differences(path string, was, is any) []string {
	from, mapped := was.(map[string]any)
	to, too := is.(map[string]any)
	if !mapped || !too {
		if reflect.DeepEqual(was, is) {
			return nil
		}
		a, listed := was.([]any)
		b, also := is.([]any)
		if !listed || !also || len(a) != len(b) {
			return []string{fmt.Sprintf("~ %s: %v -> %v", path, was, is)}
		}
		var found []string
		for i := range a {
			found = append(found, differences(fmt.Sprintf("%s[%d]", path, i), a[i], b[i])...)
		}
		return found
	}
	var found []string
	below := func(key string) string { return strings.TrimPrefix(path+"."+key, ".") }
	for key, value := range from {
		if _, kept := to[key]; !kept {
			found = append(found, leaves("-", below(key), value)...)
			continue
		}
		found = append(found, differences(below(key), value, to[key])...)
	}
	for key, value := range to {
		if _, known := from[key]; !known {
			found = append(found, leaves("+", below(key), value)...)
		}
	}
	return found
}

// leaves are what only one side has, one line for each value.
func leaves(sign, path string, value any) []string {
	fields, ok := value.(map[string]any)
	if !ok || len(fields) == 0 {
		return []string{fmt.Sprintf("%s %s: %v", sign, path, value)}
	}
	var found []string
	for key, field := range fields {
		found = append(found, leaves(sign, path+"."+key, field)...)
	}
	return found
}
