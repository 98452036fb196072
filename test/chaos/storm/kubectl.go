package storm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"syscall"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/agentcube/agentcube/pkg/sandbox"
	"github.com/agentcube/agentcube/pkg/session"
	"github.com/agentcube/agentcube/test/chaos/check"
)

// kubeBound is how long an operator waits for one kubectl.
const kubeBound = 8 * time.Second

// outcomeOf tells what a call of an operator did.
func outcomeOf(err error) outcome {
	switch {
	case err == nil:
		return granted
	case apierrors.IsNotFound(err), errors.Is(err, syscall.ECONNREFUSED):
		return harmless
	default:
		return unclear
	}
}

func (w *World) remove(ctx context.Context, r schema.GroupVersionResource, namespace, name string) error {
	ctx, cancel := context.WithTimeout(ctx, kubeBound)
	defer cancel()
	return w.client.Resource(r).Namespace(namespace).Delete(ctx, name, metav1.DeleteOptions{})
}

// carriers lists the objects of ours that carry sessions, also of creates under
// way.
func (w *World) carriers(ctx context.Context) ([]check.Object, error) {
	ctx, cancel := context.WithTimeout(ctx, kubeBound)
	defer cancel()
	var found []check.Object
	for _, kind := range []string{session.KindSandbox, session.KindSandboxClaim} {
		list, err := w.client.Resource(w.kinds()[kind]).List(ctx, metav1.ListOptions{LabelSelector: sandbox.LabelSessionID})
		if err != nil {
			return nil, err
		}
		for i := range list.Items {
			if o := readObject(&list.Items[i]); !o.Deleting && o.Installation != "" && o.SessionID != nobody {
				found = append(found, o)
			}
		}
	}
	slices.SortFunc(found, func(a, b check.Object) int { return cmp.Compare(a.SessionID, b.SessionID) })
	return found, nil
}

// label sets or, with "", removes the session's label of an object.
func (w *World) label(ctx context.Context, o check.Object, value string) error {
	ctx, cancel := context.WithTimeout(ctx, kubeBound)
	defer cancel()
	quoted := "null"
	if value != "" {
		quoted = fmt.Sprintf("%q", value)
	}
	patch := fmt.Sprintf(`{"metadata":{"labels":{%q:%s}}}`, sandbox.LabelSessionID, quoted)
	_, err := w.client.Resource(w.kinds()[o.Kind]).Namespace(o.Namespace).
		Patch(ctx, o.Name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	return err
}

// copyLabel makes a Sandbox that is not ours and bears the label of a session.
func (w *World) copyLabel(ctx context.Context, namespace, name, id string) error {
	ctx, cancel := context.WithTimeout(ctx, kubeBound)
	defer cancel()
	gv := w.api.Sandboxes().GroupVersion().String()
	object := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": gv, "kind": session.KindSandbox,
		"metadata": map[string]any{
			"name": name, "namespace": namespace, "labels": map[string]any{sandbox.LabelSessionID: id},
		},
		"spec": map[string]any{"podTemplate": map[string]any{"spec": map[string]any{
			"containers": []any{map[string]any{"name": "echo", "image": "echo"}},
		}}},
	}}
	_, err := w.client.Resource(w.api.Sandboxes()).Namespace(namespace).Create(ctx, object, metav1.CreateOptions{})
	return err
}

// The templates of each namespace.
const (
	runtimeName = "runtime"
	coldName    = "cold"
	poolSize    = 2
)

func runtimeOf(s *space) session.WorkloadRef {
	return session.WorkloadRef{Kind: session.KindAgentRuntime, Namespace: s.name, Name: runtimeName}
}

func coldOf(s *space) session.WorkloadRef {
	return session.WorkloadRef{Kind: session.KindCodeInterpreter, Namespace: s.name, Name: coldName}
}

func warmRef(s *space, t *template) session.WorkloadRef {
	return session.WorkloadRef{Kind: session.KindCodeInterpreter, Namespace: s.name, Name: t.name}
}

// makeSpace makes a namespace with an AgentRuntime and two CodeInterpreters, one
// of them with a warm pool.
// Names are never used again, so that nothing old can be taken for it.
func (w *World) makeSpace(ctx context.Context, name, warm string) (*space, error) {
	manifest := fmt.Sprintf(`
apiVersion: v1
kind: Namespace
metadata: {name: %[1]s}
---
apiVersion: runtime.agentcube.volcano.sh/v1alpha1
kind: AgentRuntime
metadata: {name: runtime, namespace: %[1]s}
spec:
  sessionTimeout: 4h
  maxSessionDuration: 8h
  targetPort:
  - {pathPrefix: /, port: 8080}
  podTemplate:
    spec:
      containers:
      - {name: echo, image: echo, ports: [{containerPort: 8080}]}
`, name) + interpreter(name, coldName, 0) + interpreter(name, warm, poolSize)
	if err := w.Cluster.Apply(ctx, []byte(manifest)); err != nil {
		return nil, fmt.Errorf("making namespace %s: %w", name, err)
	}
	return &space{name: name, warm: &template{name: warm}}, nil
}

func (w *World) makeWarm(ctx context.Context, namespace, name string) (*template, error) {
	if err := w.Cluster.Apply(ctx, []byte(interpreter(namespace, name, poolSize))); err != nil {
		return nil, fmt.Errorf("making CodeInterpreter %s/%s: %w", namespace, name, err)
	}
	return &template{name: name}, nil
}

func interpreter(namespace, name string, size int) string {
	return fmt.Sprintf(`
---
apiVersion: runtime.agentcube.volcano.sh/v1alpha1
kind: CodeInterpreter
metadata: {name: %s, namespace: %s}
spec:
  sessionTimeout: 4h
  maxSessionDuration: 8h
  authMode: none
  warmPoolSize: %d
  template: {image: echo}
`, name, namespace, size)
}
