// Package lookup owns what a router remembers of rows, so that a request makes
// no round trip to the store.
//
// A row is kept, decoded and cut down to a session.Route, from the first
// request for its session until the store tells that it has changed. That rests on a connection
// on which the store tells of every change and answers a question a few times
// a second (store.Redis.Follow): the two come in order, so an answer proves
// that every change before the question has been told. Rows are served while
// the last proof is young; else they are read.
//
// When the connection breaks, or the answers stay out, the store does not
// answer. Then what was known is served for a while (Options.MaxStaleness),
// everything else fails at once, and nobody waits for a time-out each. When
// the connection is back, everything is forgotten.
//
// The package does not know Redis, and decides nothing about a session: it
// says what the row said, and how fresh that is is its whole concern.
package lookup

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"
	"k8s.io/utils/clock"

	"github.com/agentcube/agentcube/pkg/session"
	"github.com/agentcube/agentcube/pkg/sieve"
)

// Defaults of Options.
const (
	// DefaultMaxRows bounds the memory: 100,000 rows of the usual size take
	// some 40 MB.
	DefaultMaxRows = 131_072
	// DefaultReadTimeout bounds one read of the store.
	DefaultReadTimeout = time.Second
	// DefaultProof is how long an answer of the store proves that nothing was
	// missed. It is longer than the pause between two questions and the time
	// after which silence is noticed.
	DefaultProof = 2 * time.Second
)

// Store reads rows.
type Store interface {
	// Get returns the session's row, session.ErrNotFound, or
	// session.ErrCorrupt. Any other error means that the store could not be
	// asked.
	Get(ctx context.Context, id string) (session.Session, error)
}

// Options of a cache. Zero values mean the defaults.
type Options struct {
	// MaxRows is how many rows are kept.
	MaxRows int
	// MaxStaleness is how long rows are served while the store does not
	// answer, from its last answer on. 0: not at all.
	MaxStaleness time.Duration
	// ReadTimeout bounds one read of the store.
	ReadTimeout time.Duration
	// Proof is how long an answer proves that nothing was missed.
	Proof time.Duration
	// Changed is called with the id of each row that changed, remembered or
	// not: what it said may be in use.
	Changed func(id string)
	// Forgotten is called when changes may have been missed, of any row, and
	// the store can be asked again.
	Forgotten func()
}

func (o Options) withDefaults() Options {
	if o.MaxRows <= 0 {
		o.MaxRows = DefaultMaxRows
	}
	if o.ReadTimeout <= 0 {
		o.ReadTimeout = DefaultReadTimeout
	}
	if o.Proof <= 0 {
		o.Proof = DefaultProof
	}
	if o.Changed == nil {
		o.Changed = func(string) {}
	}
	if o.Forgotten == nil {
		o.Forgotten = func() {}
	}
	return o
}

// Cache looks rows up. Make it with New; until it is told that the store is
// followed (see Connected) it keeps nothing and reads every time.
type Cache struct {
	clock clock.PassiveClock
	store Store
	opts  Options
	log   *zap.Logger

	counts counts

	mu   sync.RWMutex // guards what follows
	rows *sieve.Map[session.Key, *session.Route]
	// words are strings that many rows have in common.
	words map[string]string
	// reads are under way, by id.
	reads map[string]*read
	link  link
	// era counts the times that everything was forgotten.
	era uint64
	// plainSaid: the log has it that the store does not tell of changes;
	// downSaid: that it does not answer.
	plainSaid, downSaid bool
}

// read stands for the reads of one row that are under way. A change that is
// told meanwhile may have happened after the store has answered one of them,
// so none of their answers is kept.
type read struct{ running int }

// New returns an empty cache.
func New(clk clock.PassiveClock, store Store, opts Options, log *zap.Logger) *Cache {
	opts = opts.withDefaults()
	return &Cache{
		clock: clk, store: store, opts: opts, log: log,
		rows:  sieve.New[session.Key, *session.Route](opts.MaxRows),
		words: map[string]string{}, reads: map[string]*read{},
	}
}

// Get returns what a router needs of the row, from memory where that is
// fresh, or where it is all there is. Errors are those of Store.Get, and
// session.ErrUnavailable at once when the store is known not to answer.
func (c *Cache) Get(ctx context.Context, id string) (*session.Route, error) {
	key, valid := session.KeyOf(id)
	c.mu.RLock()
	row, ok := c.rows.Get(key)
	use := c.link.use(c.clock.Now(), c.opts)
	c.mu.RUnlock()
	if valid && ok && use {
		c.counts.hits.Add(1)
		return row, nil
	}
	c.counts.misses.Add(1)
	row, err := c.Fresh(ctx, id)
	if err != nil && !answered(err) {
		if last := c.last(id); last != nil {
			c.counts.stale.Add(1)
			return last, nil
		}
	}
	return row, err
}

// last is the row as it was before the store ceased to answer. Nil: unknown,
// or too long ago.
func (c *Cache) last(id string) *session.Route {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if c.clock.Since(c.link.proved) >= c.opts.MaxStaleness {
		return nil
	}
	key, valid := session.KeyOf(id)
	if !valid {
		return nil
	}
	row, _ := c.rows.Get(key)
	return row
}

// Fresh is a Get that reads past the memory, for whoever has a reason to doubt
// it.
func (c *Cache) Fresh(ctx context.Context, id string) (*session.Route, error) {
	if err := c.reachable(ctx); err != nil {
		return nil, err
	}
	r, era := c.begin(id)
	bounded, cancel := context.WithTimeout(ctx, c.opts.ReadTimeout)
	s, err := c.store.Get(bounded, id)
	cancel()
	var row *session.Route
	if err == nil {
		s.ID = id // the key is what was asked for, whatever the row says
		row = session.RouteOf(s)
	}
	c.end(id, r, era, row, err)
	return row, err
}

// answered reports whether the error is what the store said.
func answered(err error) bool {
	return errors.Is(err, session.ErrNotFound) || errors.Is(err, session.ErrCorrupt)
}

// begin notes that the row is being read.
func (c *Cache) begin(id string) (*read, uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.reads[id]
	if r == nil {
		r = &read{}
		c.reads[id] = r
	}
	r.running++
	return r, c.era
}

// end keeps what was read, unless the row may have changed since it was.
func (c *Cache) end(id string, r *read, era uint64, row *session.Route, err error) {
	key, valid := session.KeyOf(id)
	c.mu.Lock()
	defer c.mu.Unlock()
	unchanged := c.reads[id] == r
	if r.running--; r.running == 0 && unchanged {
		delete(c.reads, id)
	}
	switch {
	case era != c.era, !valid:
	case err != nil && answered(err):
		c.rows.Delete(key)
	case err == nil:
		c.keep(key, row, unchanged && c.link.keeps() && small(row))
	}
}

// keep puts a row that was read in the place of an earlier state of it. Of two
// reads at once either may be answered first, and be done first, and what they
// read may be told to have changed only later: nobody may be served a state
// before the one he has seen. mu is held.
func (c *Cache) keep(key session.Key, row *session.Route, fit bool) {
	have, ok := c.rows.Get(key)
	switch {
	case ok && have.Revision > row.Revision:
	case fit:
		c.rows.Put(key, c.compact(row))
	case ok && have.Revision < row.Revision:
		c.rows.Delete(key)
	}
}

// maxRow bounds what is kept of one row, in bytes of text; each entry point
// counts as much more, for what surrounds its text.
const (
	maxRow     = 4 << 10
	pointBytes = 48
)

// small reports whether the row may be kept. One that is not is read for each
// request: it cannot drive the memory up.
func small(r *session.Route) bool {
	n := len(r.ID) + len(r.OwnerID) + len(r.Workload.Kind) + len(r.Workload.Namespace) + len(r.Workload.Name) +
		len(r.AuthMode) + len(r.KeyID) + len(r.State)
	for _, p := range r.EntryPoints {
		n += pointBytes + len(p.Path) + len(p.Protocol) + len(p.Endpoint)
	}
	return n <= maxRow
}

// maxWords bounds the strings that are shared.
const maxWords = 10_000

// kept is a row in one piece, if it has one entry point, as almost all have.
type kept struct {
	route session.Route
	point [1]session.EntryPoint
}

// compact is a copy that shares its words with other rows, and holds on to
// nothing else. It is few objects, since the garbage collector has to look at
// each. mu is held.
func (c *Cache) compact(r *session.Route) *session.Route {
	k := &kept{route: *r}
	points := append(k.point[:0], r.EntryPoints...)
	texts := append(make([]*string, 0, 2), &k.route.ID)
	for i := range points {
		p := &points[i]
		p.Path, p.Protocol = c.word(p.Path), c.word(p.Protocol)
		texts = append(texts, &p.Endpoint)
	}
	join(texts)
	k.route.EntryPoints = points
	for _, word := range []*string{
		&k.route.Workload.Kind, &k.route.Workload.Namespace, &k.route.Workload.Name,
		&k.route.AuthMode, &k.route.KeyID, (*string)(&k.route.State), &k.route.OwnerID,
	} {
		*word = c.word(*word)
	}
	return &k.route
}

// join makes the texts, which may be parts of a request or a row, parts of one
// text of their own.
func join(texts []*string) {
	var all strings.Builder
	for _, text := range texts {
		all.WriteString(*text)
	}
	rest := all.String()
	for _, text := range texts {
		n := len(*text)
		*text, rest = rest[:n], rest[n:]
	}
}

func (c *Cache) word(w string) string {
	if known, ok := c.words[w]; ok {
		return known
	}
	if len(c.words) >= maxWords {
		clear(c.words)
	}
	c.words[w] = w
	return w
}

// Len is the number of rows that are kept.
func (c *Cache) Len() int {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.rows.Len()
}

// reachable waits out the first attempt to connect again, and says whether
// the store may be asked.
func (c *Cache) reachable(ctx context.Context) error {
	c.mu.RLock()
	state, settled := c.link.state, c.link.settled
	c.mu.RUnlock()
	if state != down {
		return nil
	}
	select {
	case <-settled:
	case <-ctx.Done():
		return fmt.Errorf("waiting for the store: %w", ctx.Err())
	}
	c.mu.RLock()
	defer c.mu.RUnlock()
	if c.link.state == down {
		return fmt.Errorf("the store does not answer: %w", session.ErrUnavailable)
	}
	return nil
}
