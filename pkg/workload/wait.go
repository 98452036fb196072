package workload

import (
	"context"
	"fmt"
	"sync"

	"k8s.io/client-go/tools/cache"

	"github.com/agentcube/agentcube/pkg/session"
)

// WaitPool returns the template as soon as a session can be made from it: at
// once if it starts cold, else when its status says that pool and template
// stand. It ends with what Get returns if the template goes or breaks
// meanwhile, with ErrPool when the pool cannot be made, and with ctx.
func (l *Lister) WaitPool(ctx context.Context, ref session.WorkloadRef) (Workload, error) {
	// Subscribed before the first look, so that no change falls in between.
	changed, unsubscribe := l.waiters.subscribe(cache.NewObjectName(ref.Namespace, ref.Name))
	defer unsubscribe()
	recheck := l.clock.NewTimer(recheckInterval)
	defer recheck.Stop()
	look := l.find
	for {
		t, err := look(ctx, ref)
		if err != nil {
			return Workload{}, err
		}
		if !t.workload.Warm || t.workload.PoolMade {
			return t.workload.clone(), nil
		}
		if message, refused := t.status.refused(t.Generation); refused {
			return Workload{}, fmt.Errorf("%s %w: %s", describe(ref), ErrPool, message)
		}
		select {
		case <-changed:
			look = l.find
		case <-recheck.C():
			recheck.Reset(recheckInterval)
			look = l.read
		case <-ctx.Done():
			return Workload{}, fmt.Errorf("waiting for the warm pool of %s: %w", describe(ref), ctx.Err())
		}
	}
}

// waiters are told of changes, by name. Several may wait for one.
type waiters struct {
	mu sync.Mutex
	// byName is guarded by mu. A channel holds one signal: more are the same.
	byName map[cache.ObjectName]map[chan struct{}]struct{}
}

func newWaiters() *waiters {
	return &waiters{byName: map[cache.ObjectName]map[chan struct{}]struct{}{}}
}

// subscribe returns a channel that is sent to after each change, and how to
// end it.
func (w *waiters) subscribe(name cache.ObjectName) (<-chan struct{}, func()) {
	signal := make(chan struct{}, 1)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.byName[name] == nil {
		w.byName[name] = map[chan struct{}]struct{}{}
	}
	w.byName[name][signal] = struct{}{}
	return signal, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.byName[name], signal)
		if len(w.byName[name]) == 0 {
			delete(w.byName, name)
		}
	}
}

func (w *waiters) signal(obj any) {
	name, err := cache.DeletionHandlingObjectToName(obj)
	if err != nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for waiter := range w.byName[name] {
		select {
		case waiter <- struct{}{}:
		default:
		}
	}
}

func (w *waiters) handler() cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    w.signal,
		UpdateFunc: func(_, obj any) { w.signal(obj) },
		DeleteFunc: w.signal,
	}
}
