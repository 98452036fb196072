package main

import (
	"context"
	"fmt"
	"sync"

	"github.com/google/uuid"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"

	"github.com/agentcube/agentcube/pkg/sandbox"
	"github.com/agentcube/agentcube/pkg/session"
)

const floorLabel = "bench.agentcube.dev/floor"

// floor creates objects as any client could, and waits for the watch to show
// them ready: nothing that goes through the cluster can be faster.
type floor struct {
	bench    *bench
	kind     string
	resource schema.GroupVersionResource

	mu      sync.Mutex
	waiting map[string]chan struct{}
}

func (b *bench) newFloor(ctx context.Context, kind string) (*floor, error) {
	f := &floor{bench: b, kind: kind, resource: b.api.Claims(), waiting: map[string]chan struct{}{}}
	if kind == session.KindSandbox {
		f.resource = b.api.Sandboxes()
	}
	// An informer, since the API server closes the watch of a client that is
	// too slow, as one is on a busy machine.
	informer := dynamicinformer.NewFilteredDynamicInformer(b.client, f.resource, namespace, 0, cache.Indexers{},
		func(o *metav1.ListOptions) { o.LabelSelector = floorLabel }).Informer()
	if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    f.see,
		UpdateFunc: func(_, object any) { f.see(object) },
	}); err != nil {
		return nil, err
	}
	go informer.RunWithContext(ctx)
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		return nil, fmt.Errorf("watching %s: %w", f.resource.Resource, ctx.Err())
	}
	return f, nil
}

// see wakes whoever waits for an object that is ready.
func (f *floor) see(o any) {
	u, ok := o.(*unstructured.Unstructured)
	if !ok {
		return
	}
	object, err := f.bench.api.Parse(u)
	if err != nil || !object.Ready || len(object.Addresses) == 0 {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if ready := f.waiting[object.Ref.Name]; ready != nil {
		close(ready)
		delete(f.waiting, object.Ref.Name)
	}
}

func (f *floor) create(ctx context.Context) error {
	name := "floor-" + uuid.NewString()[:8]
	ready := make(chan struct{})
	f.mu.Lock()
	f.waiting[name] = ready
	f.mu.Unlock()
	object := f.object(name)
	object.SetLabels(map[string]string{floorLabel: "yes"})
	if _, err := f.bench.client.Resource(f.resource).Namespace(namespace).Create(ctx, object, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("creating %s: %w", name, err)
	}
	select {
	case <-ready:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("waiting for %s: %w", name, ctx.Err())
	}
}

func (f *floor) object(name string) *unstructured.Unstructured {
	spec := sandbox.Spec{
		Object:   session.ObjectRef{Kind: f.kind, Namespace: namespace, Name: name},
		Workload: session.WorkloadRef{Namespace: namespace, Name: workload},
		Pod: sandbox.PodTemplate{Spec: map[string]any{"containers": []any{map[string]any{
			"name": "echo", "image": "echo",
			"ports": []any{map[string]any{"containerPort": int64(8080)}},
		}}}},
	}
	if f.kind == session.KindSandbox {
		return f.bench.api.BuildSandbox(spec)
	}
	object := f.bench.api.BuildClaim(spec)
	object.SetOwnerReferences(nil)
	return object
}

// clear deletes what was created and waits until it is gone.
func (f *floor) clear(ctx context.Context) error {
	return f.bench.clear(ctx, f.resource, floorLabel)
}

// clear deletes the objects of a label and waits until they are gone.
func (b *bench) clear(ctx context.Context, r schema.GroupVersionResource, selector string) error {
	objects := b.client.Resource(r).Namespace(namespace)
	list, err := objects.List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return err
	}
	events, err := objects.Watch(ctx, metav1.ListOptions{LabelSelector: selector, ResourceVersion: list.GetResourceVersion()})
	if err != nil {
		return err
	}
	defer events.Stop()
	if err := objects.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: selector}); err != nil {
		return err
	}
	for left := len(list.Items); left > 0; {
		select {
		case e, open := <-events.ResultChan():
			if !open {
				return fmt.Errorf("the watch for deletions ended with %d left", left)
			}
			if e.Type == watch.Deleted {
				left--
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}
