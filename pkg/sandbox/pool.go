package sandbox

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/json"
)

// annotationSpecHash is the hash of the spec that we last wrote. The spec alone
// could not tell a field that we no longer set from one that somebody else,
// such as a default, added.
const annotationSpecHash = "runtime.agentcube.io/spec-hash"

// ErrNotOwned: an object of that name exists and belongs to somebody else. It
// is never touched.
var ErrNotOwned = errors.New("the object is not owned by this CodeInterpreter")

// TemplateSpec is what is needed to build the SandboxTemplate of a
// CodeInterpreter. It bears the name of the CodeInterpreter and is owned by it.
type TemplateSpec struct {
	Namespace, Name string
	// OwnerUID is the UID of the CodeInterpreter.
	OwnerUID string
	// Pod is the template of every sandbox of the pool.
	Pod PodTemplate
}

// PoolSpec is what is needed to build the SandboxWarmPool of a
// CodeInterpreter. It bears the name of the CodeInterpreter, as its
// SandboxTemplate does, and is owned by it.
type PoolSpec struct {
	Namespace, Name string
	// OwnerUID is the UID of the CodeInterpreter.
	OwnerUID string
	// Replicas is how many sandboxes are kept ready.
	Replicas int32
}

// PoolStatus is what the controller last said of a pool. It lags behind a
// change of the spec.
type PoolStatus struct {
	// Replicas exist, ReadyReplicas of them can be claimed.
	Replicas, ReadyReplicas int32
}

// EnsureTemplate makes the SandboxTemplate be as described. A field that we do
// not set is left as it is; one that we used to set goes.
//
// Errors: ErrNotOwned, ErrConflict (changed meanwhile: try again),
// RejectedError, ErrNotServed, ErrUnavailable.
func (c *Client) EnsureTemplate(ctx context.Context, t TemplateSpec) error {
	_, err := c.ensure(ctx, c.api.Templates(), c.api.BuildTemplate(t), t.OwnerUID)
	return err
}

// EnsureWarmPool makes the SandboxWarmPool be as described, and tells its
// status. Errors as of EnsureTemplate.
func (c *Client) EnsureWarmPool(ctx context.Context, p PoolSpec) (PoolStatus, error) {
	u, err := c.ensure(ctx, c.api.WarmPools(), c.api.BuildWarmPool(p), p.OwnerUID)
	if err != nil {
		return PoolStatus{}, err
	}
	replicas, _, _ := unstructured.NestedInt64(u.Object, "status", "replicas")
	ready, _, _ := unstructured.NestedInt64(u.Object, "status", "readyReplicas")
	return PoolStatus{Replicas: int32(replicas), ReadyReplicas: int32(ready)}, nil //nolint:gosec // int32 in the API.
}

// DeleteTemplate deletes the SandboxTemplate if the CodeInterpreter of that UID
// owns it. One that is absent or somebody else's is no error.
//
// Errors: RejectedError, ErrNotServed, ErrUnavailable.
func (c *Client) DeleteTemplate(ctx context.Context, namespace, name, ownerUID string) error {
	return c.deleteOwned(ctx, c.api.Templates(), namespace, name, ownerUID)
}

// DeleteWarmPool is DeleteTemplate for the SandboxWarmPool. Sandboxes that were
// claimed live on.
func (c *Client) DeleteWarmPool(ctx context.Context, namespace, name, ownerUID string) error {
	return c.deleteOwned(ctx, c.api.WarmPools(), namespace, name, ownerUID)
}

// ensure creates the wanted object or mends the one that is there, and returns
// what the API server then has. A field that the served schema does not know
// is pruned and looks missing each time; the update that follows changes
// nothing, so the watch does not show it and nothing spins.
func (c *Client) ensure(ctx context.Context, r schema.GroupVersionResource, want *unstructured.Unstructured, ownerUID string) (*unstructured.Unstructured, error) {
	have, err := c.readPooled(ctx, r, want.GetNamespace(), want.GetName())
	if errors.Is(err, ErrNotFound) {
		return c.createPooled(ctx, r, want)
	}
	if err != nil {
		return nil, err
	}
	doing := "updating " + nameOf(want)
	if !ownedBy(have, ownerUID) {
		return nil, fmt.Errorf("%s: %w", doing, ErrNotOwned)
	}
	if have.GetDeletionTimestamp() != nil {
		return nil, fmt.Errorf("%s: it is being deleted: %w", doing, ErrConflict)
	}
	if upToDate(have, want) {
		return have, nil
	}
	mend(have, want)
	var updated *unstructured.Unstructured
	err = c.bounded(ctx, doing, func(ctx context.Context) (err error) {
		updated, err = c.dynamic.Resource(r).Namespace(want.GetNamespace()).
			Update(ctx, have, metav1.UpdateOptions{FieldManager: ManagedByAgentCube})
		return err
	})
	return updated, err
}

func (c *Client) createPooled(ctx context.Context, r schema.GroupVersionResource, want *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	doing := "creating " + nameOf(want)
	var created *unstructured.Unstructured
	err := c.bounded(ctx, doing, func(ctx context.Context) (err error) {
		created, err = c.dynamic.Resource(r).Namespace(want.GetNamespace()).
			Create(ctx, want, metav1.CreateOptions{FieldManager: ManagedByAgentCube})
		return err
	})
	if errors.Is(err, ErrExists) {
		return nil, fmt.Errorf("%s: made by somebody else meanwhile: %w", doing, ErrConflict)
	}
	return created, err
}

func (c *Client) readPooled(ctx context.Context, r schema.GroupVersionResource, namespace, name string) (*unstructured.Unstructured, error) {
	var u *unstructured.Unstructured
	err := c.bounded(ctx, "reading "+r.Resource+" "+namespace+"/"+name, func(ctx context.Context) (err error) {
		u, err = c.dynamic.Resource(r).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
		return err
	})
	return u, err
}

func (c *Client) deleteOwned(ctx context.Context, r schema.GroupVersionResource, namespace, name, ownerUID string) error {
	u, err := c.readPooled(ctx, r, namespace, name)
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	if !ownedBy(u, ownerUID) {
		return nil
	}
	err = c.bounded(ctx, "deleting "+nameOf(u), func(ctx context.Context) error {
		return c.dynamic.Resource(r).Namespace(namespace).Delete(ctx, name, deleteOptions(string(u.GetUID())))
	})
	if errors.Is(err, ErrNotFound) || errors.Is(err, ErrConflict) {
		// The one that was read is gone.
		return nil
	}
	return err
}

func nameOf(u *unstructured.Unstructured) string {
	return u.GetKind() + " " + u.GetNamespace() + "/" + u.GetName()
}

func ownedBy(u *unstructured.Unstructured, ownerUID string) bool {
	owner := metav1.GetControllerOf(u)
	return ownerUID != "" && owner != nil && string(owner.UID) == ownerUID
}

// upToDate reports whether we wrote this very spec, and nobody changed a field
// of it since.
func upToDate(have, want *unstructured.Unstructured) bool {
	hash := annotationSpecHash
	return have.GetAnnotations()[hash] == want.GetAnnotations()[hash] && covers(have.Object["spec"], want.Object["spec"])
}

// covers reports whether have says all that want says. Lists must be of the
// same length: an element more is a change, a field more may be a default.
func covers(have, want any) bool {
	switch want := want.(type) {
	case map[string]any:
		fields, _ := have.(map[string]any)
		for key, value := range want {
			if !covers(fields[key], value) {
				return false
			}
		}
		return true
	case []any:
		items, _ := have.([]any)
		if len(items) != len(want) {
			return false
		}
		for i := range want {
			if !covers(items[i], want[i]) {
				return false
			}
		}
		return true
	default:
		// An empty value may have been dropped: it says what its absence says.
		return have == want || have == nil && reflect.ValueOf(want).IsZero()
	}
}

// mend puts our part into an object: each field of the spec that we set, whole,
// and the hash.
func mend(have, want *unstructured.Unstructured) {
	spec, ok := have.Object["spec"].(map[string]any)
	if !ok {
		spec = map[string]any{}
		have.Object["spec"] = spec
	}
	ours, _ := want.Object["spec"].(map[string]any)
	maps.Copy(spec, ours)
	annotations := have.GetAnnotations()
	for key, value := range want.GetAnnotations() {
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations[key] = value
	}
	have.SetAnnotations(annotations)
}

// specHash is stable: JSON sorts the keys of maps.
func specHash(spec map[string]any) string {
	data, err := json.Marshal(spec)
	if err != nil {
		panic(fmt.Sprintf("a spec is no JSON: %v", err)) // It was made from JSON.
	}
	return hexHash(string(data))[:16]
}
