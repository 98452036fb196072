// Package sieve owns a map of bounded size that keeps what is asked for
// again. What goes when it is full is found by the SIEVE algorithm (Zhang et
// al., NSDI 2024): a hand walks from the oldest entry to the newest and takes
// the first that nobody has asked for since it last came by.
//
// Unlike with LRU a look-up moves nothing, so that readers can share a lock.
// The package locks nothing itself, and knows neither time nor staleness.
//
// Entries lie side by side in chunks and refer to one another by number. A
// hundred thousand of them are some dozens of objects to the garbage collector,
// and keys without pointers are none at all.
package sieve

import "sync/atomic"

// chunkSize is the number of entries that are allocated at a time.
const chunkSize = 512

// none is the number of no entry.
const none = -1

// Map is a bounded map. Get may be called by many goroutines at once, under a
// shared lock; everything else needs the map for itself. Make it with New.
type Map[K comparable, V any] struct {
	max     int
	numbers map[K]int32
	chunks  [][]entry[K, V]
	// used is how many entries the chunks have given out.
	used int32
	// free begins the list of those that were given back.
	free int32
	// newest and oldest end the list of those in the map.
	newest, oldest int32
	// hand is the entry to be looked at next. none: the oldest.
	hand int32
}

type entry[K comparable, V any] struct {
	key   K
	value V
	// older and newer are the neighbours; older is the next one in the list of
	// free entries.
	older, newer int32
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
	n, ok := m.numbers[key]
	if !ok {
		var none V
		return none, false
	}
	e := m.at(n)
	if !e.asked.Load() { // a store would take the cache line from other readers
		e.asked.Store(true)
	}
	return e.value, true
}

// Put sets the value of the key, and drops another entry if there is no room.
func (m *Map[K, V]) Put(key K, value V) {
	if n, ok := m.numbers[key]; ok {
		m.at(n).value = value
		return
	}
	if len(m.numbers) >= m.max {
		m.evict()
	}
	n := m.take()
	e := m.at(n)
	e.key, e.value, e.older, e.newer = key, value, m.newest, none
	if m.newest == none {
		m.oldest = n
	} else {
		m.at(m.newest).newer = n
	}
	m.newest = n
	m.numbers[key] = n
}

// Delete drops the key and reports whether it was there.
func (m *Map[K, V]) Delete(key K) bool {
	n, ok := m.numbers[key]
	if ok {
		m.remove(n)
	}
	return ok
}

// Clear drops everything.
func (m *Map[K, V]) Clear() {
	m.numbers, m.chunks, m.used = map[K]int32{}, nil, 0
	m.free, m.newest, m.oldest, m.hand = none, none, none, none
}

// Len is the number of entries.
func (m *Map[K, V]) Len() int { return len(m.numbers) }

func (m *Map[K, V]) at(n int32) *entry[K, V] {
	return &m.chunks[n/chunkSize][n%chunkSize]
}

// take returns an entry that is not in the map.
func (m *Map[K, V]) take() int32 {
	if n := m.free; n != none {
		m.free = m.at(n).older
		return n
	}
	if m.used%chunkSize == 0 {
		m.chunks = append(m.chunks, make([]entry[K, V], min(chunkSize, m.max-int(m.used))))
	}
	m.used++
	return m.used - 1
}

// evict drops the first entry from the hand on that nobody has asked for. All
// it passes by were asked for, and are given one more round.
func (m *Map[K, V]) evict() {
	n := m.hand
	for {
		if n == none {
			n = m.oldest
		}
		e := m.at(n)
		if !e.asked.Load() {
			break
		}
		e.asked.Store(false)
		n = e.newer
	}
	m.hand = n
	m.remove(n)
}

// remove takes an entry out of the map and holds on to nothing of it.
func (m *Map[K, V]) remove(n int32) {
	e := m.at(n)
	if m.hand == n {
		m.hand = e.newer
	}
	if e.older == none {
		m.oldest = e.newer
	} else {
		m.at(e.older).newer = e.newer
	}
	if e.newer == none {
		m.newest = e.older
	} else {
		m.at(e.newer).older = e.older
	}
	delete(m.numbers, e.key)
	var (
		key   K
		value V
	)
	e.key, e.value, e.older = key, value, m.free
	e.asked.Store(false)
	m.free = n
}
