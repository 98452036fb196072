// Package clustertest owns a cluster in memory for the tests of the packages
// around it: objects by name with UIDs and resource versions, a watch with its
// cache, and calls that fail, hang or lose their answers as a test chooses.
//
// It knows nothing of sessions: what becomes of an object is for the test to
// say, through the methods that stand for the controllers and for people.
package clustertest

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"github.com/agentcube/agentcube/pkg/sandbox"
	"github.com/agentcube/agentcube/pkg/session"
)

// Cluster is the API server, the controllers' state and the watch of one
// program. Its methods are safe for concurrent use.
type Cluster struct {
	clock clock.PassiveClock

	mu      sync.Mutex
	objects map[session.ObjectRef]sandbox.Object // by name: keys have no UID
	cache   map[session.ObjectRef]sandbox.Object
	pools   map[string]time.Time
	adopted map[string]sandbox.Object // Sandboxes of claims, by namespace/name
	// lifetimes are what objects say of those of their sessions, by UID.
	lifetimes map[string]sandbox.Lifetimes
	counter   int
	frozen    bool
	finalize  bool

	specs    []sandbox.Spec
	calls    []string
	faults   map[string][]func(context.Context) error // before the call
	lost     map[string][]error                       // after it
	down     error
	onCreate func(sandbox.Object)

	subscribers map[session.ObjectRef]map[chan struct{}]struct{}
	handlers    []func(sandbox.Event)
}

// New returns an empty cluster.
func New(clk clock.PassiveClock) *Cluster {
	return &Cluster{
		clock:   clk,
		objects: map[session.ObjectRef]sandbox.Object{}, cache: map[session.ObjectRef]sandbox.Object{},
		lifetimes: map[string]sandbox.Lifetimes{},
		pools:     map[string]time.Time{}, adopted: map[string]sandbox.Object{},
		faults: map[string][]func(context.Context) error{}, lost: map[string][]error{},
		subscribers: map[session.ObjectRef]map[chan struct{}]struct{}{},
	}
}

func named(ref session.ObjectRef) session.ObjectRef {
	ref.UID = ""
	return ref
}

// OnEvent adds a handler of the watch's events.
func (c *Cluster) OnEvent(handle func(sandbox.Event)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.handlers = append(c.handlers, handle)
}

// OnCreate is called with each object that a Create made, after its answer
// was decided: it stands for the controllers.
func (c *Cluster) OnCreate(do func(sandbox.Object)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.onCreate = do
}

// Freeze stops the watch without closing it: the cache stays as it is.
func (c *Cluster) Freeze() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.frozen = true
}

// Finalizers make a deletion leave the object with a deletionTimestamp.
func (c *Cluster) Finalizers() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.finalize = true
}

// Put makes an object by another hand, and returns it as it is kept. A UID is
// given to one that has none.
func (c *Cluster) Put(o sandbox.Object) sandbox.Object {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.store(o)
}

// Edit changes an object by another hand. It panics if there is none: an edit
// of nothing proves nothing.
func (c *Cluster) Edit(ref session.ObjectRef, change func(*sandbox.Object)) sandbox.Object {
	c.mu.Lock()
	defer c.mu.Unlock()
	o, ok := c.objects[named(ref)]
	if !ok {
		panic(fmt.Sprintf("clustertest: no %s to edit", ref))
	}
	change(&o)
	return c.store(o)
}

// Kill takes an object away by another hand, finalizers or not.
func (c *Cluster) Kill(ref session.ObjectRef) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.objects[named(ref)]; !ok {
		panic(fmt.Sprintf("clustertest: no %s to delete", ref))
	}
	c.remove(ref)
}

// SetSandbox says which UID the Sandbox of that name has. Empty: it is gone.
func (c *Cluster) SetSandbox(namespace, name, uid string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.adopted, namespace+"/"+name)
	if uid != "" {
		ref := session.ObjectRef{Kind: session.KindSandbox, Namespace: namespace, Name: name, UID: uid}
		c.adopted[namespace+"/"+name] = sandbox.Object{Ref: ref, SandboxName: name, SandboxUID: uid, Ready: true}
	}
}

// EditSandbox changes the Sandbox of a claim, which bears no label of ours and
// is not watched.
func (c *Cluster) EditSandbox(namespace, name string, change func(*sandbox.Object)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	o, ok := c.adopted[namespace+"/"+name]
	if !ok {
		panic(fmt.Sprintf("clustertest: no sandbox %s/%s to edit", namespace, name))
	}
	change(&o)
	c.adopted[namespace+"/"+name] = o
}

// SetPool says when the pool of that name was created. Zero: there is none.
func (c *Cluster) SetPool(namespace, name string, created time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pools[namespace+"/"+name] = created
}

// Objects are all that exist, in the order of their names.
func (c *Cluster) Objects() []sandbox.Object {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := slices.Collect(maps.Values(c.objects))
	slices.SortFunc(all, func(a, b sandbox.Object) int { return compare(a.Ref.String(), b.Ref.String()) })
	return all
}

func compare(a, b string) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	default:
		return 0
	}
}

// Specs are those that Create was called with.
func (c *Cluster) Specs() []sandbox.Spec {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.specs)
}

// Calls is how often a method of the API server was called.
func (c *Cluster) Calls(method string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := 0
	for _, call := range c.calls {
		if call == method {
			n++
		}
	}
	return n
}

// Subscribers is how many subscriptions were not ended.
func (c *Cluster) Subscribers() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := 0
	for _, subscribers := range c.subscribers {
		n += len(subscribers)
	}
	return n
}

// store writes an object and tells the watch. It needs mu.
func (c *Cluster) store(o sandbox.Object) sandbox.Object {
	if o.Ref.UID == "" {
		o.Ref.UID = c.next("uid-")
	}
	o.ResourceVersion = c.next("")
	if o.CreatedAt.IsZero() {
		o.CreatedAt = c.clock.Now()
	}
	c.objects[named(o.Ref)] = o
	c.observe(o)
	return o
}

func (c *Cluster) remove(ref session.ObjectRef) {
	o := c.objects[named(ref)]
	delete(c.objects, named(ref))
	o.SessionID = "" // for the watch: it is there no more
	c.observe(o)
}

func (c *Cluster) next(prefix string) string {
	c.counter++
	return prefix + strconv.Itoa(c.counter)
}
