package session

import "time"

// Why a session ended. The values are part of the API.
const (
	ReasonIdle             = "idle"
	ReasonExpired          = "expired"
	ReasonDeleted          = "deleted"
	ReasonDeletedInCluster = "deleted_in_cluster"
	ReasonFailed           = "failed"
)

// IdleGrace is added to every idle timeout: routers buffer activity for a
// second, and clocks differ a little.
const IdleGrace = 5 * time.Second

// Lifetimes are what a template and a request together allow a session.
type Lifetimes struct {
	// Idle is the idle timeout. Zero: never idle.
	Idle time.Duration
	// Max is the template's bound on the whole life. Zero: unlimited.
	Max time.Duration
	// TTL is the life the request asked for. Zero: the template's.
	TTL time.Duration
}

// ExpiresAt is the hard end of a session created at the given time. Zero:
// unlimited.
func (l Lifetimes) ExpiresAt(created time.Time) time.Time {
	life := l.Max
	if l.TTL > 0 && (life == 0 || l.TTL < life) {
		life = l.TTL
	}
	if life == 0 {
		return time.Time{}
	}
	return created.Add(life)
}

// Expired reports whether the hard end of life has passed.
func (s Session) Expired(now time.Time) bool {
	return !s.ExpiresAt.IsZero() && !now.Before(s.ExpiresAt)
}

// IdleDeadline is when the session ends if nothing more happens after the
// last activity. Zero: never.
func (s Session) IdleDeadline(lastActivity time.Time) time.Time {
	if s.IdleTimeout <= 0 {
		return time.Time{}
	}
	if lastActivity.IsZero() {
		lastActivity = s.CreatedAt
	}
	if lastActivity.IsZero() {
		return time.Time{}
	}
	return lastActivity.Add(s.IdleTimeout + IdleGrace)
}

// Deadline is the first moment at which the session is to be ended, and why.
// Zero: never.
func (s Session) Deadline(lastActivity time.Time) (time.Time, string) {
	idle := s.IdleDeadline(lastActivity)
	switch {
	case idle.IsZero() && s.ExpiresAt.IsZero():
		return time.Time{}, ""
	case idle.IsZero(), !s.ExpiresAt.IsZero() && !s.ExpiresAt.After(idle):
		return s.ExpiresAt, ReasonExpired
	default:
		return idle, ReasonIdle
	}
}
