package provision

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/agentcube/agentcube/pkg/sandbox"
	"github.com/agentcube/agentcube/pkg/session"
)

// Delete ends a session in whatever state it is. It goes on when ctx ends:
// the caller may be gone, the deletion is asked for.
//
// Errors: session.ErrNotFound, session.ErrUnavailable, ErrClientGone, and those
// of pkg/sandbox; after any but the first, another Delete works.
func (p *Provisioner) Delete(ctx context.Context, id, reason string) (err error) {
	defer func() { p.options.Metrics.deleted(err) }()
	// The work ends by the undo bound and then tells what it was that did not
	// answer; the wait for it must not end in the same moment.
	finished, err := p.detached(ctx, id, p.options.UndoBound+p.options.AnswerBound, func(ctx context.Context) error {
		row, err := p.store.Update(ctx, id, session.Delete(reason, time.Time{}))
		if err != nil {
			return fmt.Errorf("marking session %s as deleting: %w", id, err)
		}
		err = p.finish(ctx, row, p.retry)
		if errors.Is(err, context.DeadlineExceeded) && !passing(err) {
			// A call to the API server that the bound cut off. The store says by
			// itself that it did not answer.
			err = fmt.Errorf("%w: %w", sandbox.ErrUnavailable, err)
		}
		return err
	})
	switch {
	case finished:
		return err
	case err != nil:
		return fmt.Errorf("%w: %w", ErrClientGone, err)
	default:
		return fmt.Errorf("deleting session %s: not done in %s: %w", id, p.options.UndoBound, sandbox.ErrUnavailable)
	}
}

// Finish deletes the object of a row that is marked as deleting, and then the
// row. The row of a create that may still be running stays as a tombstone for
// its creator, or for the collector once abandoned is true. It tries once: the
// row stays due, and a dependency that is away must not hold up the caller.
func (p *Provisioner) Finish(ctx context.Context, row session.Session, abandoned bool) error {
	ctx, cancel := context.WithTimeout(ctx, p.options.UndoBound)
	defer cancel()
	if abandoned {
		return p.purge(ctx, row, once)
	}
	return p.finish(ctx, row, once)
}

// try runs work: once, or again while a dependency is out of reach.
type try func(ctx context.Context, work func(context.Context) error) error

func once(ctx context.Context, work func(context.Context) error) error { return work(ctx) }

func (p *Provisioner) finish(ctx context.Context, row session.Session, try try) error {
	if row.Committed() {
		return p.purge(ctx, row, try)
	}
	// The creator may be between its reservation and the create call: an
	// absent object proves nothing, and the creator finds the tombstone.
	return try(ctx, func(ctx context.Context) error { return p.deleteObject(ctx, row, time.Time{}) })
}

func (p *Provisioner) purge(ctx context.Context, row session.Session, try try) error {
	err := try(ctx, func(ctx context.Context) error { return p.deleteObject(ctx, row, row.UnknownUntil) })
	if err != nil {
		return err
	}
	return try(ctx, func(ctx context.Context) error {
		return p.removeRow(ctx, row.ID, session.Names(row.Object))
	})
}
