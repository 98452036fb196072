package sessiontest

import (
	"context"
	"fmt"
	"time"

	"github.com/agentcube/agentcube/pkg/session"
)

// ended is what is kept of a session that is gone.
type ended struct {
	ending session.Ending
	until  time.Time
}

// Ended is that of the store it stands for, as are all methods below.
func (f *Fake) Ended(ctx context.Context, id string) (session.Ending, error) {
	if err := ctx.Err(); err != nil {
		return session.Ending{}, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	kept, ok := f.ended[id]
	if !ok || !f.now().Before(kept.until) {
		return session.Ending{}, fmt.Errorf("reading why session %s ended: %w", id, session.ErrNotFound)
	}
	return kept.ending, nil
}

func (f *Fake) Look(ctx context.Context, id string) (session.Snapshot, error) {
	e, err := f.read(ctx, id)
	if err != nil {
		return session.Snapshot{}, err
	}
	return f.seen(e), nil
}

func (f *Fake) seen(e entry) session.Snapshot {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.now()
	last := f.indexes.Activity[e.session.ID]
	if last.After(floor(now).Add(maxSkew)) {
		last = floor(now)
	}
	return session.Snapshot{Session: e.session, LastActivity: last, Now: now}
}

func (f *Fake) Keep(ctx context.Context, id string, guard func(session.Snapshot) error) error {
	for {
		have, err := f.read(ctx, id)
		if err != nil {
			return err
		}
		if err := guard(f.seen(have)); err != nil {
			return err
		}
		if f.keep(id, have.version) {
			return nil
		}
	}
}

func (f *Fake) keep(id string, version int) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.rows[id].version != version {
		return false
	}
	if now := floor(f.now()); now.After(f.indexes.Activity[id]) {
		f.indexes.Activity[id] = now
	}
	return true
}
