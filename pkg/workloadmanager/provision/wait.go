package provision

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/agentcube/agentcube/pkg/sandbox"
	"github.com/agentcube/agentcube/pkg/session"
)

// waitReady returns the object once it is ready and has an address. It is
// subscribe, re-check, select; a direct read at an interval guards against a
// watch that has silently stopped, and reads the row too, so that a deletion
// on another replica ends the create.
func (p *Provisioner) waitReady(ctx context.Context, c *creation) (sandbox.Object, error) {
	changed, unsubscribe := p.watcher.Subscribe(c.row.Object)
	defer unsubscribe()
	ticker := p.clock.NewTicker(p.options.DirectRead)
	defer ticker.Stop()
	seen := false
	for {
		object, err := p.look(ctx, c, &seen)
		if err != nil {
			return sandbox.Object{}, err
		}
		if ready, err := p.judge(ctx, c, &object); ready || err != nil {
			return object, err
		}
		select {
		case <-ctx.Done():
			return sandbox.Object{}, context.Cause(ctx)
		case <-changed:
			// Something happened to the object: if the cache has not got it,
			// it went.
			seen = true
		case <-ticker.C():
			if object, ready, err := p.lookPastTheWatch(ctx, c); ready || err != nil {
				return object, err
			}
		}
	}
}

// look returns the object as the watch shows it, or the zero Object before it
// does. One that was seen and is not any more is gone or lost its label: only a
// direct read tells.
func (p *Provisioner) look(ctx context.Context, c *creation, seen *bool) (sandbox.Object, error) {
	object, cached := p.watcher.Get(c.row.Object)
	if cached && object.Ref.UID == c.row.Object.UID {
		if !c.answered.IsZero() {
			p.options.Metrics.shown(object.Ref.Kind, p.clock.Since(c.answered))
		}
		c.answered, *seen = time.Time{}, true
		return object, nil
	}
	if !*seen {
		return sandbox.Object{}, nil
	}
	return p.directRead(ctx, c)
}

// lookPastTheWatch reads the row and the object.
func (p *Provisioner) lookPastTheWatch(ctx context.Context, c *creation) (object sandbox.Object, ready bool, err error) {
	if err := p.checkRow(ctx, c); err != nil {
		return sandbox.Object{}, false, err
	}
	if object, err = p.directRead(ctx, c); err != nil {
		return sandbox.Object{}, false, err
	}
	ready, err = p.judge(ctx, c, &object)
	return object, ready, err
}

// judge decides whether the object is ready, hopeless, or to be waited for.
func (p *Provisioner) judge(ctx context.Context, c *creation, object *sandbox.Object) (ready bool, err error) {
	p.lookAhead(ctx, c, object)
	switch {
	case object.Ref.UID == "":
		return false, nil
	case object.Deleting:
		return false, fmt.Errorf("%s is being deleted: %w", object.Ref, ErrDeleted)
	case object.Failure != nil:
		return false, &FailedError{Reason: object.Failure.Reason, Message: object.Failure.Message, Quota: object.Failure.Quota}
	case object.Ready && len(object.Addresses) > 0 && object.SandboxName != "":
		return p.identify(ctx, c, object)
	case object.PoolMissing():
		return false, p.checkPool(ctx, c, *object)
	}
	if object.Message != "" {
		c.waiting = fmt.Sprintf("the sandbox to become ready (%s: %s)", object.Reason, object.Message)
	}
	return false, nil
}

// checkPool ends the wait when the pool that was there is there no more, or is
// a newer one than the claim. A controller that has not seen an older pool yet
// says the same, and heals.
func (p *Provisioner) checkPool(ctx context.Context, c *creation, object sandbox.Object) error {
	created, err := p.pools.PoolCreated(ctx, c.row.Workload.Namespace, c.row.Workload.Name)
	switch {
	case err == nil && !created.After(object.CreatedAt):
		return nil
	case err == nil, errors.Is(err, sandbox.ErrNotFound):
		return &FailedError{Reason: object.Reason, Message: object.Message}
	default:
		p.log.Warn("could not look at the warm pool of a waiting session",
			zap.String("session", c.row.ID), zap.Error(err))
		return nil
	}
}

// directRead asks the API server. An API server that does not answer ends
// nothing: the create bound does. The zero Object means it does not know.
func (p *Provisioner) directRead(ctx context.Context, c *creation) (sandbox.Object, error) {
	object, err := p.cluster.Get(ctx, c.row.Object)
	switch {
	case errors.Is(err, sandbox.ErrNotFound):
		return sandbox.Object{}, fmt.Errorf("%s is gone: %w", c.row.Object, ErrDeleted)
	case err != nil:
		if ctx.Err() != nil {
			return sandbox.Object{}, context.Cause(ctx)
		}
		p.log.Warn("could not read the object of a waiting session",
			zap.String("session", c.row.ID), zap.Stringer("object", c.row.Object), zap.Error(err))
		return sandbox.Object{}, nil
	case object.Ref.UID != c.row.Object.UID:
		return sandbox.Object{}, fmt.Errorf("%s was replaced: %w", c.row.Object, ErrDeleted)
	}
	return object, nil
}

func (p *Provisioner) checkRow(ctx context.Context, c *creation) error {
	row, err := p.store.Get(ctx, c.row.ID)
	switch {
	case errors.Is(err, session.ErrNotFound):
		return fmt.Errorf("the row is gone: %w", ErrDeleted)
	case err != nil:
		// The commit will find out.
		return nil //nolint:nilerr // see above
	case row.State != session.StateCreating:
		return fmt.Errorf("the row is %s: %w", row.State, ErrDeleted)
	}
	return nil
}

// identify reads the UID of a claim's sandbox, which is the sandbox's identity
// and which the claim does not tell. A sandbox that is gone is one that the
// claim has not noticed to be gone yet: it will bind another.
func (p *Provisioner) identify(ctx context.Context, c *creation, object *sandbox.Object) (ready bool, err error) {
	if object.SandboxUID == "" && c.ahead != nil && c.ahead.name == object.SandboxName {
		object.SandboxUID = <-c.ahead.uid
		c.ahead = nil
	}
	if object.SandboxUID != "" {
		return true, nil
	}
	err = p.retry(ctx, func(ctx context.Context) error {
		var err error
		object.SandboxUID, err = p.cluster.SandboxUID(ctx, object.Ref.Namespace, object.SandboxName)
		return err
	})
	if errors.Is(err, sandbox.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading sandbox %s of %s: %w", object.SandboxName, object.Ref, err)
	}
	return true, nil
}

// observe turns a ready object into what the row is to say.
func observe(object sandbox.Object) session.Observed {
	return session.Observed{
		State:           session.StateReady,
		Object:          object.Ref,
		Sandbox:         session.SandboxRef{Name: object.SandboxName, UID: object.SandboxUID},
		Address:         object.Addresses[0],
		ResourceVersion: object.ResourceVersion,
	}
}
