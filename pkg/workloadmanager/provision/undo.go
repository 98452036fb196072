package provision

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/agentcube/agentcube/pkg/sandbox"
	"github.com/agentcube/agentcube/pkg/session"
)

// ErrUnsettled: whether the object exists is not known yet; the row stays as
// deleting.
var ErrUnsettled = errors.New("outcome of the create call not known yet")

// undo takes back a create at whatever point it failed. Deleting what is not
// there is success, so it may run twice.
func (p *Provisioner) undo(ctx context.Context, c *creation) error {
	// The mark comes first: if all else fails, the collector finds the row
	// and no router dials it.
	markErr := p.mark(ctx, c)
	if c.sent {
		// Also when the mark failed: the row is there as creating, with our
		// token, and the collector knows what to do with that.
		err := p.retry(ctx, func(ctx context.Context) error { return p.deleteObject(ctx, c.row, c.unknownUntil) })
		if err != nil {
			return errors.Join(markErr, err)
		}
	}
	if markErr != nil {
		return markErr
	}
	return p.retry(ctx, func(ctx context.Context) error {
		return p.removeRow(ctx, c.row.ID, session.HeldBy(c.row.Creator.Token))
	})
}

// mark has half of the undo's time: a store that does not answer must not keep
// the object alive. A row that is gone was removed by a deletion.
func (p *Provisioner) mark(ctx context.Context, c *creation) error {
	ctx, cancel := context.WithTimeout(ctx, p.options.UndoBound/2)
	defer cancel()
	err := p.retry(ctx, func(ctx context.Context) error {
		_, err := p.store.Update(ctx, c.row.ID, session.Delete(session.ReasonFailed, c.unknownUntil))
		return ignore(err, session.ErrNotFound)
	})
	if err != nil {
		return fmt.Errorf("marking session %s as deleting: %w", c.row.ID, err)
	}
	return nil
}

// deleteObject deletes the object a row names, and nothing else: by UID where
// it is known; else only an object that bears the session's label, by the UID
// just read. nil means that it is gone, or on its way with a
// deletionTimestamp, and will not come back.
func (p *Provisioner) deleteObject(ctx context.Context, row session.Session, unknownUntil time.Time) error {
	ref := row.Object
	if ref.UID == "" {
		object, err := p.cluster.Get(ctx, ref)
		switch {
		case errors.Is(err, sandbox.ErrNotFound):
			if p.clock.Now().Before(unknownUntil) {
				return ErrUnsettled
			}
			return nil
		case err != nil:
			return fmt.Errorf("reading %s: %w", ref, err)
		case object.SessionID != row.ID:
			return nil
		}
		ref.UID = object.Ref.UID
	}
	// A conflict on the UID says that another object bears the name: ours is
	// gone.
	if err := ignore(p.cluster.Delete(ctx, ref), sandbox.ErrNotFound, sandbox.ErrConflict); err != nil {
		return fmt.Errorf("deleting %s: %w", ref, err)
	}
	return nil
}

func (p *Provisioner) removeRow(ctx context.Context, id string, guard func(session.Session) error) error {
	err := ignore(p.store.Remove(ctx, id, guard), session.ErrNotFound, session.ErrStale)
	if err != nil {
		return fmt.Errorf("removing session %s: %w", id, err)
	}
	return nil
}

// retry repeats what a dependency out of reach made fail, until ctx ends, and
// returns the last error then.
func (p *Provisioner) retry(ctx context.Context, work func(context.Context) error) error {
	backoff := wait.Backoff{Duration: 50 * time.Millisecond, Factor: 2, Jitter: 0.2, Steps: 100, Cap: 2 * time.Second}
	for {
		err := work(ctx)
		if err == nil || !passing(err) || ctx.Err() != nil {
			return err
		}
		timer := p.clock.NewTimer(backoff.Step())
		select {
		case <-ctx.Done():
			timer.Stop()
			return err
		case <-timer.C():
		}
	}
}

// passing reports whether an error may heal by itself.
func passing(err error) bool {
	return errors.Is(err, session.ErrUnavailable) || errors.Is(err, sandbox.ErrUnavailable)
}

// ignore returns nil for an error that is one of those.
func ignore(err error, those ...error) error {
	for _, t := range those {
		if errors.Is(err, t) {
			return nil
		}
	}
	return err
}
