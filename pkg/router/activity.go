package router

import (
	"context"
	"sync"
	"time"

	"go.uber.org/zap"
	"k8s.io/utils/clock"
)

const (
	// flushInterval is how long activity is held back. The idle timeouts
	// allow for it (session.IdleGrace).
	flushInterval = time.Second
	// keepInterval is how often a request or stream that goes on is written
	// down again. It fits into session.IdleGrace, so that even the shortest
	// idle timeout finds it.
	keepInterval = 3 * time.Second
	// silentInterval is how long a connected request without an answer proves
	// nothing: its sandbox may be dead, and failing requests to a dead
	// sandbox, again and again, must not keep its session alive.
	silentInterval = 6 * time.Second
	// flushTimeout bounds one write.
	flushTimeout = 5 * time.Second
	// maxPending bounds the sessions remembered while the store is down.
	maxPending = 200_000
)

// Toucher writes times of last activity.
type Toucher interface {
	// Touch raises the time of last activity of sessions, by id. Sessions
	// that are gone are left out.
	Touch(ctx context.Context, at map[string]time.Time) error
}

// Recorder gathers which sessions are in use and writes it down once a
// second, however many requests there are. Make it with NewRecorder.
type Recorder struct {
	clock clock.WithTicker
	store Toucher
	log   *zap.Logger

	mu      sync.Mutex // guards what follows, and the flights
	pending map[string]time.Time
	flights map[*Flight]struct{}
	lost    int
}

// NewRecorder returns a recorder. Nothing is written before Run.
func NewRecorder(clk clock.WithTicker, store Toucher, log *zap.Logger) *Recorder {
	return &Recorder{
		clock: clk, store: store, log: log,
		pending: map[string]time.Time{}, flights: map[*Flight]struct{}{},
	}
}

// Run writes until ctx ends, and then what is left. It returns nil.
func (r *Recorder) Run(ctx context.Context) error {
	ticker := r.clock.NewTicker(flushInterval)
	defer ticker.Stop()
	failing := false
	for {
		select {
		case <-ctx.Done():
			if err := r.flush(context.WithoutCancel(ctx)); err != nil {
				r.log.Error("activity of the last moments is lost", zap.Error(err))
			}
			return nil
		case <-ticker.C():
		}
		r.keep()
		err := r.flush(ctx)
		switch {
		case err != nil && !failing && ctx.Err() == nil:
			r.log.Warn("activity cannot be written down, keeping it", zap.Error(err))
		case err == nil && failing:
			r.log.Info("activity is written down again", zap.Int("lost", r.takeLost()))
		}
		failing = err != nil
	}
}

// keep marks the sessions whose requests go on.
func (r *Recorder) keep() {
	now := r.clock.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	for f := range r.flights {
		if f.inUse(now) && now.Sub(f.marked) >= keepInterval {
			f.marked = now
			r.mark(f.id, now)
		}
	}
}

// flush writes what is pending. What could not be written stays.
func (r *Recorder) flush(ctx context.Context) error {
	r.mu.Lock()
	batch := r.pending
	r.pending = make(map[string]time.Time, len(batch))
	r.mu.Unlock()
	if len(batch) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, flushTimeout)
	defer cancel()
	err := r.store.Touch(ctx, batch)
	if err != nil {
		r.mu.Lock()
		for id, at := range batch {
			r.mark(id, at)
		}
		r.mu.Unlock()
	}
	return err
}

// mark notes activity; the latest counts. mu is held.
func (r *Recorder) mark(id string, at time.Time) {
	before, known := r.pending[id]
	switch {
	case known && !at.After(before):
	case !known && len(r.pending) >= maxPending:
		r.lost++
	default:
		r.pending[id] = at
	}
}

func (r *Recorder) takeLost() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	lost := r.lost
	r.lost = 0
	return lost
}

// Flight is one request of a session, from its start to its end.
type Flight struct {
	recorder *Recorder
	id       string
	started  time.Time
	// connected is when a connection to the sandbox was had. Zero: not yet.
	connected time.Time
	// reached: the sandbox has begun to answer.
	reached bool
	// marked is when the flight was last counted as activity.
	marked time.Time
}

// Begin opens the record of one request of the session. It is no activity
// yet.
func (r *Recorder) Begin(id string) *Flight {
	f := &Flight{recorder: r, id: id, started: r.clock.Now()}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.flights[f] = struct{}{}
	return f
}

// Connected notes that the request has a connection to the sandbox.
func (f *Flight) Connected() {
	now := f.recorder.clock.Now()
	f.recorder.mu.Lock()
	defer f.recorder.mu.Unlock()
	f.connected = now
}

// Reached notes that the sandbox has begun to answer: the session was active
// when the request came, and is for as long as it goes on.
func (f *Flight) Reached() {
	f.recorder.mu.Lock()
	defer f.recorder.mu.Unlock()
	f.reached = true
	if f.marked.IsZero() {
		f.marked = f.started
	}
	f.recorder.mark(f.id, f.started)
}

// End closes the record. The end of a request that took its time is activity
// like its start.
func (f *Flight) End() {
	now := f.recorder.clock.Now()
	f.recorder.mu.Lock()
	defer f.recorder.mu.Unlock()
	delete(f.recorder.flights, f)
	if f.reached && now.Sub(f.started) >= flushInterval {
		f.recorder.mark(f.id, now)
	}
}

// inUse reports whether the flight shows its session to be in use. mu is
// held.
func (f *Flight) inUse(now time.Time) bool {
	return f.reached || (!f.connected.IsZero() && now.Sub(f.connected) >= silentInterval)
}
