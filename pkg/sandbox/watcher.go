package sandbox

import (
	"context"
	"fmt"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"

	"github.com/agentcube/agentcube/pkg/session"
)

// Event is a change of an object that carries a session.
type Event struct {
	// Object is as it is now; a deleted one, as it was last seen.
	Object Object
	// Deleted: the object that Object describes is no longer watched under its
	// name, UID and session id. It may live on: see Proof.
	Deleted bool
	// Proof: the API server said DELETED. It also says so when our label is
	// taken off a live object, since the watch selects by that label, so
	// whoever acts on it reads the object directly first. Without Proof the
	// object was found missing from a later list, or another object or session
	// took its place.
	Proof bool
}

// WatcherOptions are the settings of a Watcher.
type WatcherOptions struct {
	// Resync repeats every object to the handlers at this interval, as the
	// cache has it. Zero: never. Since an unchanged object is no event, it only
	// serves to show that handlers are alive.
	Resync time.Duration
	// OnError is told of each list or watch that failed; the informer tries
	// again by itself. nil: client-go logs it.
	OnError func(kind string, err error)
}

// Watcher follows all Sandboxes and SandboxClaims that bear LabelSessionID, in
// all namespaces, and keeps a small value of each.
type Watcher struct {
	informers map[string]cache.SharedIndexInformer // by kind; fixed at construction
	handled   []cache.DoneChecker                  // the handlers have seen the first list
	waiters   waiters
	handlers  []func(Event)
}

// NewWatcher makes a watcher of the version that api names. It starts nothing.
func NewWatcher(d dynamic.Interface, api API, options WatcherOptions) (*Watcher, error) {
	w := &Watcher{informers: map[string]cache.SharedIndexInformer{}}
	for kind, resource := range map[string]schema.GroupVersionResource{
		session.KindSandbox:      api.Sandboxes(),
		session.KindSandboxClaim: api.Claims(),
	} {
		if err := w.add(kind, newInformer(d, api, resource, options.Resync), api, options); err != nil {
			return nil, fmt.Errorf("watching %s: %w", resource.Resource, err)
		}
	}
	return w, nil
}

func (w *Watcher) add(kind string, informer cache.SharedIndexInformer, api API, options WatcherOptions) error {
	if err := informer.SetTransform(shrink(api)); err != nil {
		return err
	}
	if options.OnError != nil {
		err := informer.SetWatchErrorHandlerWithContext(func(_ context.Context, _ *cache.Reflector, err error) {
			options.OnError(kind, err)
		})
		if err != nil {
			return err
		}
	}
	registration, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    w.added,
		UpdateFunc: w.updated,
		DeleteFunc: w.deleted,
	})
	if err != nil {
		return err
	}
	w.informers[kind] = informer
	w.handled = append(w.handled, registration.HasSyncedChecker())
	return nil
}

// newInformer selects by label at the API server, which spares us everything
// that carries no session.
func newInformer(d dynamic.Interface, api API, resource schema.GroupVersionResource, resync time.Duration) cache.SharedIndexInformer {
	objects := d.Resource(resource)
	source := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			options.LabelSelector = LabelSessionID
			return listShrunk(ctx, objects, options, shrink(api))
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			options.LabelSelector = LabelSessionID
			return objects.Watch(ctx, options)
		},
	}
	return cache.NewSharedIndexInformerWithOptions(
		cache.ToListWatcherWithWatchListSemantics(source, d),
		&unstructured.Unstructured{},
		cache.SharedIndexInformerOptions{ResyncPeriod: resync, ObjectDescription: resource.String()},
	)
}

// OnEvent adds a handler. It must be called before Run. The handler is called
// in the informers' goroutines, one per kind, after the cache holds the change;
// it must not block.
func (w *Watcher) OnEvent(handle func(Event)) { w.handlers = append(w.handlers, handle) }

// Run watches until ctx ends, waits for its goroutines, and returns nil. While
// the API server is out of reach it keeps trying; the cache is then as old as
// the last answer.
func (w *Watcher) Run(ctx context.Context) error {
	var running sync.WaitGroup
	for _, informer := range w.informers {
		running.Go(func() { informer.RunWithContext(ctx) })
	}
	running.Wait()
	return nil
}

// HasSynced reports whether the first list of both kinds has reached the cache
// and the handlers.
func (w *Watcher) HasSynced() bool {
	for _, h := range w.handled {
		if !cache.IsDone(h) {
			return false
		}
	}
	return true
}

// WaitForSync waits for HasSynced. Its error is ctx's.
func (w *Watcher) WaitForSync(ctx context.Context) error {
	if !cache.WaitFor(ctx, "", w.handled...) {
		return fmt.Errorf("waiting for the first list of sandboxes: %w", context.Cause(ctx))
	}
	return nil
}

// Get reads an object from the cache, by kind, namespace and name: whether it
// is the one of ref's UID is for the caller to compare.
func (w *Watcher) Get(ref session.ObjectRef) (Object, bool) {
	informer, ok := w.informers[ref.Kind]
	if !ok {
		return Object{}, false
	}
	item, exists, err := informer.GetIndexer().GetByKey(cache.NewObjectName(ref.Namespace, ref.Name).String())
	if err != nil || !exists {
		return Object{}, false
	}
	c, ok := item.(*cached)
	if !ok {
		return Object{}, false
	}
	return c.Object, true
}

// Subscribe signals each change of an object, its deletion too, by kind,
// namespace and name. Signals that nobody has taken yet are one. A signal comes
// after the cache holds the change, so subscribing first and then reading
// misses nothing. The func ends the subscription; it may be called again.
func (w *Watcher) Subscribe(ref session.ObjectRef) (<-chan struct{}, func()) {
	return w.waiters.add(ref)
}

func (w *Watcher) added(item any) {
	if c, ok := item.(*cached); ok && c.SessionID != "" {
		w.emit(Event{Object: c.Object})
	}
}

func (w *Watcher) updated(before, after any) {
	was, ok := before.(*cached)
	if !ok {
		return
	}
	is, ok := after.(*cached)
	if !ok || was.ResourceVersion == is.ResourceVersion && was.Ref == is.Ref {
		return
	}
	if was.SessionID != "" && (was.Ref.UID != is.Ref.UID || was.SessionID != is.SessionID) {
		// Another object of that name, or of another session: whoever follows
		// the old one would not learn it from the new one.
		w.emit(Event{Object: was.Object, Deleted: true})
	}
	w.added(is)
}

func (w *Watcher) deleted(item any) {
	proof := true
	if tombstone, ok := item.(cache.DeletedFinalStateUnknown); ok {
		item, proof = tombstone.Obj, false
	}
	if c, ok := item.(*cached); ok && c.SessionID != "" {
		w.emit(Event{Object: c.Object, Deleted: true, Proof: proof})
	}
}

func (w *Watcher) emit(e Event) {
	w.waiters.signal(e.Object.Ref)
	for _, handle := range w.handlers {
		handle(e)
	}
}
