package resync

import (
	"context"
	"fmt"

	"github.com/agentcube/agentcube/pkg/session"
)

// doomed is a row or an object that is to go.
type doomed struct {
	sessionID string
	object    session.ObjectRef
}

// removal gathers what is to go, up to what may, before anything does; or, with
// an operator's leave, lets it go at once.
type removal struct {
	most   int
	atOnce bool
	act    func(context.Context, []doomed) error

	found int
	held  []doomed
}

func (r *removal) add(ctx context.Context, batch []doomed) error {
	room := max(r.most-r.found, 0)
	r.found += len(batch)
	r.held = append(r.held, batch[:min(room, len(batch))]...)
	switch {
	case r.atOnce:
		return r.carryOut(ctx)
	case r.over():
		r.held = nil // none of it goes, so none need be kept
	}
	return nil
}

// over reports whether more is to go than may.
func (r *removal) over() bool { return r.found > r.most }

// restart forgets what was gathered.
func (r *removal) restart() {
	if !r.atOnce { // what has gone is not found again
		r.found, r.held = 0, nil
	}
}

func (r *removal) carryOut(ctx context.Context) error {
	held := r.held
	r.held = nil
	return r.act(ctx, held)
}

// judge decides what goes. Either nothing stands in the way of all of it, or
// none of it goes.
func (p *pass) judge(ctx context.Context) error {
	purges := &removal{most: most(p.report.Rows), act: p.purge}
	sweeps := &removal{most: most(p.report.Objects), act: p.sweep}
	if leave := p.held; leave.confirmedBy(p.note) && leave.Reason == p.reason && leave.Store == p.foreign() {
		// Used up before anything goes: a pass that is cut off must be
		// confirmed anew rather than go on for ever.
		if err := p.release(ctx); err != nil {
			return err
		}
		purges.most, purges.atOnce = purges.most+leave.Purge, true
		sweeps.most, sweeps.atOnce = sweeps.most+leave.Sweep, true
	} else if !p.known() && !p.harmless() {
		return p.hold(ctx, p.wouldBe(p.report.Unnamed))
	}
	if !p.known() {
		if err := p.store.SetInstallation(ctx, p.options.Installation); err != nil {
			return fmt.Errorf("making the store this installation's: %w", err)
		}
		p.stored, p.reason = p.options.Installation, ReasonMass
	}
	return p.remove(ctx, purges, sweeps)
}

// harmless reports whether a store that belongs to nobody may become ours
// without leave: nothing of ours is in the cluster that it does not name, and
// it names nothing that is not there. It is so at the very first start.
func (p *pass) harmless() bool {
	return p.reason == ReasonStoreEmpty && p.report.Unnamed == 0 && len(p.absent) == 0
}

// foreign is the id of another installation in the store; empty: none.
func (p *pass) foreign() string {
	if p.known() {
		return ""
	}
	return p.stored
}

// wouldBe is the brake for what this pass would remove.
func (p *pass) wouldBe(sweep int) Brake {
	return Brake{
		Reason: p.reason, Store: p.foreign(),
		Rows: p.report.Rows, Purge: len(p.absent), Objects: p.report.Objects, Sweep: sweep,
	}
}

func (p *pass) remove(ctx context.Context, purges, sweeps *removal) error {
	if err := p.findGone(ctx, purges); err != nil {
		return err
	}
	if err := p.findOrphans(ctx); err != nil {
		return err
	}
	orphans := p.view.count(markOrphan, 0)
	if purges.over() {
		return p.hold(ctx, p.wouldBe(orphans))
	}
	if orphans <= sweeps.most {
		// Whatever the second look brings cannot be too much: the rows need
		// not wait for it.
		if err := purges.carryOut(ctx); err != nil {
			return err
		}
	}
	if orphans > 0 {
		p.waited += p.options.Grace
		if err := p.sleep(ctx, p.options.Grace); err != nil {
			return err
		}
		if err := p.findOrphansAgain(ctx, sweeps); err != nil {
			return err
		}
	}
	if sweeps.over() {
		return p.hold(ctx, p.wouldBe(orphans))
	}
	if err := purges.carryOut(ctx); err != nil {
		return err
	}
	if err := sweeps.carryOut(ctx); err != nil {
		return err
	}
	return p.release(ctx)
}
