package provision

import (
	"context"
	"sync"
	"time"

	"go.uber.org/zap"
)

const (
	// leftoverInterval is between two attempts at what an undo left.
	leftoverInterval = 2 * time.Second
	// maxLeftovers bounds what is remembered in an outage. The collector finds
	// the others by their rows, once no create can be under way any more.
	maxLeftovers = 10_000
)

// leftovers are the creates whose undo has more to do.
type leftovers struct {
	mu   sync.Mutex
	list []*creation // guarded by mu
}

func (l *leftovers) add(c *creation) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.list) < maxLeftovers {
		l.list = append(l.list, c)
	}
}

func (l *leftovers) take() []*creation {
	l.mu.Lock()
	defer l.mu.Unlock()
	list := l.list
	l.list = nil
	return list
}

// Run finishes, until ctx ends, the undos that could not be finished because a
// dependency was out of reach. The collector would do so too, but later: while
// their creator lives it must take placeholders for creates under way. After
// the end it need not.
func (p *Provisioner) Run(ctx context.Context) error {
	ticker := p.clock.NewTicker(leftoverInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C():
		}
		for _, c := range p.left.take() {
			p.finishLeftover(ctx, c)
		}
	}
}

func (p *Provisioner) finishLeftover(ctx context.Context, c *creation) {
	bounded, cancel := context.WithTimeout(ctx, p.options.AnswerBound)
	defer cancel()
	err := p.undo(bounded, c)
	switch {
	case p.leave(bounded, c, err):
	case err != nil:
		p.log.Warn("undo is left to the collector", zap.String("session", c.row.ID), zap.Error(err))
	default:
		p.log.Info("undo finished", zap.String("session", c.row.ID))
	}
}

// leave keeps a create whose undo, run on ctx, is to run again: it could not
// reach a dependency in time, or the reservation's outcome is not known. A store that was
// frozen may carry out the reservation after the removal, so that one
// removal that finds no row proves nothing.
func (p *Provisioner) leave(ctx context.Context, c *creation, err error) bool {
	again := err != nil && (passing(err) || ctx.Err() != nil)
	if err == nil && c.reservationUnknown {
		c.reservationUnknown, again = false, true
	}
	if again {
		p.left.add(c)
	}
	return again
}
