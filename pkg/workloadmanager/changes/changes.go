// Package changes tells those who wait for a session that its row has changed,
// whoever changed it: this process, another replica, or a program of an
// existing installation. The store tells it of every row that anybody writes
// (it is a follower of pkg/store).
//
// It knows neither rows nor stores, and remembers nothing of a change: whoever
// is told looks at the row. A store that does not tell is looked at from time
// to time instead, and the package says how often.
package changes

import (
	"sync"
	"time"
)

// How long a waiter goes without a look at its row when it was told nothing.
const (
	// recheckTold guards against a change that was missed all the same.
	recheckTold = 10 * time.Second
	// recheckPlain is for a store that does not tell.
	recheckPlain = time.Second
)

// Hub knows who waits. Its methods are safe for concurrent use.
type Hub struct {
	done chan struct{}

	mu      sync.Mutex // guards what follows
	waiters map[string]map[chan struct{}]struct{}
	told    bool
	closed  bool
}

// New returns a hub that nobody tells anything yet.
func New() *Hub {
	return &Hub{done: make(chan struct{}), waiters: map[string]map[chan struct{}]struct{}{}}
}

// Subscribe signals each change of the session's row, and whenever changes may
// have been missed, until unsubscribe is called. Several changes may come as
// one signal.
func (h *Hub) Subscribe(id string) (changed <-chan struct{}, unsubscribe func()) {
	signal := make(chan struct{}, 1)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.waiters[id] == nil {
		h.waiters[id] = map[chan struct{}]struct{}{}
	}
	h.waiters[id][signal] = struct{}{}
	return signal, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.waiters[id], signal)
		if len(h.waiters[id]) == 0 {
			delete(h.waiters, id)
		}
	}
}

// Recheck is how long a waiter may go without a look at its row. Whoever waits
// is signalled when it changes.
func (h *Hub) Recheck() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.told {
		return recheckTold
	}
	return recheckPlain
}

// Done is closed when nobody shall wait any more.
func (h *Hub) Done() <-chan struct{} { return h.done }

// Close ends all waits, present and future. It may be called more than once.
func (h *Hub) Close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.closed {
		h.closed = true
		close(h.done)
	}
}

// Waiters is how many wait.
func (h *Hub) Waiters() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := 0
	for _, signals := range h.waiters {
		n += len(signals)
	}
	return n
}

// Changed is called with the ids of rows that were written or removed.
func (h *Hub) Changed(ids []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, id := range ids {
		wake(h.waiters[id])
	}
}

// Connected is called when the store answers on a new connection: whatever
// happened before may have been missed. With tells it tells of every change
// from here on.
func (h *Hub) Connected(_ time.Time, tells bool) { h.turn(tells) }

// Lost is called when the store does not tell any more.
func (h *Hub) Lost(bool, error) { h.turn(false) }

// Unfollowed is called when the store will not be followed any more.
func (h *Hub) Unfollowed() { h.turn(false) }

// Answered is called when the store has answered a question.
func (h *Hub) Answered(time.Time) {}

func (h *Hub) turn(told bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.told = told
	for _, signals := range h.waiters {
		wake(signals)
	}
}

func wake(signals map[chan struct{}]struct{}) {
	for signal := range signals {
		select {
		case signal <- struct{}{}:
		default: // it was not looked at yet
		}
	}
}
