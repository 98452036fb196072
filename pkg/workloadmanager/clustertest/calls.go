package clustertest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/agentcube/agentcube/pkg/sandbox"
	"github.com/agentcube/agentcube/pkg/session"
)

// methods are those of the API server that can fail.
var methods = []string{"Create", "Get", "Delete", "SandboxUID", "SetSessionLabel", "PoolCreated", "SetLifetimes"}

func mustExist(method string) {
	if !slices.Contains(methods, method) {
		panic(fmt.Sprintf("clustertest: no call %q, only %q", method, methods))
	}
}

// FailNext makes the next call of the method fail with err and do nothing.
// Each further FailNext takes one more call.
func (c *Cluster) FailNext(method string, err error) {
	c.On(method, func(context.Context) error { return err })
}

// FailAfter makes the next call do its work and lose the answer: it returns
// err all the same.
func (c *Cluster) FailAfter(method string, err error) {
	mustExist(method)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lost[method] = append(c.lost[method], err)
}

// Hang makes the next call do nothing until its context ends.
func (c *Cluster) Hang(method string) {
	c.On(method, func(ctx context.Context) error {
		<-ctx.Done()
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return ErrTooLate
		}
		return ErrLeft
	})
}

// Before runs do before the next call of the method does its work.
func (c *Cluster) Before(method string, do func()) {
	c.On(method, func(context.Context) error { do(); return nil })
}

// Down makes every call fail with err from now on, until it is called with
// nil.
func (c *Cluster) Down(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.down = err
}

// On runs fault at the start of the next call of the method; an error of it is
// the call's answer.
func (c *Cluster) On(method string, fault func(context.Context) error) {
	mustExist(method)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.faults[method] = append(c.faults[method], fault)
}

// enter is what a call meets before its work.
func (c *Cluster) enter(ctx context.Context, method string) error {
	c.mu.Lock()
	c.calls = append(c.calls, method)
	var fault func(context.Context) error
	if armed := c.faults[method]; len(armed) > 0 {
		fault, c.faults[method] = armed[0], armed[1:]
	}
	down := c.down
	c.mu.Unlock()
	switch {
	case ctx.Err() != nil:
		return ctx.Err() // nothing is sent
	case fault != nil:
		return fault(ctx)
	default:
		return down
	}
}

// leave is what it meets after. It needs mu.
func (c *Cluster) leave(method string) error {
	armed := c.lost[method]
	if len(armed) == 0 {
		return nil
	}
	c.lost[method] = armed[1:]
	return armed[0]
}

// Create makes the object that the spec names.
func (c *Cluster) Create(ctx context.Context, spec sandbox.Spec) (sandbox.Object, error) {
	c.mu.Lock()
	c.specs = append(c.specs, spec)
	c.mu.Unlock()
	if err := c.enter(ctx, "Create"); err != nil {
		return sandbox.Object{}, err
	}
	c.mu.Lock()
	if _, ok := c.objects[named(spec.Object)]; ok {
		defer c.mu.Unlock()
		return sandbox.Object{}, fmt.Errorf("creating %s: %w", spec.Object, sandbox.ErrExists)
	}
	o := c.store(sandbox.Object{
		Ref: spec.Object, SessionID: spec.SessionID, Installation: spec.Installation,
	})
	c.lifetimes[o.Ref.UID] = sandbox.Lifetimes{ShutdownTime: spec.ShutdownTime, Idle: spec.IdleTimeout}
	err, controllers := c.leave("Create"), c.onCreate
	c.mu.Unlock()
	if controllers != nil {
		controllers(o)
	}
	if err != nil {
		return sandbox.Object{}, err
	}
	return o, nil
}

// Get reads past the cache.
func (c *Cluster) Get(ctx context.Context, ref session.ObjectRef) (sandbox.Object, error) {
	if err := c.enter(ctx, "Get"); err != nil {
		return sandbox.Object{}, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	o, ok := c.objects[named(ref)]
	if !ok && ref.Kind == session.KindSandbox {
		o, ok = c.adopted[ref.Namespace+"/"+ref.Name]
	}
	if !ok {
		return sandbox.Object{}, fmt.Errorf("reading %s: %w", ref, sandbox.ErrNotFound)
	}
	return o, c.leave("Get")
}

// Delete deletes, with the UID as a precondition if there is one.
func (c *Cluster) Delete(ctx context.Context, ref session.ObjectRef) error {
	if err := c.enter(ctx, "Delete"); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	o, ok := c.objects[named(ref)]
	switch {
	case !ok:
		return fmt.Errorf("deleting %s: %w", ref, sandbox.ErrNotFound)
	case ref.UID != "" && ref.UID != o.Ref.UID:
		return fmt.Errorf("deleting %s: %w", ref, sandbox.ErrConflict)
	case c.finalize:
		o.Deleting = true
		c.store(o)
	default:
		c.remove(ref)
	}
	return c.leave("Delete")
}

// SandboxUID reads the UID of a Sandbox.
func (c *Cluster) SandboxUID(ctx context.Context, namespace, name string) (string, error) {
	if err := c.enter(ctx, "SandboxUID"); err != nil {
		return "", err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	uid := c.adopted[namespace+"/"+name].Ref.UID
	if uid == "" {
		return "", fmt.Errorf("reading sandbox %s/%s: %w", namespace, name, sandbox.ErrNotFound)
	}
	return uid, c.leave("SandboxUID")
}

// SetSessionLabel puts the label back.
func (c *Cluster) SetSessionLabel(ctx context.Context, ref session.ObjectRef, sessionID string) error {
	if err := c.enter(ctx, "SetSessionLabel"); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	o, ok := c.objects[named(ref)]
	switch {
	case !ok:
		return sandbox.ErrNotFound
	case ref.UID != "" && ref.UID != o.Ref.UID:
		return sandbox.ErrConflict
	}
	o.SessionID = sessionID
	c.store(o)
	return c.leave("SetSessionLabel")
}

// PoolCreated is when a pool was created.
func (c *Cluster) PoolCreated(ctx context.Context, namespace, name string) (time.Time, error) {
	if err := c.enter(ctx, "PoolCreated"); err != nil {
		return time.Time{}, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	created := c.pools[namespace+"/"+name]
	if created.IsZero() {
		return time.Time{}, fmt.Errorf("reading pool %s/%s: %w", namespace, name, sandbox.ErrNotFound)
	}
	return created, nil
}

// SetLifetimes makes the object of that version say these.
func (c *Cluster) SetLifetimes(ctx context.Context, ref session.ObjectRef, version string, l sandbox.Lifetimes) error {
	if err := c.enter(ctx, "SetLifetimes"); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	o, ok := c.objects[named(ref)]
	switch {
	case !ok:
		return fmt.Errorf("changing the lifetimes of %s: %w", ref, sandbox.ErrNotFound)
	case o.ResourceVersion != version:
		return fmt.Errorf("changing the lifetimes of %s: %w", ref, sandbox.ErrConflict)
	}
	said := c.lifetimes[o.Ref.UID]
	if !l.ShutdownTime.IsZero() {
		said.ShutdownTime = l.ShutdownTime
	}
	if l.Idle > 0 {
		said.Idle = l.Idle
	}
	if said != c.lifetimes[o.Ref.UID] {
		c.lifetimes[o.Ref.UID] = said
		c.store(o)
	}
	return c.leave("SetLifetimes")
}

// Lifetimes are what the object of that UID says.
func (c *Cluster) Lifetimes(uid string) sandbox.Lifetimes {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lifetimes[uid]
}
