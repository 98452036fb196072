package resync

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/agentcube/agentcube/pkg/sandbox"
	"github.com/agentcube/agentcube/pkg/session"
)

const (
	// listAttempts bounds how often a list that expired is begun anew.
	listAttempts = 5
	// chunk is how many rows or objects are looked at between two decisions.
	chunk = 500
)

// Report says what a pass saw and did.
type Report struct {
	// Rows and Objects there were; of the objects, those of this installation.
	Rows, Objects int
	// Absent rows name an object that the list did not show, or showed with the
	// label of another session; Unnamed objects
	// are named by no row that the scan showed. Most of both were under way.
	Absent, Unnamed int
	// Purged rows and Swept objects are gone; Failed ones are tried again in
	// the next pass.
	Purged, Swept, Failed int
	// Relabelled objects had lost their session's label.
	Relabelled int
	// Mended index entries.
	Mended int
	// Held is why nothing was removed; empty: nothing stood in the way.
	Held string
	// Worked is the time of the pass without the grace period.
	Worked time.Duration
}

// pass is one comparison.
type pass struct {
	*Resyncer
	start time.Time // by the store's clock

	note   sandbox.Note
	held   *Brake // what the note holds; nil: nothing
	stored string // the installation's id in the store
	reason string // of the brake that this pass may set

	view   *view
	absent [][16]byte // rows whose object the view does not show
	waited time.Duration

	mu     sync.Mutex
	report Report // guarded by mu while calls are made in parallel
}

// Pass compares both sides once. An error means that it could not be finished;
// what it did until then is right all the same.
func (r *Resyncer) Pass(ctx context.Context) (Report, error) {
	begun := r.clock.Now()
	p := &pass{Resyncer: r}
	err := p.run(ctx)
	p.report.Worked = r.clock.Since(begun) - p.waited
	p.tell(ctx, err)
	return p.report, err
}

func (p *pass) tell(ctx context.Context, err error) {
	outcome := outcomeDone
	switch {
	case err != nil && ctx.Err() != nil:
		return // given up, which says nothing of either side
	case err != nil:
		outcome = outcomeFailed
	case p.report.Held != "":
		outcome = outcomeHeld
	}
	p.metrics.passes.WithLabelValues(outcome).Inc()
	p.metrics.seconds.Observe(p.report.Worked.Seconds())
	fields := []zap.Field{
		zap.Int("rows", p.report.Rows), zap.Int("objects", p.report.Objects),
		zap.Int("absent", p.report.Absent), zap.Int("unnamed", p.report.Unnamed),
		zap.Int("purged", p.report.Purged), zap.Int("swept", p.report.Swept), zap.Int("failed", p.report.Failed),
		zap.Int("relabelled", p.report.Relabelled), zap.Int("mended", p.report.Mended),
		zap.String("held", p.report.Held), zap.Duration("worked", p.report.Worked), zap.Duration("waited", p.waited),
	}
	if err != nil {
		p.log.Warn("resync not finished, trying again", append(fields, zap.Error(err))...)
		return
	}
	p.log.Info("resync", fields...)
}

func (p *pass) run(ctx context.Context) error {
	for _, step := range []func(context.Context) error{p.begin, p.readIdentity, p.look, p.scan, p.judge} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (p *pass) begin(ctx context.Context) (err error) {
	if p.start, err = p.store.Now(ctx); err != nil {
		return fmt.Errorf("reading the store's clock: %w", err)
	}
	return nil
}

// look lists the objects, and meanwhile mends the indexes, which follow from
// the rows and need no leave.
func (p *pass) look(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return p.list(ctx) })
	group.Go(func() error {
		mended, err := p.store.Index(ctx)
		p.report.Mended = mended
		if errors.Is(err, session.ErrCorrupt) {
			p.log.Warn("indexes mended, but for rows that cannot be read", zap.Error(err))
			return nil
		}
		if err != nil {
			return fmt.Errorf("mending the indexes: %w", err)
		}
		return nil
	})
	return group.Wait()
}

// list comes before the scan: an object that is made after it has its row
// before, and is read directly should that row be missed in the view.
func (p *pass) list(ctx context.Context) error {
	err := p.listing(ctx, func() { p.view = newView() }, func(page []sandbox.Metadata) error {
		for _, o := range page {
			if !o.Deleting { // as good as gone: its row is, and it goes by itself
				p.view.add(o.Ref, o.SessionID, p.marksOf(o))
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("listing the objects: %w", err)
	}
	p.report.Objects = p.view.ours
	return nil
}

// listing lists, anew from begin on whenever the API server drops the list.
func (p *pass) listing(ctx context.Context, begin func(), visit func([]sandbox.Metadata) error) error {
	for attempt := 1; ; attempt++ {
		begin()
		err := p.lister.List(ctx, visit)
		if !errors.Is(err, sandbox.ErrExpired) || attempt == listAttempts {
			return err
		}
	}
}

func (p *pass) marksOf(o sandbox.Metadata) marks {
	var m marks
	if p.ours(o) {
		m |= markOurs
	}
	if o.CreatedAt.Add(p.options.Grace).After(p.start) {
		m |= markYoung
	}
	return m
}

// ours reports whether this installation may judge an object at all.
func (p *pass) ours(o sandbox.Metadata) bool {
	if o.Controlled {
		return false // it goes with whatever controls it
	}
	return o.Installation == p.options.Installation || (o.Installation == "" && p.options.AdoptUnmarked)
}

// scan goes through all rows and notes which objects they name.
func (p *pass) scan(ctx context.Context) error {
	for cursor := uint64(0); ; {
		rows, next, err := p.store.Scan(ctx, cursor)
		if err != nil {
			return fmt.Errorf("reading the rows: %w", err)
		}
		for _, row := range rows {
			p.report.Rows++
			if !row.Unreadable && !p.view.carries(row.Object, row.ID) && p.judged(row) {
				p.absent = append(p.absent, pack(row.ID))
			}
		}
		if cursor = next; cursor == 0 {
			p.report.Absent = len(p.absent)
			p.report.Unnamed = p.view.count(markOurs, markNamed)
			return nil
		}
	}
}

// judged reports whether a row that names no object is to be looked at: rows
// that are being created or deleted are in other hands, and the object of one
// that was reserved after the list began could not be in it.
func (p *pass) judged(row session.Row) bool {
	return row.State != session.StateCreating && row.State != session.StateDeleting && row.CreatedAt.Before(p.start)
}

// each makes a call for each of n, some at a time. What cannot be reached ends
// the pass; any other failure is that of one session, and is counted.
func (p *pass) each(ctx context.Context, n int, call func(ctx context.Context, i int) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(p.options.Workers)
	for i := range n {
		group.Go(func() error {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			err := call(ctx, i)
			if err == nil || unreachable(err) {
				return err
			}
			p.mu.Lock()
			defer p.mu.Unlock()
			p.report.Failed++
			p.log.Warn("left to the next resync", zap.Error(err))
			return nil
		})
	}
	return group.Wait()
}
