package workload

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/agentcube/agentcube/pkg/sandbox"
	"github.com/agentcube/agentcube/pkg/session"
)

// errStale: the cached CodeInterpreter is behind the API server's.
var errStale = errors.New("the code interpreter changed meanwhile")

// sync makes the pool of one CodeInterpreter as it is asked for, and reports.
// It decides from what is, whatever the event was.
func (s *syncer) sync(ctx context.Context, name cache.ObjectName) error {
	t, known := s.interpreters.template(name)
	if !known {
		return nil
	}
	if t.DeletionTimestamp != nil {
		// Made anew, what the garbage collector removes would hold up the
		// deletion of its owner.
		return nil
	}
	pools, asked := s.agentSandbox.get()
	if !asked {
		// The answer enqueues all.
		return nil
	}
	found, err := s.mend(ctx, t, pools)
	if found == nil {
		return err
	}
	return errors.Join(err, s.report(ctx, t, *found))
}

// mend does what is to be done and says what came of it. Without a verdict
// nothing is known that is worth a report: the error will pass.
func (s *syncer) mend(ctx context.Context, t *template, pools Pools) (*verdict, error) {
	w := t.workload
	switch {
	case t.invalid != nil:
		return failed(w, ReasonInvalidTemplate, t.invalid.Error()), nil //nolint:nilerr // the verdict tells it
	case pools == nil:
		return failed(w, ReasonAgentSandboxNotServed, sandbox.ErrNotServed.Error()), nil
	case !w.Warm:
		if err := s.remove(ctx, t, pools); err != nil {
			return nil, err
		}
	}
	if w.AuthMode == session.AuthModePicoD {
		pem, loaded := s.Keys.PublicKey()
		if !loaded {
			return failed(w, ReasonPublicKeyNotLoaded, "the public key of the router is not there yet"), nil
		}
		w = w.WithPublicKey(pem)
	}
	if !w.Warm {
		return &verdict{ready: finding{true, ReasonColdStart, "sessions start cold: no warm pool is asked for"}}, nil
	}
	pool, err := s.ensure(ctx, w.WithRuntimeClass(s.RuntimeClass), pools)
	if err != nil {
		return refusal(w, err)
	}
	return observed(w.PoolSize, pool.ReadyReplicas), nil
}

// ensure makes the template before the pool: a claim that waits for its pool
// is woken when the pool comes, and a missing template would hold it up.
func (s *syncer) ensure(ctx context.Context, w Workload, pools Pools) (sandbox.PoolStatus, error) {
	err := pools.EnsureTemplate(ctx, sandbox.TemplateSpec{
		Namespace: w.Ref.Namespace, Name: w.Ref.Name, OwnerUID: w.UID, Pod: w.pooled(),
	})
	if err != nil {
		return sandbox.PoolStatus{}, fmt.Errorf("making the template of the pool: %w", err)
	}
	pool, err := pools.EnsureWarmPool(ctx, sandbox.PoolSpec{
		Namespace: w.Ref.Namespace, Name: w.Ref.Name, OwnerUID: w.UID, Replicas: w.PoolSize,
	})
	if err != nil {
		return sandbox.PoolStatus{}, fmt.Errorf("making the pool: %w", err)
	}
	return pool, nil
}

// remove takes the pool away before its template, so that the pool never
// misses one. Nothing is sent when there is nothing of ours: the event of one
// that the cache does not show yet comes back here.
func (s *syncer) remove(ctx context.Context, t *template, pools Pools) error {
	name, uid := cache.MetaObjectToName(t), string(t.UID)
	if !s.agentSandbox.owned(name, uid) {
		return nil
	}
	if err := pools.DeleteWarmPool(ctx, name.Namespace, name.Name, uid); err != nil {
		return fmt.Errorf("removing the pool: %w", err)
	}
	if err := pools.DeleteTemplate(ctx, name.Namespace, name.Name, uid); err != nil {
		return fmt.Errorf("removing the template of the pool: %w", err)
	}
	return nil
}

// failed is the verdict that no session can be served.
func failed(w Workload, reason, message string) *verdict {
	f := finding{false, reason, message}
	if !w.Warm {
		return &verdict{ready: f}
	}
	return &verdict{ready: f, pool: &f}
}

// refusal tells apart what the author of the template must hear and what
// passes. Only a stranger's object is not tried again: its event is waited for.
func refusal(w Workload, err error) (*verdict, error) {
	var rejected *sandbox.RejectedError
	switch {
	case errors.Is(err, sandbox.ErrNotOwned):
		return failed(w, ReasonNameConflict, err.Error()), nil
	case errors.Is(err, sandbox.ErrNotServed):
		return failed(w, ReasonAgentSandboxNotServed, err.Error()), err
	case errors.As(err, &rejected):
		return failed(w, ReasonRejected, err.Error()), err
	case errors.Is(err, sandbox.ErrUnavailable), errors.Is(err, sandbox.ErrConflict),
		errors.Is(err, sandbox.ErrExists), errors.Is(err, sandbox.ErrNotFound),
		errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return nil, err
	default:
		return failed(w, ReasonEnsureFailed, err.Error()), err
	}
}

// observed is the verdict on a pool that stands. Claims empty a pool, so it
// need not be full for sessions to be served; one that has nothing to give is
// not known to work.
func observed(size, ready int32) *verdict {
	message := fmt.Sprintf("%d of %d sandboxes are ready", ready, size)
	v := &verdict{
		ready: finding{true, ReasonAvailable, "sessions are served from the warm pool"},
		pool:  &finding{false, ReasonWarmPoolFilling, message},
	}
	switch {
	case ready >= size:
		v.pool = &finding{true, ReasonWarmPoolFull, message}
	case ready == 0:
		v.pool.reason = ReasonWarmPoolEmpty
		v.ready = *v.pool
	}
	return v
}

// report writes the status if it says something new. The resource version
// makes a report that rests on an older object fail; other fields of the
// status are not touched.
func (s *syncer) report(ctx context.Context, t *template, v verdict) error {
	next, changed := t.status.with(v, t.Generation, metav1.NewTime(s.Clock.Now()))
	if !changed {
		return nil
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": t.ResourceVersion},
		"status":   map[string]any{"ready": *next.ready, "conditions": next.conditions},
	})
	if err != nil {
		return fmt.Errorf("encoding the status of %s/%s: %w", t.Namespace, t.Name, err)
	}
	_, err = s.Client.Resource(s.interpreters.resource).Namespace(t.Namespace).
		Patch(ctx, t.Name, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	switch {
	case err == nil, apierrors.IsNotFound(err):
		// Gone meanwhile: there is nothing to report on.
		return nil
	case apierrors.IsConflict(err):
		return errStale
	default:
		return fmt.Errorf("writing the status of %s/%s: %w", t.Namespace, t.Name, err)
	}
}
