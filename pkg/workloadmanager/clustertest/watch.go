package clustertest

import (
	"github.com/agentcube/agentcube/pkg/sandbox"
	"github.com/agentcube/agentcube/pkg/session"
)

// Cache is the watch's view of a Cluster. It is apart from it since both have
// a Get.
type Cache struct{ cluster *Cluster }

// Cache returns the watch's view.
func (c *Cluster) Cache() *Cache { return &Cache{cluster: c} }

// Get reads the cache.
func (w *Cache) Get(ref session.ObjectRef) (sandbox.Object, bool) {
	w.cluster.mu.Lock()
	defer w.cluster.mu.Unlock()
	o, ok := w.cluster.cache[named(ref)]
	return o, ok
}

// Subscribe signals each change of an object until the func is called.
func (w *Cache) Subscribe(ref session.ObjectRef) (<-chan struct{}, func()) {
	c, ref := w.cluster, named(ref)
	signals := make(chan struct{}, 1)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.subscribers[ref] == nil {
		c.subscribers[ref] = map[chan struct{}]struct{}{}
	}
	c.subscribers[ref][signals] = struct{}{}
	return signals, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.subscribers[ref], signals)
	}
}

// observe brings a change to the cache and to whoever watches, as a watch that
// selects by our label does. It needs mu.
func (c *Cluster) observe(o sandbox.Object) {
	if c.frozen {
		return
	}
	ref := named(o.Ref)
	was, had := c.cache[ref]
	if o.SessionID == "" {
		delete(c.cache, ref)
	} else {
		c.cache[ref] = o
	}
	replaced := had && (was.Ref.UID != o.Ref.UID || was.SessionID != o.SessionID)
	if replaced {
		c.emit(sandbox.Event{Object: was, Deleted: true, Proof: o.SessionID == ""})
	}
	if o.SessionID != "" {
		c.emit(sandbox.Event{Object: o})
	}
}

func (c *Cluster) emit(e sandbox.Event) {
	for signals := range c.subscribers[named(e.Object.Ref)] {
		select {
		case signals <- struct{}{}:
		default:
		}
	}
	for _, handle := range c.handlers {
		handle(e)
	}
}
