package cluster

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
)

const (
	fieldManager = "agentcube-development-cluster"
	// servedInterval is how often discovery is asked for new resources, and
	// servedWithin how long they may take to show.
	servedInterval = 25 * time.Millisecond
	servedWithin   = 30 * time.Second
)

var crdKind = schema.GroupKind{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}

// applier applies objects of any kind by server-side apply.
type applier struct {
	client    dynamic.Interface
	discovery discovery.DiscoveryInterface
	mapper    *restmapper.DeferredDiscoveryRESTMapper

	mu        sync.Mutex // guards installed, and mapper from resets in use
	installed []schema.GroupVersionResource
}

func newApplier(config *rest.Config) (*applier, error) {
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	disco, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, err
	}
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(disco))
	return &applier{client: client, discovery: disco, mapper: mapper}, nil
}

// Apply applies the objects of a stream of YAML documents, of any kinds, in their
// order, and takes over fields that others set. It returns once the custom
// resource definitions among them are served.
func (c *Cluster) Apply(ctx context.Context, manifests []byte) error {
	objects, err := parseManifests(manifests)
	if err != nil {
		return fmt.Errorf("applying: %w", err)
	}
	return c.applier.apply(ctx, objects)
}

// ApplyFile applies a file of YAML documents, or the .yaml and .yml files of a
// folder in the order of their names, as Apply does.
func (c *Cluster) ApplyFile(ctx context.Context, path string) error {
	objects, err := readManifests(path)
	if err != nil {
		return fmt.Errorf("applying %s: %w", path, err)
	}
	return c.applier.apply(ctx, objects)
}

// apply sends the definitions first and all at once, since each keeps the API
// server busy for a while; then the rest one by one.
func (a *applier) apply(ctx context.Context, objects []*unstructured.Unstructured) error {
	var crds, rest []*unstructured.Unstructured
	for _, object := range objects {
		if object.GroupVersionKind().GroupKind() == crdKind {
			crds = append(crds, object)
			continue
		}
		rest = append(rest, object)
	}
	if err := a.applyCRDs(ctx, crds); err != nil {
		return err
	}
	for _, object := range rest {
		if err := a.applyOne(ctx, object); err != nil {
			return err
		}
	}
	return nil
}

func (a *applier) applyCRDs(ctx context.Context, crds []*unstructured.Unstructured) error {
	if len(crds) == 0 {
		return nil
	}
	applies := make([]func() error, len(crds))
	for i, crd := range crds {
		applies[i] = func() error { return a.applyOne(ctx, crd) }
	}
	if err := inParallel(applies...); err != nil {
		return err
	}
	return a.waitServed(ctx, crds)
}

func (a *applier) applyOne(ctx context.Context, object *unstructured.Unstructured) error {
	what := fmt.Sprintf("applying %s %s", object.GetKind(), object.GetName())
	mapping, err := a.mapping(object.GroupVersionKind())
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	var client dynamic.ResourceInterface = a.client.Resource(mapping.Resource)
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
		namespace := object.GetNamespace()
		if namespace == "" {
			namespace = metav1.NamespaceDefault
		}
		client = a.client.Resource(mapping.Resource).Namespace(namespace)
	}
	options := metav1.ApplyOptions{FieldManager: fieldManager, Force: true}
	if _, err := client.Apply(ctx, object.GetName(), object, options); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// mapping finds the resource of a kind. A kind that is not known may be new.
func (a *applier) mapping(kind schema.GroupVersionKind) (*meta.RESTMapping, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	mapping, err := a.mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if meta.IsNoMatchError(err) {
		a.mapper.Reset()
		mapping, err = a.mapper.RESTMapping(kind.GroupKind(), kind.Version)
	}
	return mapping, err
}

// waitServed returns once discovery shows every served version of the
// definitions; discovery shows only what is established.
func (a *applier) waitServed(ctx context.Context, crds []*unstructured.Unstructured) error {
	want, err := servedResources(crds)
	if err != nil {
		return err
	}
	a.mu.Lock()
	a.installed = append(a.installed, want...)
	a.mu.Unlock()
	var missing error
	err = wait.PollUntilContextTimeout(ctx, servedInterval, servedWithin, true, func(context.Context) (bool, error) {
		missing = a.served()
		return missing == nil, nil
	})
	if err != nil {
		return fmt.Errorf("waiting for custom resources to be served: %w: %w", err, missing)
	}
	return nil
}

// served tells whether discovery shows every custom resource that was installed.
func (a *applier) served() error {
	a.mu.Lock()
	want := slices.Clone(a.installed)
	a.mu.Unlock()
	// An error means that some group does not answer; the others count.
	_, lists, _ := a.discovery.ServerGroupsAndResources()
	if missing := missingResources(want, lists); len(missing) > 0 {
		return fmt.Errorf("discovery does not show %v", missing)
	}
	return nil
}
