package resync

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"go.uber.org/zap"

	"github.com/agentcube/agentcube/pkg/sandbox"
	"github.com/agentcube/agentcube/pkg/session"
)

// findGone reads each absent row and its object, and gathers the rows whose
// object is gone.
func (p *pass) findGone(ctx context.Context, purges *removal) error {
	for ids := range slices.Chunk(p.absent, chunk) {
		if purges.over() {
			return nil // nothing will go, whatever else is found
		}
		found := make([]*session.ObjectRef, len(ids))
		err := p.each(ctx, len(ids), func(ctx context.Context, i int) (err error) {
			found[i], err = p.gone(ctx, unpack(ids[i]))
			return err
		})
		if err != nil {
			return err
		}
		var batch []doomed
		for i, object := range found {
			if object != nil {
				batch = append(batch, doomed{sessionID: unpack(ids[i]), object: *object})
			}
		}
		if err := purges.add(ctx, batch); err != nil {
			return err
		}
	}
	return nil
}

// gone returns the object that a row names if that is gone; nil if it is not,
// or if the row is in other hands.
func (p *pass) gone(ctx context.Context, id string) (*session.ObjectRef, error) {
	row, err := p.store.Get(ctx, id)
	switch {
	case errors.Is(err, session.ErrNotFound), errors.Is(err, session.ErrCorrupt):
		return nil, nil
	case err != nil:
		return nil, err
	case !row.Live():
		return nil, nil
	}
	object, err := p.objects.Get(ctx, row.Object)
	switch {
	case errors.Is(err, sandbox.ErrNotFound):
		return &row.Object, nil
	case err != nil:
		return nil, fmt.Errorf("looking for the object of session %s: %w", id, err)
	case !object.Ref.Same(row.Object), object.Deleting:
		return &row.Object, nil
	case object.SessionID != id && row.Object.UID == object.Ref.UID:
		p.relabel(row, object)
	}
	return nil, nil
}

// relabel has the label put back that somebody took off while nobody watched.
func (p *pass) relabel(row session.Session, object sandbox.Object) {
	object.SessionID = row.ID
	p.reconciler.Enqueue(sandbox.Event{Object: object, Deleted: true})
	p.mu.Lock()
	defer p.mu.Unlock()
	p.report.Relabelled++
}

// purge removes rows that still name the object that is gone.
func (p *pass) purge(ctx context.Context, rows []doomed) error {
	return p.each(ctx, len(rows), func(ctx context.Context, i int) error {
		id, object := rows[i].sessionID, rows[i].object
		err := p.store.Remove(ctx, id, names(object))
		if errors.Is(err, session.ErrNotFound) || errors.Is(err, session.ErrStale) {
			return nil // somebody else was faster
		}
		if err != nil {
			return fmt.Errorf("purging session %s: %w", id, err)
		}
		p.log.Info("session purged: its object is gone", zap.String("session", id), zap.Stringer("object", object))
		p.metrics.purged.Inc()
		p.mu.Lock()
		defer p.mu.Unlock()
		p.report.Purged++
		return nil
	})
}

// names is the guard of a purge: the row names exactly the object that was
// looked for. Unlike session.Names it refuses a row that has come to know a UID
// since, which is that of a new object of the name.
func names(object session.ObjectRef) func(session.Session) error {
	return func(s session.Session) error {
		if s.Object != object {
			return fmt.Errorf("the row names another object by now: %w", session.ErrStale)
		}
		return nil
	}
}
