package workload

import (
	"context"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
)

// discoveryInterval is how often the cluster is asked for a resource that it
// does not serve. Once it serves the resource, it is asked no more.
const discoveryInterval = 10 * time.Second

// Discovery says which resources the cluster serves.
// discovery.DiscoveryInterface fits.
type Discovery interface {
	ServerResourcesForGroupVersion(groupVersion string) (*metav1.APIResourceList, error)
}

// follower keeps a cache of one resource, for as long as the cluster serves
// it. A resource that is not served costs one question per discoveryInterval
// and no log lines.
type follower struct {
	client    dynamic.Interface
	resource  schema.GroupVersionResource
	transform cache.TransformFunc
	// handler may be nil.
	handler cache.ResourceEventHandler
	log     *zap.Logger
	// informer is nil while the resource is not served.
	informer atomic.Pointer[cache.SharedIndexInformer]
}

// Run follows the resource from when discovery shows it, and anew when it was
// away, until ctx ends.
func (f *follower) Run(ctx context.Context, clk clock.Clock, discovery Discovery) error {
	for ctx.Err() == nil {
		if served(discovery, f.resource) {
			f.follow(ctx)
		}
		pause(ctx, clk, discoveryInterval)
	}
	return nil
}

// follow returns when ctx ends or the cluster no longer serves the resource;
// what was cached is gone then, as are the objects.
func (f *follower) follow(ctx context.Context) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	informer := dynamicinformer.NewFilteredDynamicInformer(
		f.client, f.resource, metav1.NamespaceAll, 0, cache.Indexers{}, nil).Informer()
	// The setters fail only on an informer that runs already.
	_ = informer.SetTransform(f.transform)
	_ = informer.SetWatchErrorHandlerWithContext(func(ctx context.Context, r *cache.Reflector, err error) {
		if apierrors.IsNotFound(err) {
			stop()
			return
		}
		cache.DefaultWatchErrorHandler(ctx, r, err)
	})
	if f.handler != nil {
		_, _ = informer.AddEventHandler(f.handler)
	}
	f.informer.Store(&informer)
	defer f.informer.Store(nil)
	f.log.Info("following", zap.Stringer("resource", f.resource))
	informer.RunWithContext(ctx)
	f.log.Info("no longer following", zap.Stringer("resource", f.resource))
}

// get is what the cache holds of the object: what transform made of it.
func (f *follower) get(name cache.ObjectName) (metav1.Object, bool) {
	informer := f.informer.Load()
	if informer == nil {
		return nil, false
	}
	cached, _, _ := (*informer).GetStore().GetByKey(name.String())
	obj, found := cached.(metav1.Object)
	return obj, found
}

// template is get for a follower of templates.
func (f *follower) template(name cache.ObjectName) (*template, bool) {
	obj, _ := f.get(name)
	t, found := obj.(*template)
	return t, found
}

// list is all that the cache holds.
func (f *follower) list() []any {
	informer := f.informer.Load()
	if informer == nil {
		return nil
	}
	return (*informer).GetStore().List()
}

// synced reports whether the cache is full, or there is none to fill.
func (f *follower) synced() bool {
	informer := f.informer.Load()
	return informer == nil || (*informer).HasSynced()
}

// served asks the cluster. No answer means no: it is asked again.
func served(discovery Discovery, resource schema.GroupVersionResource) bool {
	list, err := discovery.ServerResourcesForGroupVersion(resource.GroupVersion().String())
	if err != nil {
		return false
	}
	for i := range list.APIResources {
		if list.APIResources[i].Name == resource.Resource {
			return true
		}
	}
	return false
}

// pause waits, for d or until ctx ends.
func pause(ctx context.Context, clk clock.Clock, d time.Duration) {
	timer := clk.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C():
	case <-ctx.Done():
	}
}
