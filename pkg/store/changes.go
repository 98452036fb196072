package store

import (
	"sync"
	"time"
)

// Changes tells those who wait for a row that it was written or removed. It is
// a Follower: Follow is what feeds it.
type Changes struct {
	mu      sync.Mutex
	waiting map[string]map[chan struct{}]struct{} // by row; guarded by mu
}

// NewChanges returns one that nobody waits for.
func NewChanges() *Changes {
	return &Changes{waiting: map[string]map[chan struct{}]struct{}{}}
}

// Subscribe signals changes of the row until the func is called; several at
// once may be one signal. While the store is not followed there is none, so
// whoever waits also looks from time to time.
func (c *Changes) Subscribe(id string) (changed <-chan struct{}, unsubscribe func()) {
	signal := make(chan struct{}, 1)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.waiting[id] == nil {
		c.waiting[id] = map[chan struct{}]struct{}{}
	}
	c.waiting[id][signal] = struct{}{}
	return signal, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.waiting[id], signal)
		if len(c.waiting[id]) == 0 {
			delete(c.waiting, id)
		}
	}
}

// Changed implements Follower.
func (c *Changes) Changed(ids []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, id := range ids {
		c.tell(id)
	}
}

// Connected implements Follower: what happened before may not have been told.
func (c *Changes) Connected(time.Time, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id := range c.waiting {
		c.tell(id)
	}
}

// tell needs mu.
func (c *Changes) tell(id string) {
	for signal := range c.waiting[id] {
		select {
		case signal <- struct{}{}:
		default: // it has one that it has not seen yet
		}
	}
}

// Answered implements Follower.
func (c *Changes) Answered(time.Time) {}

// Lost implements Follower.
func (c *Changes) Lost(bool, error) {}

// Unfollowed implements Follower.
func (c *Changes) Unfollowed() {}
