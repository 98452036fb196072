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

// findOrphans looks for the row of each object that the scan left without one,
// and marks those that have none.
func (p *pass) findOrphans(ctx context.Context) error {
	keys := slices.Collect(p.view.with(markOurs, markNamed|markYoung))
	for part := range slices.Chunk(keys, chunk) {
		orphans, err := p.rowless(ctx, part)
		if err != nil {
			return err
		}
		for i, key := range part {
			if o := p.view.objects[key]; orphans[i] {
				o.marks |= markOrphan
				p.view.objects[key] = o
			}
		}
	}
	return nil
}

// findOrphansAgain looks a second time, at the objects that are still there,
// and gathers those that still have no row.
func (p *pass) findOrphansAgain(ctx context.Context, sweeps *removal) error {
	err := p.listing(ctx, sweeps.restart, func(page []sandbox.Metadata) error {
		page = slices.DeleteFunc(page, func(o sandbox.Metadata) bool { return !p.suspect(o) })
		keys := make([]uint64, len(page))
		for i, o := range page {
			keys[i] = p.view.key(o.Ref)
		}
		orphans, err := p.rowless(ctx, keys)
		if err != nil {
			return err
		}
		var batch []doomed
		for i, o := range page {
			if orphans[i] {
				batch = append(batch, doomed{sessionID: o.SessionID, object: o.Ref})
			}
		}
		return sweeps.add(ctx, batch)
	})
	if err != nil {
		return fmt.Errorf("looking at the objects without a row again: %w", err)
	}
	return nil
}

// suspect reports whether an object is one that the first look found without a
// row, and nothing about it has changed since.
func (p *pass) suspect(o sandbox.Metadata) bool {
	was, ok := p.view.objects[p.view.key(o.Ref)]
	return ok && was.marks&markOrphan != 0 && p.view.same(was, o.Ref) && was.id == pack(o.SessionID) &&
		p.ours(o) && !o.Deleting
}

// rowless says of each object whether no row names it, by reading the row that
// its label names.
func (p *pass) rowless(ctx context.Context, keys []uint64) ([]bool, error) {
	orphans := make([]bool, len(keys))
	err := p.each(ctx, len(keys), func(ctx context.Context, i int) error {
		o := p.view.objects[keys[i]]
		row, err := p.store.Get(ctx, unpack(o.id))
		switch {
		case errors.Is(err, session.ErrNotFound):
			orphans[i] = true
		case errors.Is(err, session.ErrCorrupt):
			// There is a row, and it may name the object.
		case err != nil:
			return err
		default:
			// The creator of a row that is not live yet, or whoever ends it,
			// cleans up what bears its label.
			orphans[i] = row.Live() && (p.view.key(row.Object) != keys[i] || !p.view.same(o, row.Object))
		}
		return nil
	})
	return orphans, err
}

// sweep deletes objects, by their UID.
func (p *pass) sweep(ctx context.Context, objects []doomed) error {
	return p.each(ctx, len(objects), func(ctx context.Context, i int) error {
		object := objects[i].object
		err := p.objects.Delete(ctx, object)
		if errors.Is(err, sandbox.ErrNotFound) || errors.Is(err, sandbox.ErrConflict) {
			return nil // it is gone already
		}
		if err != nil {
			return fmt.Errorf("sweeping %s: %w", object, err)
		}
		p.log.Info("object swept: no row names it", zap.Stringer("object", object), zap.String("session", objects[i].sessionID))
		p.metrics.swept.Inc()
		p.mu.Lock()
		defer p.mu.Unlock()
		p.report.Swept++
		return nil
	})
}
