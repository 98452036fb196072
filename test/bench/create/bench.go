package main

import (
	"context"
	_ "embed"
	"fmt"
	"net/http"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"
	toolswatch "k8s.io/client-go/tools/watch"

	"github.com/agentcube/agentcube/pkg/sandbox"
	"github.com/agentcube/agentcube/test/system"
)

//go:embed templates.yaml
var templates []byte

const (
	namespace = "default"
	workload  = "bench"
	// poolSize is that of templates.yaml: no wave is larger.
	poolSize = 60
)

// bench is what the measurements share.
type bench struct {
	settings
	system *system.System
	client dynamic.Interface
	api    sandbox.API
	http   *http.Client
}

func newBench(ctx context.Context, s *system.System, o settings) (*bench, error) {
	if err := s.Cluster.Apply(ctx, templates); err != nil {
		return nil, err
	}
	client, err := dynamic.NewForConfig(s.Cluster.Config())
	if err != nil {
		return nil, err
	}
	discoverer, err := discovery.NewDiscoveryClientForConfig(s.Cluster.Config())
	if err != nil {
		return nil, err
	}
	api, err := sandbox.Discover(discoverer)
	if err != nil {
		return nil, err
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = poolSize
	return &bench{settings: o, system: s, client: client, api: api, http: &http.Client{Transport: transport}}, nil
}

// poolFull returns once every sandbox of the pool is ready, so that both sides
// of a comparison start alike.
func (b *bench) poolFull(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	pools := b.client.Resource(b.api.WarmPools()).Namespace(namespace)
	selector := metav1.SingleObject(metav1.ObjectMeta{Name: workload})
	_, err := toolswatch.UntilWithSync(ctx, &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.FieldSelector = selector.FieldSelector
			return pools.List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.FieldSelector = selector.FieldSelector
			return pools.Watch(ctx, o)
		},
	}, &unstructured.Unstructured{}, nil, func(e watch.Event) (bool, error) {
		u, ok := e.Object.(*unstructured.Unstructured)
		if !ok || e.Type == watch.Deleted {
			return false, nil
		}
		ready, _, _ := unstructured.NestedInt64(u.Object, "status", "readyReplicas")
		return ready == poolSize, nil
	})
	if err != nil {
		return fmt.Errorf("waiting for the warm pool to be full: %w", err)
	}
	return nil
}

// quiet returns once only the pool's own pods are left: what was deleted is
// still being cleaned up after its object is gone, at the next one's cost.
func (b *bench) quiet(ctx context.Context) error {
	pods := b.client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "pods"}).Namespace(namespace)
	err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, 2*time.Minute, true, func(ctx context.Context) (bool, error) {
		list, err := pods.List(ctx, metav1.ListOptions{ResourceVersion: "0"})
		if err != nil {
			return false, err
		}
		return len(list.Items) == poolSize, nil
	})
	if err != nil {
		return fmt.Errorf("waiting for what was deleted to be gone: %w", err)
	}
	return nil
}

// wave runs n creates, so many at a time, and returns how long each took and
// all together.
func wave(ctx context.Context, n, atATime int, create func(context.Context) error) ([]time.Duration, time.Duration, error) {
	var (
		mu    sync.Mutex
		took  []time.Duration
		group errgroup.Group
	)
	group.SetLimit(atATime)
	begun := time.Now()
	for range n {
		group.Go(func() error {
			sent := time.Now()
			if err := create(ctx); err != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			took = append(took, time.Since(sent))
			return nil
		})
	}
	err := group.Wait()
	return took, time.Since(begun), err
}
