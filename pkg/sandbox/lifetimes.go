package sandbox

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/agentcube/agentcube/pkg/session"
)

// Lifetimes are what an object says of those of its session. What is zero is
// left as it is.
type Lifetimes struct {
	// ShutdownTime ends the object even when no workload-manager lives. It is
	// kept in whole seconds, rounded up.
	ShutdownTime time.Time
	// Idle is told to the operator.
	Idle time.Duration
}

// SetLifetimes makes an object say these, if it still is as it was at the given
// resource version.
//
// Errors: ErrNotFound, ErrConflict (changed meanwhile), RejectedError,
// ErrForbidden, ErrNotServed, ErrUnavailable.
func (c *Client) SetLifetimes(ctx context.Context, ref session.ObjectRef, version string, l Lifetimes) error {
	patch, err := json.Marshal(lifetimesPatch(ref.Kind, version, l))
	if err != nil {
		return fmt.Errorf("changing the lifetimes of %s: %w", ref, err)
	}
	return c.call(ctx, ref, "changing the lifetimes of", func(ctx context.Context, r dynamic.ResourceInterface) error {
		_, err := r.Patch(ctx, ref.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: ManagedByAgentCube})
		return err
	})
}

func lifetimesPatch(kind, version string, l Lifetimes) map[string]any {
	metadata := map[string]any{"resourceVersion": version}
	if l.Idle > 0 {
		metadata["annotations"] = map[string]any{AnnotationIdle: l.Idle.String()}
	}
	patch := map[string]any{"metadata": metadata}
	if l.ShutdownTime.IsZero() {
		return patch
	}
	// The policy needs no mention: it is Retain unless said otherwise.
	end := map[string]any{"shutdownTime": shutdownTime(l.ShutdownTime)}
	if kind == session.KindSandboxClaim {
		end = map[string]any{"lifecycle": end}
	}
	patch["spec"] = end
	return patch
}
