package router

import (
	"context"
	"errors"
	"time"
)

// endingTimeout bounds the look for why a session ended: the answer without it
// is as true.
const endingTimeout = time.Second

// whyEnded is the reason to give with an answer that there is no such session.
// Empty: another error, or the reason is not known, or not the caller's affair.
// The store is asked only about a session that has no row.
func (rt *Router) whyEnded(ctx context.Context, x *exchange, err error) string {
	if x == nil || x.id == "" || !errors.Is(err, errSessionNotFound) {
		return ""
	}
	if x.session != nil {
		if ending, ok := x.session.EndingAt(rt.clock.Now()); ok {
			if !ending.VisibleTo(x.user.Subject) {
				return ""
			}
			return ending.Reason
		}
	}
	ctx, cancel := context.WithTimeout(ctx, endingTimeout)
	defer cancel()
	ending, endedErr := rt.Endings.Ended(ctx, x.id)
	if endedErr != nil || !ending.VisibleTo(x.user.Subject) {
		return ""
	}
	return ending.Reason
}
