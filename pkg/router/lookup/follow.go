package lookup

import (
	"time"

	"go.uber.org/zap"

	"github.com/agentcube/agentcube/pkg/session"
)

// state of the connection on which the store tells of changes.
type state int

const (
	// unknown: there was none yet. Rows are read each time, and not kept.
	unknown state = iota
	// told: the store tells of every change.
	told
	// plain: the store answers, but tells of nothing. Rows are read each
	// time, and kept for when it ceases to answer.
	plain
	// down: the store does not answer.
	down
)

// link is what is known of that connection.
type link struct {
	state state
	// proved is when the last question was asked that the store has answered.
	proved time.Time
	// settled is closed when it is known whether a connection that broke
	// comes back at once. Nil but in down.
	settled chan struct{}
}

// use reports whether a row that is kept may be served.
func (l *link) use(now time.Time, o Options) bool {
	switch l.state {
	case told:
		return now.Sub(l.proved) < o.Proof
	case down:
		return now.Sub(l.proved) < o.MaxStaleness
	default:
		return false
	}
}

// keeps reports whether a row that was read is worth keeping.
func (l *link) keeps() bool { return l.state == told || l.state == plain }

// settle lets those go on who wait for the outcome of an attempt.
func (l *link) settle() {
	if l.settled == nil {
		return
	}
	select {
	case <-l.settled:
	default:
		close(l.settled)
	}
}

// Connected is called when the store answers on a new connection to a
// question asked at the given time. With tells it tells of every change from
// here on. Whatever happened before may have been missed, so all is forgotten.
func (c *Cache) Connected(asked time.Time, tells bool) {
	c.connected(asked, tells)
	c.opts.Forgotten()
}

func (c *Cache) connected(asked time.Time, tells bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.forget()
	c.link.settle()
	c.link = link{state: plain, proved: asked}
	if c.downSaid {
		c.downSaid = false
		c.log.Info("the store answers again; everything known before is forgotten")
	}
	switch {
	case tells:
		c.link.state = told
	case !c.plainSaid:
		c.plainSaid = true
		c.log.Warn("the store does not tell of changes: each request reads its session's row")
	}
}

// Answered is called when the store has answered a question asked at the
// given time, and Changed was called for all that happened before.
func (c *Cache) Answered(asked time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if asked.After(c.link.proved) {
		c.link.proved = asked
	}
}

// Changed is called with the ids of rows that were written or removed.
func (c *Cache) Changed(ids []string) {
	c.counts.invalidations.Add(uint64(len(ids)))
	c.mu.Lock()
	for _, id := range ids {
		if key, ok := session.KeyOf(id); ok {
			c.rows.Delete(key)
		}
		delete(c.reads, id) // see end
	}
	c.mu.Unlock()
	for _, id := range ids {
		c.opts.Changed(id)
	}
}

// Lost is called when the connection is lost, and when an attempt to make one
// has failed. silent: the store was waited for, so there is no use in waiting
// any more.
func (c *Cache) Lost(silent bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.link.state != down {
		broke := c.link.state != unknown && !silent
		c.link.state, c.link.settled = down, make(chan struct{})
		if broke {
			return // the next attempt shows whether it was only the connection
		}
	}
	c.link.settle()
	if !c.downSaid {
		c.downSaid = true
		c.log.Error("the store does not answer; sessions that were served before are served from memory",
			zap.Duration("for", c.opts.MaxStaleness), zap.Int("sessions", c.rows.Len()), zap.Error(err))
	}
	// What is too old to be served only takes up memory.
	if c.rows.Len() > 0 && !c.link.use(c.clock.Now(), c.opts) {
		c.forget()
	}
}

// Unfollowed is called when the store answers, but will not be followed any
// more. Rows are read each time, as before there was a connection.
func (c *Cache) Unfollowed() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.forget()
	c.link.settle()
	c.link = link{}
	c.downSaid = false
}

// forget drops all rows, and what reads under way will find. mu is held.
func (c *Cache) forget() {
	c.era++
	c.counts.flushes.Add(1)
	c.rows.Clear()
	clear(c.words)
	clear(c.reads)
}
