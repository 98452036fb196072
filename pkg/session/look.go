package session

import "time"

// Bounds of the time between two attempts at a deletion.
const (
	retryFirst = 15 * time.Second
	retryMost  = 2 * time.Minute
)

// Due is an entry of the index of rows that are to be looked at.
type Due struct {
	ID string
	// At is when the look was due, rounded up to a second.
	At time.Time
}

// Placeholder is an entry of the index of rows that are being created.
type Placeholder struct {
	ID string
	// CreatedAt is rounded up to a second, so that a placeholder never looks
	// older than it is.
	CreatedAt time.Time
}

// RetryAfter is how long to wait until the next attempt at an object, after
// so many that failed: 15 s, doubled by each, at most 2 min.
func RetryAfter(attempts int) time.Duration {
	wait := retryFirst
	for range attempts {
		wait *= 2
		if wait >= retryMost {
			return retryMost
		}
	}
	return wait
}

// NextLook is when the collector must look at the row next: at the end of
// the create bound, at the next attempt at a deletion or at a change of the
// object, at the moment from which an absent object proves something, or at the
// first deadline, judged by the last activity known (zero: none known). Activity
// only ever moves a deadline back, so the look may come too early, never too
// late. Zero: never.
func (s Session) NextLook(lastActivity, now time.Time, createBound time.Duration) time.Time {
	switch s.State {
	case StateCreating:
		return s.CreatedAt.Add(createBound)
	case StateDeleting:
		retry := now.Add(RetryAfter(s.Attempts))
		if s.UnknownUntil.After(now) && s.UnknownUntil.Before(retry) {
			return s.UnknownUntil
		}
		return retry
	default:
		at, _ := s.Deadline(lastActivity)
		if s.Pending == (Pending{}) {
			return at
		}
		if retry := now.Add(RetryAfter(s.Attempts)); at.IsZero() || retry.Before(at) {
			return retry
		}
		return at
	}
}
