package session

import (
	"fmt"
	"time"
)

// Change is what is wanted of the lifetimes of a session. What is zero stays.
type Change struct {
	// At is when it was asked for, by the store's clock. A session that has
	// expired by then is not brought back.
	At time.Time
	// ExpiresAt is the hard end of life that is asked for.
	ExpiresAt time.Time
	// Idle is the idle timeout.
	Idle time.Duration
}

// Pending tells that the object may not say of a session's lifetimes what the
// row says. Zero: nobody has changed them, or the object has followed.
//
// A change takes several steps on two sides, any of which may be the last of
// its process. So it begins and ends in the row: Announce puts its token
// there, Settle takes it away. Whoever writes the object reads it, then makes
// sure that the token still is its own, and writes only if the object has not
// changed since it was read: of two changes at once the one that announced
// itself last writes last. The collector does the rest of one that was left.
type Pending struct {
	// Token is that of the last change.
	Token string
	// Life and Idle tell which lifetimes the object may not say.
	Life, Idle bool
}

// Ceiling is the latest hard end that the session can be given. Zero: there is
// none.
func (s Session) Ceiling() time.Time {
	switch bound := s.bound(); {
	case bound > 0 && !s.CreatedAt.IsZero():
		return s.CreatedAt.Add(bound)
	case s.Creator.Token == "" && !s.ExpiresAt.IsZero():
		return s.ExpiresAt
	default:
		return time.Time{}
	}
}

// bound is the template's bound on the life. A row without a creator comes
// from an installation that records none, but gives every session the whole of
// it.
func (s Session) bound() time.Duration {
	if s.MaxDuration == 0 && s.Creator.Token == "" && !s.CreatedAt.IsZero() && s.ExpiresAt.After(s.CreatedAt) {
		return s.ExpiresAt.Sub(s.CreatedAt)
	}
	return s.MaxDuration
}

// allowed is the wish, as far as it is granted.
func (s Session) allowed(wish time.Time) time.Time {
	if ceiling := s.Ceiling(); !ceiling.IsZero() && wish.After(ceiling) {
		return ceiling
	}
	return wish
}

// Announce begins a change of the lifetimes of a live session, which its object
// is to follow. What may be true before the object follows is so from here on:
// a shorter life, another idle timeout. A longer life waits for the object, or
// else that might end first. A Change of nothing takes an earlier one over.
func Announce(token string, c Change) func(*Session) error {
	return func(s *Session) error {
		if !s.Live() {
			return fmt.Errorf("changing lifetimes: session is %s: %w", s.State, ErrStale)
		}
		if s.Expired(c.At) {
			return fmt.Errorf("changing lifetimes: session has expired: %w", ErrStale)
		}
		if s.Pending.Token == token {
			return ErrUnchanged
		}
		s.Pending.Token = token
		if c.Idle > 0 {
			s.IdleTimeout, s.Pending.Idle = c.Idle, true
		}
		if !c.ExpiresAt.IsZero() {
			s.MaxDuration = s.bound()
			if at := s.allowed(c.ExpiresAt); s.ExpiresAt.IsZero() || at.Before(s.ExpiresAt) {
				s.ExpiresAt = at
			}
			s.Pending.Life = true
		}
		return nil
	}
}

// Settle ends a change: the object says that the life ends at the given time
// (zero: it was not asked to), and the idle timeout that the row has. ErrStale
// if another change was announced since.
func Settle(token string, life time.Time) func(*Session) error {
	return func(s *Session) error {
		if !s.Live() {
			return fmt.Errorf("changing lifetimes: session is %s: %w", s.State, ErrStale)
		}
		if s.Pending == (Pending{}) && (life.IsZero() || s.ExpiresAt.Equal(life)) {
			return ErrUnchanged
		}
		if s.Pending.Token != token {
			return fmt.Errorf("changing lifetimes: another change came in between: %w", ErrStale)
		}
		if !life.IsZero() {
			s.ExpiresAt = life
		}
		s.Pending, s.Attempts = Pending{}, 0
		return nil
	}
}

// Goal is the hard end of life that the object is to say once a change has been
// announced in this row.
func (s Session) Goal(c Change) time.Time {
	if c.ExpiresAt.IsZero() {
		return s.ExpiresAt
	}
	return s.allowed(c.ExpiresAt)
}
