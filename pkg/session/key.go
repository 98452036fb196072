package session

import (
	"errors"
	"fmt"
	"time"
)

// KeyLife is how long a key outlives the session that it made.
const KeyLife = time.Hour

// ErrKeyTaken: the key of the session that was to be reserved names another
// session. Nothing was written; it is an ErrExists.
var ErrKeyTaken = fmt.Errorf("idempotency key names another session: %w", ErrExists)

// RetryKey is what a caller names a create by, so that it can be sent again: an
// idempotency key. It names one session from the reservation on, and is free
// again when that fails. Zero: none.
type RetryKey struct {
	// Name is the key with whom and what it belongs to, hashed.
	Name string
	// Body is what was asked for, hashed.
	Body string
}

// KeyHolder is the session that a key names.
type KeyHolder struct {
	ID string
	// Body is what that session was asked for with, hashed.
	Body string
}

// KeyFreed reports whether the key of the session is free: its create has
// failed. What is left of it has an id and names of its own, and is not in the
// way of another attempt.
func (s Session) KeyFreed() bool { return s.State == StateDeleting && !s.Committed() }

// Ended reports whether the session was there to be used once, and is not any
// more.
func (s Session) Ended(now time.Time) bool {
	return s.Committed() && (s.State == StateDeleting || s.Expired(now))
}

// Abandon undoes the placeholder of a creator that is dead. That creator may
// have sent the create call in its last moment, so until unknownUntil an absent
// object proves nothing. ErrStale if the row is not that creator's placeholder
// any more.
func Abandon(by Creator, unknownUntil time.Time) func(*Session) error {
	return func(s *Session) error {
		if s.State != StateCreating || s.Creator != by {
			return fmt.Errorf("the creator is not dead: %w", ErrStale)
		}
		return Delete(ReasonFailed, unknownUntil)(s)
	}
}

func (k RetryKey) validate() error {
	if (k.Name == "") != (k.Body == "") {
		return errors.New("a key needs a name and a body")
	}
	return nil
}
