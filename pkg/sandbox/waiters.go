package sandbox

import (
	"sync"

	"github.com/agentcube/agentcube/pkg/session"
)

// waiters are the subscribers of each object. The zero value is ready.
type waiters struct {
	mu sync.Mutex
	// by is guarded by mu. Keys have no UID.
	by map[session.ObjectRef]map[chan struct{}]struct{}
}

func (w *waiters) add(ref session.ObjectRef) (<-chan struct{}, func()) {
	ref.UID = ""
	// Of capacity one, so that a signal waits for whoever is busy reading.
	signals := make(chan struct{}, 1)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.by == nil {
		w.by = map[session.ObjectRef]map[chan struct{}]struct{}{}
	}
	if w.by[ref] == nil {
		w.by[ref] = map[chan struct{}]struct{}{}
	}
	w.by[ref][signals] = struct{}{}
	return signals, func() { w.remove(ref, signals) }
}

func (w *waiters) remove(ref session.ObjectRef, signals chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.by[ref], signals)
	if len(w.by[ref]) == 0 {
		delete(w.by, ref)
	}
}

func (w *waiters) signal(ref session.ObjectRef) {
	ref.UID = ""
	w.mu.Lock()
	defer w.mu.Unlock()
	for signals := range w.by[ref] {
		select {
		case signals <- struct{}{}:
		default: // One is waiting to be taken, and says the same.
		}
	}
}
