package provision

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"go.uber.org/zap"

	"github.com/agentcube/agentcube/pkg/sandbox"
	"github.com/agentcube/agentcube/pkg/session"
)

// nameAttempts bounds how often another name is taken because a stranger's
// object has the first one.
const nameAttempts = 3

// errBound is the cause of a context that the create bound ended, which tells
// it from a client that went away.
var errBound = errors.New("create bound passed")

// creation is one create under way: what its undo has to know.
type creation struct {
	row session.Session
	// reserved: the row may exist.
	reserved bool
	// reservationUnknown: the store may yet write the row.
	reservationUnknown bool
	// sent: the object may exist.
	sent bool
	// unknownUntil is set when the create call's outcome is not known.
	unknownUntil time.Time
	// ahead is the look-up of the sandbox that a claim is about to get.
	ahead *lookAhead
	// onReserved is called once the row exists.
	onReserved func(session.Session)
	// waiting says what the create waits for at the moment.
	waiting string
	// steps so far, for metrics and traces.
	steps steps
	// answered is when the API server had answered the create call.
	answered time.Time
}

// Create makes a session and returns it ready. When it fails, what it made is
// undone, also when ctx has ended; what cannot be undone stays in the store
// as deleting, for the collector.
//
// Errors: ErrDeleted, ErrClientGone, *TimeoutError, *FailedError,
// *UnreachableError, session.ErrUnavailable, and those of pkg/sandbox.
func (p *Provisioner) Create(ctx context.Context, r Request) (session.Session, error) {
	return p.run(ctx, r, func(session.Session) {})
}

func (p *Provisioner) run(
	ctx context.Context, r Request, onReserved func(session.Session),
) (created session.Session, err error) {
	begun := p.clock.Now()
	defer func() { p.options.Metrics.created(r, p.clock.Since(begun), err) }()
	bounded, cancel := context.WithTimeoutCause(ctx, p.options.CreateBound, errBound)
	defer cancel()
	row, err := p.reservation(r)
	if err != nil {
		return session.Session{}, err
	}
	c := &creation{row: row, onReserved: onReserved, steps: p.newSteps(r)}
	ready, err := p.create(bounded, r, c)
	c.steps.leave(err)
	if err == nil {
		return ready, nil
	}
	err = p.outcome(bounded, c, err)
	p.tellFailed(c, err)
	if c.reserved {
		undo := p.newSteps(r)
		if finished, undoErr := p.detached(ctx, c.row.ID, p.options.AnswerBound, func(ctx context.Context) error {
			err := p.undo(undo.enter(ctx, stepUndo), c)
			undo.leave(err)
			p.options.Metrics.undone(p.leave(ctx, c, err))
			return err
		}); finished && undoErr != nil {
			// As text: what the caller is told is why the create failed.
			err = fmt.Errorf("%w (not undone yet: %s)", err, undoErr.Error())
		}
	}
	return session.Session{}, err
}

func (p *Provisioner) create(ctx context.Context, r Request, c *creation) (session.Session, error) {
	if r.Prepare != nil {
		c.waiting = "the warm pool"
		if err := r.Prepare(c.steps.enter(ctx, stepPrepare)); err != nil {
			return session.Session{}, fmt.Errorf("preparing the warm pool of %s/%s: %w", r.Workload.Namespace, r.Workload.Name, err)
		}
	}
	c.waiting = "the store"
	// From here on the row may exist; if the answer is lost it is undone.
	c.reserved = true
	reserved, err := p.store.Create(c.steps.enter(ctx, stepReserve), c.row)
	if err != nil {
		c.reserved = !errors.Is(err, session.ErrExists)
		c.reservationUnknown = c.reserved
		return session.Session{}, fmt.Errorf("reserving session %s: %w", c.row.ID, err)
	}
	c.onReserved(reserved)
	if err := p.createObject(c.steps.enter(ctx, stepObject), r, c); err != nil {
		return session.Session{}, err
	}
	c.waiting = "the sandbox to become ready"
	object, err := p.waitReady(c.steps.enter(ctx, stepWait), c)
	if err != nil {
		return session.Session{}, err
	}
	observed := observe(object)
	if err := p.probe(c.steps.enter(ctx, stepProbe), c, observed); err != nil {
		return session.Session{}, err
	}
	c.waiting = "the store"
	return p.commit(c.steps.enter(ctx, stepCommit), c, observed)
}

func (p *Provisioner) reservation(r Request) (session.Session, error) {
	name, err := sandbox.ObjectName(r.Workload.Name, nil)
	if err != nil {
		return session.Session{}, err
	}
	now := p.clock.Now().UTC().Truncate(time.Millisecond)
	kind := session.KindSandbox
	if r.Warm {
		kind = session.KindSandboxClaim
	}
	return session.Session{
		ID: uuid.NewString(),
		Object: session.ObjectRef{
			Kind: kind, Namespace: r.Workload.Namespace, Name: name,
		},
		Workload:     r.Workload,
		Ports:        r.Ports,
		OwnerID:      r.OwnerID,
		CreatedAt:    now,
		ExpiresAt:    r.Lifetimes.ExpiresAt(now),
		IdleTimeout:  r.Lifetimes.Idle,
		MaxDuration:  r.Lifetimes.Max,
		State:        session.StateCreating,
		Metadata:     r.Metadata,
		AuthMode:     r.AuthMode,
		KeyID:        r.KeyID,
		Creator:      session.Creator{Process: p.options.Process, Token: uuid.NewString()},
		Key:          r.Key,
		Installation: p.options.Installation,
	}, nil
}

// createObject creates the object and records its UID. An object of that name
// that bears our session's label is our own, from a call whose answer was
// lost; a stranger's makes us take another name.
func (p *Provisioner) createObject(ctx context.Context, r Request, c *creation) error {
	c.waiting = "the API server"
	for attempt := 1; ; attempt++ {
		object, ours, err := p.send(ctx, r, c)
		if err != nil {
			return err
		}
		if ours {
			c.row.Object.UID = object.Ref.UID
			return p.record(ctx, c)
		}
		if attempt == nameAttempts {
			return fmt.Errorf("creating %s: every name tried is taken: %w", c.row.Object, sandbox.ErrExists)
		}
		if err := p.rename(ctx, r, c); err != nil {
			return err
		}
	}
}

// send makes the create call. Without an error, ours is false if a stranger's
// object has the name.
func (p *Provisioner) send(ctx context.Context, r Request, c *creation) (object sandbox.Object, ours bool, err error) {
	c.sent = true
	object, err = p.cluster.Create(ctx, p.spec(r, c.row))
	switch {
	case err == nil:
		c.answered = p.clock.Now()
		return object, true, nil
	case errors.Is(err, sandbox.ErrExists):
		object, ours, err = p.existing(ctx, c)
		// With an error it may be ours, so the undo looks for it.
		c.sent = ours || err != nil
		return object, ours, err
	}
	if c.sent = sandbox.OutcomeUnknown(err); c.sent {
		c.unknownUntil = p.clock.Now().Add(p.options.UnknownBound)
	}
	return sandbox.Object{}, false, fmt.Errorf("creating %s: %w", c.row.Object, err)
}

// existing looks whose the object is that has the name. One that is gone again
// was not ours.
func (p *Provisioner) existing(ctx context.Context, c *creation) (object sandbox.Object, ours bool, err error) {
	object, err = p.cluster.Get(ctx, c.row.Object)
	if errors.Is(err, sandbox.ErrNotFound) {
		return sandbox.Object{}, false, nil
	}
	if err != nil {
		return sandbox.Object{}, false, fmt.Errorf("looking whose %s is: %w", c.row.Object, err)
	}
	return object, object.SessionID == c.row.ID, nil
}

// rename takes another name, in the row before the object exists.
func (p *Provisioner) rename(ctx context.Context, r Request, c *creation) error {
	name, err := sandbox.ObjectName(r.Workload.Name, nil)
	if err != nil {
		return err
	}
	c.row.Object.Name = name
	return p.record(ctx, c)
}

// record writes the object into the row. A store that does not answer is no
// reason to end the create: the commit writes the same. A row that is gone or
// being deleted is.
func (p *Provisioner) record(ctx context.Context, c *creation) error {
	_, err := p.store.Update(ctx, c.row.ID, session.Known(c.row.Creator.Token, c.row.Object))
	switch {
	case err == nil:
		return nil
	case errors.Is(err, session.ErrNotFound), errors.Is(err, session.ErrStale):
		return fmt.Errorf("%w: %w", ErrDeleted, err)
	case errors.Is(err, session.ErrUnavailable) && c.row.Object.UID != "" && ctx.Err() == nil:
		p.log.Warn("could not record the object of a session yet",
			zap.String("session", c.row.ID), zap.Stringer("object", c.row.Object), zap.Error(err))
		return nil
	default:
		return fmt.Errorf("recording %s: %w", c.row.Object, err)
	}
}

func (p *Provisioner) spec(r Request, row session.Session) sandbox.Spec {
	return sandbox.Spec{
		Object:       row.Object,
		SessionID:    row.ID,
		Workload:     r.Workload,
		Installation: p.options.Installation,
		OwnerID:      row.OwnerID,
		IdleTimeout:  row.IdleTimeout,
		ShutdownTime: row.ExpiresAt,
		Pod:          r.Pod,
		WorkloadUID:  claimOwner(r),
	}
}

// claimOwner is the workload's UID for a claim, which goes with its workload. A
// direct Sandbox outlives it.
func claimOwner(r Request) string {
	if !r.Warm {
		return ""
	}
	return r.WorkloadUID
}

func (p *Provisioner) probe(ctx context.Context, c *creation, o session.Observed) error {
	c.waiting = "the sandbox to listen"
	probing, cancel := context.WithTimeout(ctx, p.options.ProbeBound)
	defer cancel()
	err := p.prober.Probe(probing, session.EntryPoints(c.row.Ports, o.Address))
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return &UnreachableError{Err: err}
}

// commit makes the session ready. A store that hiccups is asked again in
// bounds, since the sandbox is healthy; Update recognises its own earlier
// success by the reservation's token.
func (p *Provisioner) commit(ctx context.Context, c *creation, o session.Observed) (session.Session, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, p.options.UndoBound, errBound)
	defer cancel()
	var committed session.Session
	err := p.retry(ctx, func(ctx context.Context) error {
		var err error
		committed, err = p.store.Update(ctx, c.row.ID, session.Commit(c.row.Creator.Token, o))
		return err
	})
	switch {
	case err == nil:
		return committed, nil
	case errors.Is(err, session.ErrNotFound), errors.Is(err, session.ErrStale):
		return session.Session{}, fmt.Errorf("%w: %w", ErrDeleted, err)
	default:
		// If all answers were lost and the caller still waits, one of the
		// commits may have been applied.
		if errors.Is(context.Cause(ctx), errBound) {
			if row, ok := p.committed(ctx, c); ok {
				return row, nil
			}
		}
		return session.Session{}, fmt.Errorf("committing session %s: %w", c.row.ID, err)
	}
}

// committed reads the row past the bounds of the create.
func (p *Provisioner) committed(ctx context.Context, c *creation) (session.Session, bool) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), p.options.AnswerBound)
	defer cancel()
	row, err := p.store.Get(ctx, c.row.ID)
	return row, err == nil && row.Live() && row.Creator == c.row.Creator
}

// outcome tells apart the client that went away, our own bound and a failure.
func (p *Provisioner) outcome(ctx context.Context, c *creation, err error) error {
	switch {
	case ctx.Err() == nil:
		return err
	case errors.Is(context.Cause(ctx), errBound):
		return fmt.Errorf("%w: %w", &TimeoutError{Waiting: c.waiting}, err)
	default:
		return fmt.Errorf("%w: %w", ErrClientGone, err)
	}
}
