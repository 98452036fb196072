package gc

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/agentcube/agentcube/pkg/session"
)

// unreadableRetry is when a row that cannot be read is tried again, and
// farLook when one that nothing ends is.
const (
	unreadableRetry = 5 * time.Minute
	farLook         = 24 * time.Hour
)

// handle ends one session that came up, or puts it back. The row moves to its
// next attempt before any work, so that one that fails cannot hold a pass.
func (c *Collector) handle(ctx context.Context, id string, now time.Time) (ended bool, err error) {
	claimed, err := c.index.Claim(ctx, id, now.Add(session.RetryAfter(0)))
	if err != nil {
		return false, fmt.Errorf("%w: %w", errStuck, err)
	}
	if !claimed {
		return false, nil // another collector is at it, or something happened to it
	}
	row, err := c.sessions.Get(ctx, id)
	if errors.Is(err, session.ErrNotFound) {
		// An index entry without a row: Remove takes such entries away.
		err := c.sessions.Remove(ctx, id, func(session.Session) error { return session.ErrStale })
		return false, ignoreGone(err)
	}
	if err != nil {
		// A row that cannot be read must not come up again at once.
		return false, errors.Join(err, c.index.Postpone(ctx, id, now.Add(unreadableRetry)))
	}
	switch row.State {
	case session.StateCreating:
		return c.endCreating(ctx, row, now)
	case session.StateDeleting:
		return c.finish(ctx, row, now)
	default:
		return c.endLive(ctx, row, now)
	}
}

// endLive ends a session whose deadline has passed, or records the deadline
// that its latest activity gives it.
func (c *Collector) endLive(ctx context.Context, row session.Session, now time.Time) (bool, error) {
	last, err := c.sessions.LastActivity(ctx, row.ID)
	if err != nil {
		return false, fmt.Errorf("reading the last activity of session %s: %w", row.ID, err)
	}
	deadline, reason := row.Deadline(last)
	if row.Pending != (session.Pending{}) && (deadline.IsZero() || now.Before(deadline)) {
		return false, c.finisher.Mend(ctx, row)
	}
	if deadline.IsZero() {
		// Nothing ends it; but the collector looks again, in case a lifetime
		// is set by an installation that does not keep this index.
		return false, c.index.Postpone(ctx, row.ID, now.Add(farLook))
	}
	if now.Before(deadline) {
		return false, c.index.Postpone(ctx, row.ID, deadline)
	}
	idleSince := time.Time{}
	if reason == session.ReasonIdle {
		if c.outage() {
			return false, nil
		}
		idleSince = last
		if idleSince.IsZero() {
			idleSince = row.CreatedAt
		}
	}
	marked, err := c.sessions.End(ctx, row.ID, idleSince, stillDue(row, reason, now))
	if err != nil {
		return false, ignoreGone(err)
	}
	c.log.Info("ending session", zap.String("session", row.ID), zap.String("reason", reason),
		zap.Time("deadline", deadline), zap.Stringer("object", row.Object))
	c.tellEnded(row, reason)
	return c.finish(ctx, marked, now)
}

// stillDue marks the session as deleting if its lifetimes are still those that
// the decision rests on, and nobody else has ended it meanwhile.
func stillDue(seen session.Session, reason string, now time.Time) func(*session.Session) error {
	return func(s *session.Session) error {
		if !s.Live() {
			return session.ErrStale
		}
		if reason == session.ReasonExpired && !s.Expired(now) {
			return session.ErrStale
		}
		if reason == session.ReasonIdle && s.IdleTimeout != seen.IdleTimeout {
			return session.ErrStale
		}
		return session.Delete(reason, time.Time{})(s)
	}
}

// endCreating undoes a placeholder that nobody works on any more.
func (c *Collector) endCreating(ctx context.Context, row session.Session, now time.Time) (bool, error) {
	abandoned, err := c.abandoned(ctx, row, now)
	if err != nil || !abandoned {
		return false, err
	}
	marked, err := c.sessions.End(ctx, row.ID, time.Time{}, session.Abandon(row.Creator, now.Add(c.options.UnknownBound)))
	if err != nil {
		return false, ignoreGone(err)
	}
	c.log.Info("undoing a session whose creator is gone", zap.String("session", row.ID),
		zap.Stringer("object", row.Object), zap.String("creator", row.Creator.Process))
	c.tellEnded(row, causeCreatorGone)
	return c.finish(ctx, marked, now)
}

// abandoned reports whether no creator works on the row any more: its
// heartbeat is gone, or the time that any create has is over.
func (c *Collector) abandoned(ctx context.Context, row session.Session, now time.Time) (bool, error) {
	if !now.Before(row.CreatedAt.Add(c.options.CreateBound)) {
		return true, nil
	}
	// After an outage of the store no heartbeat proves nothing: the living may
	// not have written theirs yet.
	if row.Creator.Process == "" || c.outage() {
		return false, nil
	}
	alive, err := c.creators.Alive(ctx, row.Creator.Process)
	if err != nil {
		return false, fmt.Errorf("looking for the creator of session %s: %w", row.ID, err)
	}
	return !alive[row.Creator.Process], nil
}

// finish deletes what a row in state deleting names, and the row.
func (c *Collector) finish(ctx context.Context, row session.Session, now time.Time) (bool, error) {
	// A creator that does not know what came of its create call says so in its
	// undo: it is done with the row, which goes with the object, or once the
	// API server cannot make one any more.
	abandoned := row.Committed() || !row.UnknownUntil.IsZero()
	if !abandoned {
		var err error
		if abandoned, err = c.abandoned(ctx, row, now); err != nil {
			return false, err
		}
	}
	if err := c.finisher.Finish(ctx, row, abandoned); err != nil {
		if now.Before(row.UnknownUntil) {
			// Nothing has failed yet: an object that may still appear is
			// looked for at the first interval, not at a longer one each time.
			return false, err
		}
		return false, errors.Join(err, c.countAttempt(ctx, row))
	}
	return abandoned, nil
}

// countAttempt makes the back-off of the next attempt longer.
func (c *Collector) countAttempt(ctx context.Context, row session.Session) error {
	_, err := c.sessions.End(ctx, row.ID, time.Time{}, func(s *session.Session) error {
		if s.State != session.StateDeleting {
			return session.ErrStale
		}
		s.Attempts++
		return nil
	})
	return ignoreGone(err)
}

// findAbandoned brings up the placeholders whose creator is dead, which are
// not due by themselves before the create bound has passed.
func (c *Collector) findAbandoned(ctx context.Context, now time.Time) error {
	var after session.Placeholder
	for {
		page, err := c.creators.Creating(ctx, after, c.options.Page)
		if err != nil {
			return fmt.Errorf("reading placeholders: %w", err)
		}
		for _, placeholder := range page {
			err := c.bringUp(ctx, placeholder.ID, now)
			switch {
			case errors.Is(err, session.ErrUnavailable), ctx.Err() != nil:
				return fmt.Errorf("looking at placeholder %s: %w", placeholder.ID, err)
			case err != nil:
				// One that cannot be read must not hold up the others.
				c.log.Warn("placeholder cannot be looked at", zap.String("session", placeholder.ID), zap.Error(err))
			}
			after = placeholder
		}
		if len(page) < c.options.Page {
			return nil
		}
	}
}

func (c *Collector) bringUp(ctx context.Context, id string, now time.Time) error {
	row, err := c.sessions.Get(ctx, id)
	if err != nil || row.State != session.StateCreating {
		return ignoreGone(err)
	}
	abandoned, err := c.abandoned(ctx, row, now)
	if err != nil || !abandoned {
		return err
	}
	// The index rounds up to whole seconds: now itself would come after this
	// pass, and be moved on again by the next.
	return c.index.Postpone(ctx, id, now.Truncate(time.Second))
}

func ignoreGone(err error) error {
	if errors.Is(err, session.ErrNotFound) || errors.Is(err, session.ErrStale) {
		return nil
	}
	return err
}
