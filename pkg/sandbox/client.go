package sandbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/agentcube/agentcube/pkg/session"
)

// defaultCallTimeout is far above what a healthy API server needs and well
// inside the bound of a create.
const defaultCallTimeout = 10 * time.Second

// ClientOptions are the settings of a Client.
type ClientOptions struct {
	// CallTimeout bounds each call, retries of client-go included. Zero: 10 s.
	CallTimeout time.Duration
}

// Client creates, reads and deletes the objects of sessions and pools,
// directly: nothing is cached. Its errors are those of this package, or wrap
// the caller's context error.
type Client struct {
	dynamic dynamic.Interface
	api     API
	timeout time.Duration
}

// NewClient makes a client with the credentials of d.
func NewClient(d dynamic.Interface, api API, options ClientOptions) *Client {
	if options.CallTimeout <= 0 {
		options.CallTimeout = defaultCallTimeout
	}
	return &Client{dynamic: d, api: api, timeout: options.CallTimeout}
}

// Create sends the object of a session, of the kind that spec.Object names.
//
// Errors: ErrExists, RejectedError, ErrNotServed, ErrUnavailable. OutcomeUnknown
// tells whether the object may be there all the same.
func (c *Client) Create(ctx context.Context, spec Spec) (Object, error) {
	u := c.api.BuildSandbox(spec)
	if spec.Object.Kind == session.KindSandboxClaim {
		u = c.api.BuildClaim(spec)
	}
	var created *unstructured.Unstructured
	err := c.call(ctx, spec.Object, "creating", func(ctx context.Context, r dynamic.ResourceInterface) (err error) {
		created, err = r.Create(ctx, u, metav1.CreateOptions{FieldManager: ManagedByAgentCube})
		return err
	})
	var failed *callError
	if errors.As(err, &failed) && errors.Is(failed.kind, ErrConflict) {
		// Nothing of ours changed: creates contend for a quota's counter.
		failed.kind = ErrUnavailable
	}
	if err != nil {
		return Object{}, err
	}
	return c.api.Parse(created)
}

// Get reads an object from the API server, past every cache. A UID in ref is
// not compared.
//
// Errors: ErrNotFound, ErrForbidden, ErrNotServed, ErrUnavailable.
func (c *Client) Get(ctx context.Context, ref session.ObjectRef) (Object, error) {
	u, err := c.read(ctx, ref)
	if err != nil {
		return Object{}, err
	}
	return c.api.Parse(u)
}

// SandboxUID reads the UID of a Sandbox, which the status of the claim that
// adopted it does not tell. Errors as of Get.
func (c *Client) SandboxUID(ctx context.Context, namespace, name string) (string, error) {
	u, err := c.read(ctx, session.ObjectRef{Kind: session.KindSandbox, Namespace: namespace, Name: name})
	if err != nil {
		return "", err
	}
	return string(u.GetUID()), nil
}

// Delete deletes an object, and what it owns in the background. With a UID in
// ref it deletes that object only, and ErrConflict means that another one
// bears the name by now.
//
// Errors: ErrNotFound, ErrConflict, ErrForbidden, ErrNotServed, ErrUnavailable.
func (c *Client) Delete(ctx context.Context, ref session.ObjectRef) error {
	return c.call(ctx, ref, "deleting", func(ctx context.Context, r dynamic.ResourceInterface) error {
		return r.Delete(ctx, ref.Name, deleteOptions(ref.UID))
	})
}

// SetSessionLabel puts the session's label back on its object, so that it is
// watched again. With a UID in ref it touches that object only.
//
// Errors: ErrNotFound, ErrConflict (another object, or changed meanwhile),
// ErrForbidden, ErrNotServed, ErrUnavailable.
func (c *Client) SetSessionLabel(ctx context.Context, ref session.ObjectRef, sessionID string) error {
	metadata := map[string]any{"labels": map[string]any{LabelSessionID: sessionID}}
	if ref.UID != "" {
		// A patch has no UID precondition; the resource version of an object
		// whose UID was seen serves as one.
		u, err := c.read(ctx, ref)
		if err != nil {
			return err
		}
		if string(u.GetUID()) != ref.UID {
			return fmt.Errorf("labelling %s: its UID is %s, not %s: %w", ref, u.GetUID(), ref.UID, ErrConflict)
		}
		metadata["resourceVersion"] = u.GetResourceVersion()
	}
	patch, err := json.Marshal(map[string]any{"metadata": metadata})
	if err != nil {
		return fmt.Errorf("labelling %s: %w", ref, err)
	}
	return c.call(ctx, ref, "labelling", func(ctx context.Context, r dynamic.ResourceInterface) error {
		_, err := r.Patch(ctx, ref.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: ManagedByAgentCube})
		return err
	})
}

func (c *Client) read(ctx context.Context, ref session.ObjectRef) (*unstructured.Unstructured, error) {
	var u *unstructured.Unstructured
	err := c.call(ctx, ref, "reading", func(ctx context.Context, r dynamic.ResourceInterface) (err error) {
		u, err = r.Get(ctx, ref.Name, metav1.GetOptions{})
		return err
	})
	return u, err
}

// call makes one bounded call on the resource of an object that carries a
// session, and translates its error.
func (c *Client) call(ctx context.Context, ref session.ObjectRef, verb string,
	do func(context.Context, dynamic.ResourceInterface) error,
) error {
	doing := verb + " " + ref.String()
	resource, err := c.api.of(ref.Kind)
	if err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	return c.bounded(ctx, doing, func(ctx context.Context) error {
		return do(ctx, c.dynamic.Resource(resource).Namespace(ref.Namespace))
	})
}

func (c *Client) bounded(ctx context.Context, doing string, do func(context.Context) error) error {
	if err := notSent(ctx, doing); err != nil {
		return err
	}
	bounded, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	return translate(ctx, do(bounded), doing)
}

// deleteOptions: with foreground deletion an object would stay, marked, until
// its pod is gone, and a session with it.
func deleteOptions(uid string) metav1.DeleteOptions {
	background := metav1.DeletePropagationBackground
	options := metav1.DeleteOptions{PropagationPolicy: &background}
	if uid != "" {
		id := types.UID(uid)
		options.Preconditions = &metav1.Preconditions{UID: &id}
	}
	return options
}
