// Package sieve owns a map of bounded size that keeps what is asked for
// again. What goes when it is full is found by the SIEVE algorithm (Zhang et
// al., NSDI 2024): a hand walks from the oldest entry to the newest and takes
// the first that nobody has asked for since it last came by.
//
// Unlike with LRU a look-up moves nothing, so that readers can share a lock.
// The package locks nothing itself, and knows neither time nor staleness.
package sieve

import "sync/atomic"

// Map is a bounded map. Get may be called by many goroutines at once, under a
// shared lock; everything else needs the map for itself. Make it with New.
type Map[K comparable, V any] struct {
	max     int
	entries map[K]*entry[K, V]
	// root closes the ring: root.next is the newest entry, root.prev the oldest.
	root entry[K, V]
	// hand is the entry to be looked at next. Nil: the oldest.
	hand *entry[K, V]
}

type entry[K comparable, V any] struct {
	next, prev *entry[K, V]
	key        K
	value      V
	// asked: somebody did since the hand last came by.
	asked atomic.Bool
}

// New returns an empty map of at most limit entries, at least one.
func New[K comparable, V any](limit int) *Map[K, V] {
	m := &Map[K, V]{max: max(limit, 1)}
	m.Clear()
	return m
}

// Get returns the value of the key.
func (m *Map[K, V]) Get(key K) (V, bool) {
	e, ok := m.entries[key]
	if !ok {
		var none V
		return none, false
	}
	if !e.asked.Load() { // a store would take the cache line from other readers
		e.asked.Store(true)
	}
	return e.value, true
}

// Put sets the value of the key, and drops another entry if there is no room.
func (m *Map[K, V]) Put(key K, value V) {
	if e, ok := m.entries[key]; ok {
		e.value = value
		return
	}
	if len(m.entries) >= m.max {
		m.evict()
	}
	e := &entry[K, V]{key: key, value: value, next: m.root.next, prev: &m.root}
	e.next.prev, e.prev.next = e, e
	m.entries[key] = e
}

// Delete drops the key and reports whether it was there.
func (m *Map[K, V]) Delete(key K) bool {
	e, ok := m.entries[key]
	if ok {
		m.remove(e)
	}
	return ok
}

// Clear drops everything.
func (m *Map[K, V]) Clear() {
	m.entries, m.hand = map[K]*entry[K, V]{}, nil
	m.root.next, m.root.prev = &m.root, &m.root
}

// Len is the number of entries.
func (m *Map[K, V]) Len() int { return len(m.entries) }

// evict drops the first entry from the hand on that nobody has asked for. All
// it passes by were asked for, and are given one more round.
func (m *Map[K, V]) evict() {
	e := m.hand
	for {
		if e == nil || e == &m.root {
			e = m.root.prev
		}
		if !e.asked.Load() {
			break
		}
		e.asked.Store(false)
		e = e.prev
	}
	m.hand = e
	m.remove(e)
}

func (m *Map[K, V]) remove(e *entry[K, V]) {
	if m.hand == e {
		m.hand = e.prev
	}
	e.prev.next, e.next.prev = e.next, e.prev
	delete(m.entries, e.key)
}
