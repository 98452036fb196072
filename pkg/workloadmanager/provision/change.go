package provision

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"go.uber.org/zap"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/agentcube/agentcube/pkg/sandbox"
	"github.com/agentcube/agentcube/pkg/session"
)

// Change changes the lifetimes of a live session, and returns it as it is then.
// A longer life is told to the object first, and only then true: else the
// object might end before. Everything else is true at once, and the object
// follows; what it cannot be told now, the collector tells it later.
//
// It goes on when ctx ends. Errors: session.ErrNotFound, session.ErrStale (the
// session is no longer, or not yet, live), session.ErrUnavailable,
// ErrClientGone, and those of pkg/sandbox. After any of them the object may say
// something else than the row until the collector has looked at it.
func (p *Provisioner) Change(ctx context.Context, id string, c session.Change) (session.Session, error) {
	changed := make(chan session.Session, 1)
	finished, err := p.detached(ctx, id, p.options.UndoBound+p.options.AnswerBound, func(ctx context.Context) error {
		row, err := p.change(ctx, id, c)
		changed <- row
		if errors.Is(err, context.DeadlineExceeded) && !passing(err) {
			err = fmt.Errorf("%w: %w", sandbox.ErrUnavailable, err)
		}
		return err
	})
	switch {
	case finished && err == nil:
		return <-changed, nil
	case finished:
		return session.Session{}, err
	case err != nil:
		return session.Session{}, fmt.Errorf("%w: %w", ErrClientGone, err)
	default:
		return session.Session{}, fmt.Errorf("changing session %s: not done in %s: %w", id, p.options.UndoBound, sandbox.ErrUnavailable)
	}
}

// Mend makes an object say of the lifetimes what its row does, after a change
// that was cut off. It tries once, and raises the row's attempts if it fails.
func (p *Provisioner) Mend(ctx context.Context, row session.Session) error {
	ctx, cancel := context.WithTimeout(ctx, p.options.UndoBound)
	defer cancel()
	_, err := p.attempt(ctx, row.ID, session.Change{}, once)
	if err == nil || passedOn(err) {
		return nil
	}
	_, countErr := p.store.Update(ctx, row.ID, func(s *session.Session) error {
		if s.Pending == (session.Pending{}) || !s.Live() {
			return session.ErrUnchanged
		}
		s.Attempts++
		return nil
	})
	return errors.Join(err, ignore(countErr, session.ErrNotFound))
}

// passedOn reports whether the change of a session is in other hands, or the
// session is over.
func passedOn(err error) bool {
	return errors.Is(err, errOvertaken) || errors.Is(err, session.ErrNotFound) || errors.Is(err, session.ErrStale)
}

// errOvertaken: another change of the session was announced since.
var errOvertaken = errors.New("another change came in between")

// change attempts it until no other one comes in between. Of several at once
// the last to announce itself goes through, so one of them always does.
func (p *Provisioner) change(ctx context.Context, id string, c session.Change) (session.Session, error) {
	backoff := wait.Backoff{Duration: 5 * time.Millisecond, Factor: 2, Jitter: 1, Steps: 100, Cap: time.Second}
	for {
		row, err := p.attempt(ctx, id, c, p.retry)
		switch {
		case err == nil, row.ID == "":
			return row, err
		case !row.ExpiresAt.Equal(row.Goal(c)):
			// A longer life is not true yet.
			if !errors.Is(err, errOvertaken) || ctx.Err() != nil {
				return session.Session{}, err
			}
		case passedOn(err):
			return row, nil // who overtook it tells the object
		default:
			p.log.Warn("lifetimes of a session are changed, and its object could not be told yet",
				zap.String("session", id), zap.Stringer("object", row.Object), zap.Error(err))
			return row, nil
		}
		timer := p.clock.NewTimer(backoff.Step())
		select {
		case <-ctx.Done():
			timer.Stop()
			return session.Session{}, err
		case <-timer.C():
		}
	}
}

// attempt announces a change, tells the object, and settles it. It returns the
// row as far as it came, the empty one if the change was not announced.
// errOvertaken if another change was announced since.
func (p *Provisioner) attempt(ctx context.Context, id string, c session.Change, try try) (session.Session, error) {
	token := uuid.NewString()
	row, err := p.store.Update(ctx, id, session.Announce(token, c))
	if err != nil {
		return session.Session{}, fmt.Errorf("changing the lifetimes of session %s: %w", id, err)
	}
	said := sandbox.Lifetimes{}
	if row.Pending.Life {
		said.ShutdownTime = row.Goal(c)
	}
	if row.Pending.Idle {
		said.Idle = row.IdleTimeout
	}
	bound := p.options.UndoBound
	if row.ExpiresAt.Equal(row.Goal(c)) {
		bound = p.options.AnswerBound // what the caller wants is true already
	}
	ctx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	if err := try(ctx, func(ctx context.Context) error { return p.tell(ctx, row, said) }); err != nil {
		return row, err
	}
	err = try(ctx, func(ctx context.Context) error {
		settled, err := p.store.Update(ctx, id, session.Settle(token, said.ShutdownTime))
		if err == nil {
			row = settled
		} else if errors.Is(err, session.ErrStale) && settled.Live() {
			err = errOvertaken
		}
		return err
	})
	if err != nil {
		return row, fmt.Errorf("settling the lifetimes of session %s: %w", id, err)
	}
	return row, nil
}

// tell makes the object say what was announced in the row. It is written only
// as it was when the announcement still stood, so that a later one is not
// undone. An object that is gone need not be told: its session is about to end.
func (p *Provisioner) tell(ctx context.Context, row session.Session, said sandbox.Lifetimes) error {
	for {
		object, err := p.cluster.Get(ctx, row.Object)
		if errors.Is(err, sandbox.ErrNotFound) || err == nil && !carries(object, row) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading %s: %w", row.Object, err)
		}
		now, err := p.store.Get(ctx, row.ID)
		if err != nil {
			return fmt.Errorf("reading session %s: %w", row.ID, err)
		}
		if now.Pending.Token != row.Pending.Token {
			return errOvertaken
		}
		err = p.cluster.SetLifetimes(ctx, row.Object, object.ResourceVersion, said)
		if errors.Is(err, sandbox.ErrConflict) && ctx.Err() == nil {
			continue // its controllers write it too
		}
		return ignore(err, sandbox.ErrNotFound)
	}
}

// carries reports whether it is the session's object, and stays. The label may
// have been taken off it.
func carries(object sandbox.Object, row session.Session) bool {
	known := row.Object.UID != "" || object.SessionID == row.ID
	return known && object.Ref.Same(row.Object) && !object.Deleting
}
