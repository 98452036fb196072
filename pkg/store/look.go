package store

import (
	"context"

	"github.com/agentcube/agentcube/pkg/session"
)

// Look returns the row, the last activity and the store's clock, all of one
// moment. Errors as of Get. An activity too far ahead counts as now.
func (r *Redis) Look(ctx context.Context, id string) (session.Snapshot, error) {
	var have snapshot
	err := r.do(ctx, "looking at session "+id, func(ctx context.Context) (err error) {
		if !session.ValidID(id) {
			return ErrNotFound
		}
		have, err = r.read(ctx, id)
		return err
	})
	if err != nil {
		return session.Snapshot{}, err
	}
	return have.seen(), nil
}

// seen is the snapshot without what only scripts compare.
func (s snapshot) seen() session.Snapshot {
	return session.Snapshot{Session: s.session, LastActivity: s.activity, Now: s.now}
}

// Keep makes the session count as active now, by the store's clock, if guard
// returns nil for it; an error of guard is returned as it is. The collector
// cannot have ended it as idle in between. ErrNotFound if there is no row.
func (r *Redis) Keep(ctx context.Context, id string, guard func(session.Snapshot) error) error {
	var refusal error
	err := r.do(ctx, "keeping session "+id, func(ctx context.Context) error {
		if !session.ValidID(id) {
			return ErrNotFound
		}
		return r.contend(func() (int, error) {
			have, err := r.read(ctx, id)
			if err != nil {
				return 0, err
			}
			if refusal = guard(have.seen()); refusal != nil {
				return done, nil //nolint:nilerr // returned below: no failure of the store, which do would make of it
			}
			return keepScript.Run(ctx, r.client, []string{r.keys.row(id), r.keys.activity}, id, have.row).Int()
		})
	})
	if refusal != nil {
		return refusal
	}
	return err
}
