// Package gc ends the sessions whose time is over: idle ones, expired ones,
// placeholders whose creator died, and deletions that could not be finished.
//
// It reads only rows that are due by the index, which the resync mends. Every
// decision is re-checked by the store in the moment it is applied, so that two
// collectors at once, or activity in between, do no harm.
package gc

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"
	"k8s.io/utils/clock"

	"github.com/agentcube/agentcube/pkg/session"
)

// Index is what the collector reads of the store to find what is due.
type Index interface {
	// Now is the store's clock: deadlines are compared on it alone.
	Now(ctx context.Context) (time.Time, error)
	// Due returns rows whose recorded deadline has passed, the earliest first.
	Due(ctx context.Context, limit int) ([]session.Due, error)
	// Claim moves a row that is due to its next time, and reports whether it
	// did: of two collectors with the same page, one gets each row.
	Claim(ctx context.Context, id string, next time.Time) (bool, error)
	// Postpone sets when the collector looks at a row next.
	Postpone(ctx context.Context, id string, at time.Time) error
}

// Sessions reads and ends sessions.
type Sessions interface {
	Get(ctx context.Context, id string) (session.Session, error)
	LastActivity(ctx context.Context, id string) (time.Time, error)
	// End is a compare-and-set that also fails, with session.ErrStale, when
	// there was activity after idleSince. Zero: activity does not matter.
	End(ctx context.Context, id string, idleSince time.Time, change func(*session.Session) error) (session.Session, error)
	Remove(ctx context.Context, id string, guard func(session.Session) error) error
}

// Creators tells which placeholders there are and which creators live.
type Creators interface {
	// Creating returns a page of placeholders, the oldest first, after the
	// given one. The zero Placeholder: from the start.
	Creating(ctx context.Context, after session.Placeholder, limit int) ([]session.Placeholder, error)
	Alive(ctx context.Context, processes ...string) (map[string]bool, error)
}

// Finisher does what is left to do with the object of a session.
type Finisher interface {
	// Finish deletes the object and then the row of a session that is marked
	// as deleting.
	Finish(ctx context.Context, row session.Session, abandoned bool) error
	// Mend tells the object the lifetimes that the row has, after a change of
	// them that was cut off.
	Mend(ctx context.Context, row session.Session) error
}

// Options of a Collector.
type Options struct {
	// Interval between two passes.
	Interval time.Duration
	// Page is how many due rows are read at a time.
	Page int
	// Workers handle so many rows at a time.
	Workers int
	// CreateBound after which a create is over, whoever runs it.
	CreateBound time.Duration
	// UnknownBound is how long the API server may still apply a create call
	// that a dead creator sent.
	UnknownBound time.Duration
	// OutagePause is how long nobody is taken for idle after the store was
	// out of reach, so that routers can flush the activity they hold.
	OutagePause time.Duration
	// Metrics and Events say what is done. Nil: to nobody.
	Metrics *Metrics
	Events  Events
}

// Collector ends what is due, pass by pass.
type Collector struct {
	clock    clock.WithTicker
	log      *zap.Logger
	index    Index
	sessions Sessions
	creators Creators
	finisher Finisher
	options  Options

	mu          sync.Mutex
	out         bool      // the store was out of reach when last used; guarded by mu
	outageUntil time.Time // guarded by mu
}

// New returns a Collector. It starts nothing.
func New(clk clock.WithTicker, log *zap.Logger, index Index, sessions Sessions, creators Creators, finisher Finisher,
	options Options,
) *Collector {
	return &Collector{
		clock: clk, log: log, index: index, sessions: sessions, creators: creators,
		finisher: finisher, options: options,
	}
}

// Run collects until ctx ends, and returns when the pass under way has
// stopped.
func (c *Collector) Run(ctx context.Context) error {
	// The store may have been away until just now, unseen by this process.
	c.noteOutage(session.ErrUnavailable)
	ticker := c.clock.NewTicker(c.options.Interval)
	defer ticker.Stop()
	for {
		begun := c.clock.Now()
		stats, err := c.Pass(ctx)
		c.options.Metrics.passed(stats, c.clock.Since(begun), err)
		if err != nil {
			c.failed("collecting", err)
		} else if stats.Ended+stats.Failed > 0 {
			c.log.Info("collected", zap.Int("due", stats.Due), zap.Int("ended", stats.Ended), zap.Int("failed", stats.Failed))
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C():
		}
	}
}

func (c *Collector) failed(doing string, err error) {
	if errors.Is(err, context.Canceled) {
		return
	}
	c.log.Warn(doing+" did not work, trying again in the next pass", zap.Error(err))
}

// Stats say what a pass did.
type Stats struct {
	// Due rows were looked at; Ended ones are gone; Failed ones are tried
	// again later.
	Due, Ended, Failed int
	// stuck ones could not even be moved to their next attempt.
	stuck int
}

// errStuck: a row stays at the head of the index.
var errStuck = errors.New("not moved to the next attempt")

// Pass looks at everything that is due now.
func (c *Collector) Pass(ctx context.Context) (Stats, error) {
	now, err := c.index.Now(ctx)
	if err != nil {
		c.noteOutage(err)
		return Stats{}, fmt.Errorf("reading the store's clock: %w", err)
	}
	if err := c.findAbandoned(ctx, now); err != nil {
		c.noteOutage(err)
		return Stats{}, err
	}
	c.noteAnswer()
	var total Stats
	for ctx.Err() == nil {
		due, err := c.index.Due(ctx, c.options.Page)
		if err != nil {
			c.noteOutage(err)
			return total, fmt.Errorf("reading what is due: %w", err)
		}
		if len(due) == 0 {
			return total, nil
		}
		// Read for each page: what is postponed from a moment long past would
		// come up again in this pass.
		if now, err = c.index.Now(ctx); err != nil {
			c.noteOutage(err)
			return total, fmt.Errorf("reading the store's clock: %w", err)
		}
		stats := c.page(ctx, due, now)
		total.Due += len(due)
		total.Ended += stats.Ended
		total.Failed += stats.Failed
		if stats.stuck == len(due) {
			// The next page would be the same.
			return total, nil
		}
	}
	return total, nil
}

// page handles rows in parallel, within a bound.
func (c *Collector) page(ctx context.Context, due []session.Due, now time.Time) Stats {
	var (
		mu    sync.Mutex
		stats Stats
		group errgroup.Group
	)
	group.SetLimit(c.options.Workers)
	for _, d := range due {
		group.Go(func() error {
			ended, err := c.handle(ctx, d.ID, now)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				c.noteOutage(err)
				stats.Failed++
				if errors.Is(err, errStuck) {
					stats.stuck++
				}
				c.log.Warn("session that is due could not be ended, trying again", zap.String("session", d.ID), zap.Error(err))
			} else if ended {
				stats.Ended++
			}
			return nil
		})
	}
	_ = group.Wait() // the goroutines return nil
	return stats
}

// noteOutage makes idle collection wait after the store was out of reach.
func (c *Collector) noteOutage(err error) {
	if !errors.Is(err, session.ErrUnavailable) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.out = true
}

// noteAnswer begins the pause when the store is back: it may have been away
// until just now.
func (c *Collector) noteAnswer() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.out {
		c.out, c.outageUntil = false, c.clock.Now().Add(c.options.OutagePause)
	}
}

func (c *Collector) outage() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.out || c.clock.Now().Before(c.outageUntil)
}
