package main

import (
	"strconv"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/agentcube/agentcube/test/bench/lifecycle/fleet"
)

// cluster is everything that is stored.
type cluster struct {
	collections map[schema.GroupVersionResource]*collection // fixed at construction

	mu      sync.Mutex
	version int64 // the last resource version given; guarded by mu
}

func newCluster(version int64) *cluster {
	c := &cluster{version: version, collections: map[schema.GroupVersionResource]*collection{}}
	for gvr, kind := range kinds {
		c.collections[gvr] = newCollection(gvr, kind, c)
	}
	return c
}

// next is a new resource version, to be called with the lock of the collection
// that takes it: events of one collection are in order.
func (c *cluster) next() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.version++
	return c.version
}

// now is the last resource version given.
func (c *cluster) now() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.version
}

// load fills the cluster with the objects of a fleet.
func (c *cluster) load(f fleet.Fleet) error {
	for i := range f.Size {
		add := map[schema.GroupVersionResource]*unstructured.Unstructured{sandboxes: f.Object(i)}
		if fleet.Pooled(i) {
			add = map[schema.GroupVersionResource]*unstructured.Unstructured{claims: f.Object(i), sandboxes: f.Adopted(i)}
		}
		for gvr, u := range add {
			o, err := newObject(u)
			if err != nil {
				return err
			}
			c.collections[gvr].load(o)
		}
	}
	for _, collection := range c.collections {
		collection.sort()
	}
	return nil
}

func format(version int64) string { return strconv.FormatInt(version, 10) }
