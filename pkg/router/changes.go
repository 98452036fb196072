package router

import "sync"

// maxChanges bounds the sessions whose change is still to be looked at. With
// more than that all are.
const maxChanges = 10_000

// changes are those of rows that nobody has looked at yet.
type changes struct {
	// some holds a value while there are any.
	some chan struct{}

	mu  sync.Mutex // guards what follows
	ids map[string]struct{}
	all bool
}

func newChanges() *changes {
	return &changes{some: make(chan struct{}, 1), ids: map[string]struct{}{}}
}

func (c *changes) add(id string) {
	c.mu.Lock()
	if len(c.ids) < maxChanges {
		c.ids[id] = struct{}{}
	} else {
		c.all = true
	}
	c.mu.Unlock()
	c.wake()
}

func (c *changes) addAll() {
	c.mu.Lock()
	c.all = true
	c.mu.Unlock()
	c.wake()
}

func (c *changes) wake() {
	select {
	case c.some <- struct{}{}:
	default:
	}
}

// take returns what there is, and forgets it.
func (c *changes) take() (ids map[string]struct{}, all bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	ids, all = c.ids, c.all
	c.ids, c.all = map[string]struct{}{}, false
	return ids, all
}
