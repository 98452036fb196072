package main

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

// event is a change of one object. before is nil for a new one.
type event struct {
	kind   watch.EventType
	object *object
	before *object
}

// collection holds the objects of one resource, and every change of them since
// the start: a watch can begin anywhere.
type collection struct {
	gvr     schema.GroupVersionResource
	kind    string
	cluster *cluster
	first   int64 // the resource version of the start

	mu      sync.Mutex
	objects []*object     // in the order of their keys; guarded by mu
	events  []event       // guarded by mu
	changed chan struct{} // closed by the next change; guarded by mu
}

func newCollection(gvr schema.GroupVersionResource, kind string, c *cluster) *collection {
	return &collection{gvr: gvr, kind: kind, cluster: c, first: c.version, changed: make(chan struct{})}
}

// load adds an object of the start; sort must follow.
func (c *collection) load(o *object) { c.objects = append(c.objects, o) }

func (c *collection) sort() {
	slices.SortFunc(c.objects, func(a, b *object) int { return cmp.Compare(a.key, b.key) })
}

// find is where an object is, or would be; with mu held.
func (c *collection) find(key string) (int, bool) {
	return slices.BinarySearchFunc(c.objects, key, func(o *object, key string) int { return cmp.Compare(o.key, key) })
}

// get returns nil if there is none.
func (c *collection) get(key string) *object {
	c.mu.Lock()
	defer c.mu.Unlock()
	if at, found := c.find(key); found {
		return c.objects[at]
	}
	return nil
}

// page returns up to limit objects after the given key, the resource version
// they show, and whether there are more. Zero limit: all.
func (c *collection) page(f filter, after string, limit int) (objects []*object, version int64, more bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	at, found := c.find(after)
	if found {
		at++
	}
	for ; at < len(c.objects); at++ {
		if !f.takes(c.objects[at]) {
			continue
		}
		if limit > 0 && len(objects) == limit {
			return objects, c.cluster.now(), true
		}
		objects = append(objects, c.objects[at])
	}
	return objects, c.cluster.now(), false
}

// snapshot is everything at one moment, and where in the events that is.
func (c *collection) snapshot(f filter) (objects []*object, position int, version int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, o := range c.objects {
		if f.takes(o) {
			objects = append(objects, o)
		}
	}
	return objects, len(c.events), c.cluster.now()
}

// position is where the events after a resource version begin; false if they
// are not known.
func (c *collection) position(version int64) (int, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	at, _ := slices.BinarySearchFunc(c.events, version+1, func(e event, v int64) int { return cmp.Compare(e.object.version, v) })
	return at, version >= c.first
}

// after returns the events from a position on, the resource version that they
// lead to, and what the next one closes.
func (c *collection) after(position int) ([]event, int64, <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.events[position:], c.cluster.now(), c.changed
}

// record adds an event; with mu held.
func (c *collection) record(e event) {
	c.events = append(c.events, e)
	close(c.changed)
	c.changed = make(chan struct{})
}

func (c *collection) create(u *unstructured.Unstructured) (*object, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	at, found := c.find(key(u.GetNamespace(), u.GetName()))
	if found {
		return nil, apierrors.NewAlreadyExists(c.gvr.GroupResource(), u.GetName())
	}
	u.SetUID(types.UID(uuid.NewString()))
	u.SetCreationTimestamp(metav1.NewTime(time.Now()))
	u.SetResourceVersion(format(c.cluster.next()))
	o, err := newObject(u)
	if err != nil {
		return nil, err
	}
	c.objects = slices.Insert(c.objects, at, o)
	c.record(event{kind: watch.Added, object: o})
	return o, nil
}

// replace makes an object what u is. A resource version in there must be the
// present one.
func (c *collection) replace(namespace, name string, u *unstructured.Unstructured) (*object, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	at, found := c.find(key(namespace, name))
	if !found {
		return nil, apierrors.NewNotFound(c.gvr.GroupResource(), name)
	}
	before := c.objects[at]
	if v := u.GetResourceVersion(); v != "" && v != format(before.version) {
		return nil, apierrors.NewConflict(c.gvr.GroupResource(), name, errModified)
	}
	u.SetUID(before.meta.UID)
	u.SetResourceVersion(format(c.cluster.next()))
	o, err := newObject(u)
	if err != nil {
		return nil, err
	}
	c.objects[at] = o
	c.record(event{kind: watch.Modified, object: o, before: before})
	return o, nil
}

// remove deletes an object, at once: nothing here has finalizers.
func (c *collection) remove(namespace, name string, options metav1.DeleteOptions) (*object, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	at, found := c.find(key(namespace, name))
	if !found {
		return nil, apierrors.NewNotFound(c.gvr.GroupResource(), name)
	}
	before := c.objects[at]
	if p := options.Preconditions; p != nil && p.UID != nil && *p.UID != before.meta.UID {
		return nil, apierrors.NewConflict(c.gvr.GroupResource(), name, errOtherUID)
	}
	last, err := before.at(c.cluster.next())
	if err != nil {
		return nil, err
	}
	c.objects = slices.Delete(c.objects, at, at+1)
	c.record(event{kind: watch.Deleted, object: last, before: before})
	return last, nil
}
