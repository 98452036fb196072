package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/agentcube/agentcube/pkg/session"
)

// Create writes a new row and its index entries, and returns it as written.
// ErrExists if another row bears the id. A row that equals this one is the
// success of an earlier call whose answer was lost, so the same call may be
// repeated. ErrInvalid if no row can hold it.
func (r *Redis) Create(ctx context.Context, s session.Session) (session.Session, error) {
	what := "creating session " + s.ID
	s.Revision = 1
	s, err := s.Canonical()
	if err != nil {
		return session.Session{}, fmt.Errorf("%s: %w", what, err)
	}
	row, err := encode(s)
	if err != nil {
		return session.Session{}, fmt.Errorf("%s: %w", what, err)
	}
	e := r.entries(s, s.CreatedAt.Truncate(time.Second), s.CreatedAt)
	err = r.do(ctx, what, func(ctx context.Context) error {
		code, err := createScript.Run(ctx, r.client, append(r.keys.session(s.ID), r.keys.lists(s.Lists())...),
			s.ID, row, e.expiry, floor(s.CreatedAt), e.due, e.creating, member(s.Position())).Int()
		if err == nil && code != done {
			return ErrExists
		}
		return err
	})
	if err != nil {
		return session.Session{}, err
	}
	return s, nil
}

// Get returns the row. ErrNotFound if there is none, ErrCorrupt if it cannot
// be read.
func (r *Redis) Get(ctx context.Context, id string) (session.Session, error) {
	var s session.Session
	err := r.do(ctx, "reading session "+id, func(ctx context.Context) error {
		if !session.ValidID(id) {
			return ErrNotFound
		}
		row, err := r.client.Get(ctx, r.keys.row(id)).Bytes()
		if errors.Is(err, redis.Nil) {
			return ErrNotFound
		}
		if err != nil {
			return err
		}
		s, err = decode(id, row)
		return err
	})
	return s, err
}

// Update reads the row, changes it and writes it back, again if another was
// faster, and returns it as written. An error of change is returned as it is,
// with the row that was read; ErrUnchanged means success without a write.
// ErrNotFound if there is no row: nothing is ever resurrected. change may run
// several times; a change whose answer was lost is tried on its own result.
//
// A row that leaves creating for a live state counts as active now.
func (r *Redis) Update(ctx context.Context, id string, change func(*session.Session) error) (session.Session, error) {
	return r.update(ctx, "updating session "+id, id, noEntry, change)
}

// End is an Update that is refused, with ErrStale, if the session was active
// after idleSince, the last activity that the decision rests on. Zero: the
// decision does not rest on activity. Activities are compared as seconds.
func (r *Redis) End(ctx context.Context, id string, idleSince time.Time, change func(*session.Session) error) (session.Session, error) {
	since := noEntry
	if !idleSince.IsZero() {
		since = floor(idleSince)
	}
	return r.update(ctx, "ending session "+id, id, since, change)
}

// Remove removes the row and every index entry, if guard returns nil for it; an
// error of guard is returned as it is. Why the session ended is kept in its
// place (Ended). ErrNotFound if there is no row, which is also what a second
// call finds; entries that were left behind go then too.
func (r *Redis) Remove(ctx context.Context, id string, guard func(session.Session) error) error {
	var refusal error
	err := r.do(ctx, "removing session "+id, func(ctx context.Context) error {
		if !session.ValidID(id) {
			return ErrNotFound
		}
		return r.contend(func() (int, error) {
			refusal = nil
			have, err := r.read(ctx, id)
			if err != nil && !errors.Is(err, ErrNotFound) {
				return 0, err
			}
			var lists []string // what an absent row left behind in lists is for Index
			ended := ""
			if err == nil {
				lists = r.keys.lists(have.session.Lists())
				if refusal = guard(have.session); refusal != nil {
					return done, nil //nolint:nilerr // returned below: no failure of the store, which do would make of it
				}
				if ended, err = encodeEnding(session.EndingOf(have.session)); err != nil {
					return 0, err
				}
			}
			names := append(r.keys.session(id), r.keys.ended(id))
			return removeScript.Run(ctx, r.client, append(names, lists...),
				id, have.row, ended, int64(session.EndingKept/time.Second), member(have.session.Position())).Int()
		})
	})
	if refusal != nil {
		return refusal
	}
	return err
}

func (r *Redis) update(ctx context.Context, what, id, since string, change func(*session.Session) error) (session.Session, error) {
	var (
		out     session.Session
		refusal error
	)
	err := r.do(ctx, what, func(ctx context.Context) error {
		if !session.ValidID(id) {
			return ErrNotFound
		}
		return r.contend(func() (int, error) {
			have, err := r.read(ctx, id)
			if err != nil {
				return 0, err
			}
			out = have.session
			next := have.session.Clone()
			if refusal = change(&next); refusal != nil {
				return done, nil //nolint:nilerr // returned below: no failure of the store, which do would make of it
			}
			var code int
			out, code, err = r.swap(ctx, have, next, since)
			return code, err
		})
	})
	switch {
	case errors.Is(refusal, session.ErrUnchanged):
		return out, nil
	case refusal != nil:
		return out, refusal
	case err != nil:
		return session.Session{}, err
	}
	return out, nil
}
