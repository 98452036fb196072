package session

import "time"

// Route is what a router needs of a row: enough to decide whether a request
// may reach the sandbox, and where that is. It is not changed once it is made,
// so that many requests can share one.
type Route struct {
	ID          string
	Workload    WorkloadRef
	EntryPoints []EntryPoint
	OwnerID     string
	// ExpiresAt is the hard end of life. Zero: unlimited.
	ExpiresAt  time.Time
	State      State
	AuthMode   string
	KeyID      string
	Generation int64
	// Revision goes up with each write of ours. Zero: the row does not say.
	Revision int64
	// Ending is that of a session that is being deleted. Nil: it is not.
	Ending *Ending
}

// RouteOf is the session as a router knows it.
func RouteOf(s Session) *Route {
	r := &Route{
		ID: s.ID, Workload: s.Workload, EntryPoints: s.EntryPoints, OwnerID: s.OwnerID, ExpiresAt: s.ExpiresAt,
		State: s.State, AuthMode: s.AuthMode, KeyID: s.KeyID, Generation: s.Generation, Revision: s.Revision,
	}
	if s.State == StateDeleting {
		ending := EndingOf(s)
		r.Ending = &ending
	}
	return r
}

// EndingAt is what is known of the session's end at that moment; ok is false
// if it has not ended.
func (r *Route) EndingAt(now time.Time) (e Ending, ok bool) {
	switch {
	case r.Ending != nil:
		return *r.Ending, true
	case r.Expired(now):
		return Ending{Reason: ReasonExpired, OwnerHash: ownerHash(r.OwnerID)}, true
	default:
		return Ending{}, false
	}
}

// Expired reports whether the hard end of life has come.
func (r *Route) Expired(now time.Time) bool {
	return !r.ExpiresAt.IsZero() && !now.Before(r.ExpiresAt)
}
