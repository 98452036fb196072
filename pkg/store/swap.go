package store

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/agentcube/agentcube/pkg/session"
)

// What scripts return.
const (
	done     = 1
	conflict = 0
	absent   = -1
	refused  = -2
)

// snapshot is what a decision rests on, read at one moment.
type snapshot struct {
	row     string
	session session.Session
	// activity is the last one, or, if that lies in the future, now. Zero:
	// unknown.
	activity time.Time
	now      time.Time
}

// read returns ErrNotFound if there is no row; the snapshot is empty then.
func (r *Redis) read(ctx context.Context, id string) (snapshot, error) {
	answer, err := readScript.Run(ctx, r.client, []string{r.keys.row(id), r.keys.activity}, id).Slice()
	if err != nil {
		return snapshot{}, err
	}
	row, ok := answer[0].(string)
	if !ok {
		return snapshot{}, ErrNotFound
	}
	have := snapshot{row: row}
	if have.session, err = decode(id, []byte(row)); err != nil {
		return snapshot{}, err
	}
	if have.now, err = clockOf(answer[2]); err != nil {
		return snapshot{}, err
	}
	if score, ok := answer[1].(string); ok {
		if have.activity, err = parseScore(score); err != nil {
			return snapshot{}, err
		}
	}
	have.activity = r.clamp(have.activity, have.now)
	return have, nil
}

// clamp takes an activity that lies too far ahead for now, in seconds as
// activity is kept.
func (r *Redis) clamp(activity, now time.Time) time.Time {
	now = now.Truncate(time.Second)
	if activity.After(now.Add(r.options.MaxSkew)) {
		return now
	}
	return activity
}

// clockOf reads the answer of TIME: seconds and microseconds.
func clockOf(answer any) (time.Time, error) {
	if parts, ok := answer.([]any); ok && len(parts) == 2 {
		seconds, err1 := strconv.ParseInt(fmt.Sprint(parts[0]), 10, 64)
		micros, err2 := strconv.ParseInt(fmt.Sprint(parts[1]), 10, 64)
		if err1 == nil && err2 == nil {
			return time.Unix(seconds, micros*int64(time.Microsecond)).UTC(), nil
		}
	}
	return time.Time{}, fmt.Errorf("the store's clock says %v: %w", answer, ErrCorrupt)
}

// swap writes next in the place of what was read.
func (r *Redis) swap(ctx context.Context, have snapshot, next session.Session, since string) (session.Session, int, error) {
	if next.ID != have.session.ID {
		return next, 0, fmt.Errorf("turning it into session %q: %w", next.ID, ErrInvalid)
	}
	next.Revision = have.session.Revision + 1
	next, err := next.Canonical()
	if err != nil {
		return next, 0, err
	}
	row, err := encode(next)
	if err != nil {
		return next, 0, err
	}
	active, activity := noEntry, have.activity
	if have.session.State == session.StateCreating && next.Live() {
		active, activity = floor(have.now), have.now.Truncate(time.Second)
	}
	e := r.entries(next, activity, have.now)
	left, joined := moves(have.session, next)
	names := append(r.keys.session(next.ID), r.keys.lists(append(left, joined...))...)
	code, err := updateScript.Run(ctx, r.client, names,
		next.ID, have.row, row, e.expiry, e.due, e.creating, active, since,
		member(have.session.Position()), member(next.Position()), len(left)).Int()
	return next, code, err
}

// contend runs a compare-and-set until it does not lose to another.
func (r *Redis) contend(attempt func() (int, error)) error {
	for range conflicts {
		code, err := attempt()
		switch {
		case err != nil:
			return err
		case code == done:
			return nil
		case code == absent:
			return ErrNotFound
		case code == refused:
			return fmt.Errorf("it was active meanwhile: %w", ErrStale)
		}
	}
	return fmt.Errorf("lost to another %d times: %w", conflicts, ErrUnavailable)
}

// entries are the scores of a row in the indexes that follow from it.
type entries struct {
	expiry, due, creating string
}

func (r *Redis) entries(s session.Session, activity, now time.Time) entries {
	e := entries{
		expiry: ceil(s.ExpiresAt),
		due:    ceil(s.NextLook(activity, now, r.options.CreateBound)),
	}
	if s.State == session.StateCreating {
		e.creating = ceil(s.CreatedAt)
		if e.creating == noEntry {
			e.creating = "0" // unknown: older than any other
		}
	}
	return e
}
