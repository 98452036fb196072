package router

import "sync/atomic"

// limiter bounds the requests in flight. Upgraded connections leave the count
// when they are upgraded: they are open for hours and mostly silent.
type limiter struct {
	// max is the bound; 0: none.
	max      int64
	inFlight atomic.Int64
	upgraded atomic.Int64
}

// acquire takes a slot, or returns nil if there is none left.
func (l *limiter) acquire() *slot {
	if n := l.inFlight.Add(1); l.max > 0 && n > l.max {
		l.inFlight.Add(-1)
		return nil
	}
	return &slot{limiter: l, counter: &l.inFlight}
}

// slot is one request's place in a limiter's count. It belongs to the
// handler's goroutine.
type slot struct {
	limiter *limiter
	counter *atomic.Int64
}

// upgrade moves the slot to the upgraded connections.
func (s *slot) upgrade() {
	s.limiter.upgraded.Add(1)
	s.counter.Add(-1)
	s.counter = &s.limiter.upgraded
}

func (s *slot) release() { s.counter.Add(-1) }
