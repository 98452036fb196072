package workload

import (
	"context"
	"fmt"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	"github.com/agentcube/agentcube/pkg/session"
)

const (
	// readTimeout bounds one direct read, so that an API server that hangs is
	// out of reach and not a caller's deadline.
	readTimeout = 10 * time.Second
	// recheckInterval guards a wait against a watch that has silently stopped.
	recheckInterval = 5 * time.Second
)

// Lister looks templates up.
type Lister struct {
	clock     clock.Clock
	client    dynamic.Interface
	discovery Discovery
	followers map[string]*follower
	waiters   *waiters
}

// NewLister returns a Lister that reads directly until Run fills its caches.
func NewLister(clk clock.Clock, client dynamic.Interface, discovery Discovery, log *zap.Logger) *Lister {
	l := &Lister{
		clock: clk, client: client, discovery: discovery,
		followers: map[string]*follower{}, waiters: newWaiters(),
	}
	for kind, resource := range resources {
		l.followers[kind] = &follower{client: client, resource: resource, transform: transformer(kind), log: log}
	}
	l.followers[session.KindCodeInterpreter].handler = l.waiters.handler()
	return l
}

// Run keeps the caches until ctx ends, and returns nil. Each begins when
// discovery shows its resource; one that is missing holds up nothing.
func (l *Lister) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, f := range l.followers {
		group.Go(func() error { return f.Run(ctx, l.clock, l.discovery) })
	}
	return group.Wait()
}

// HasSynced reports whether the caches that are being kept are full. Nothing
// has to wait for it: a look-up that misses reads directly.
func (l *Lister) HasSynced() bool {
	for _, f := range l.followers {
		if !f.synced() {
			return false
		}
	}
	return true
}

// Get returns the template, from the cache if it is there and of use, else by
// a direct read: one that was applied or mended a moment ago is found. It
// returns ErrNotFound, ErrInvalid, sandbox.ErrUnavailable or
// sandbox.ErrForbidden, wrapped.
func (l *Lister) Get(ctx context.Context, ref session.WorkloadRef) (Workload, error) {
	t, err := l.find(ctx, ref)
	if err != nil {
		return Workload{}, err
	}
	return t.workload.clone(), nil
}

// find returns a template that can be used.
func (l *Lister) find(ctx context.Context, ref session.WorkloadRef) (*template, error) {
	f, known := l.followers[ref.Kind]
	if !known {
		return nil, fmt.Errorf("%s: %w: no such kind", describe(ref), ErrNotFound)
	}
	if cached, ok := f.template(cache.NewObjectName(ref.Namespace, ref.Name)); ok {
		if t, err := usable(cached, ref); err == nil {
			return t, nil
		}
	}
	return l.read(ctx, ref)
}

// read passes the cache by.
func (l *Lister) read(ctx context.Context, ref session.WorkloadRef) (*template, error) {
	if !legal(ref.Namespace) || !legal(ref.Name) {
		return nil, fmt.Errorf("%s: %w: no such name", describe(ref), ErrNotFound)
	}
	bounded, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	obj, err := l.client.Resource(resources[ref.Kind]).Namespace(ref.Namespace).
		Get(bounded, ref.Name, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", describe(ref), translate(ctx, err))
	}
	return usable(parse(ref.Kind, obj), ref)
}

// usable returns t unless it cannot be used. One that is marked for deletion
// counts as gone: what is made from it would be deleted with it.
func usable(t *template, ref session.WorkloadRef) (*template, error) {
	if t.DeletionTimestamp != nil {
		return nil, fmt.Errorf("%s: %w: it is being deleted", describe(ref), ErrNotFound)
	}
	if t.invalid != nil {
		return nil, t.invalid
	}
	return t, nil
}

// legal reports whether the name can stand in a URL; the client refuses
// others with an error that looks like an API server out of reach.
func legal(name string) bool {
	return name != "" && len(content.IsPathSegmentName(name)) == 0
}

// transformer turns what the API server sends into templates. It is called
// again on its own results.
func transformer(kind string) cache.TransformFunc {
	return func(obj any) (any, error) {
		if u, ok := obj.(*unstructured.Unstructured); ok {
			return parse(kind, u), nil
		}
		return obj, nil
	}
}
