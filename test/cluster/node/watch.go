package node

import (
	"context"
	"errors"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
)

// watch follows the pods until ctx ends. It closes n.ready once it knows those
// that exist.
func (n *Node) watch(ctx context.Context) error {
	client := n.options.Client
	pods := client.CoreV1().Pods(metav1.NamespaceAll)
	source := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return pods.List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return pods.Watch(ctx, o)
		},
	}
	informer := cache.NewSharedInformer(cache.ToListWatcherWithWatchListSemantics(source, client), &corev1.Pod{}, 0)
	if err := informer.SetTransform(slim); err != nil {
		return err
	}
	handler, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { n.observe(ctx, object.(*corev1.Pod)) },
		UpdateFunc: func(_, object any) { n.observe(ctx, object.(*corev1.Pod)) },
		DeleteFunc: func(object any) { n.vanished(object) },
	})
	if err != nil {
		return err
	}
	n.work.Go(func() { informer.RunWithContext(ctx) })
	if cache.WaitForCacheSync(ctx.Done(), handler.HasSynced) {
		close(n.ready)
	}
	<-ctx.Done()
	if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) {
		return cause
	}
	return nil
}

// slim keeps of a pod what this package reads: thousands are kept.
func slim(object any) (any, error) {
	full, ok := object.(*corev1.Pod)
	if !ok {
		return object, nil
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: full.Name, Namespace: full.Namespace, UID: full.UID,
			ResourceVersion: full.ResourceVersion, DeletionTimestamp: full.DeletionTimestamp,
		},
		Spec:   corev1.PodSpec{NodeName: full.Spec.NodeName},
		Status: corev1.PodStatus{Phase: full.Status.Phase},
	}
	for key, value := range full.Annotations {
		if strings.HasPrefix(key, Prefix) {
			if pod.Annotations == nil {
				pod.Annotations = map[string]string{}
			}
			pod.Annotations[key] = value
		}
	}
	for _, c := range full.Spec.Containers {
		pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: c.Name, Image: c.Image, Ports: c.Ports})
	}
	return pod, nil
}

// observe starts a pod that is new to us, and ends one that is being deleted.
func (n *Node) observe(ctx context.Context, object *corev1.Pod) {
	if object.Spec.NodeName != "" && object.Spec.NodeName != n.options.Name {
		return
	}
	n.mu.Lock()
	p := n.pods[object.UID]
	if p == nil {
		p = n.add(ctx, object)
	}
	n.mu.Unlock()
	if object.DeletionTimestamp != nil {
		p.end()
	}
}

// vanished ends a pod whose object is gone, however that was noticed.
func (n *Node) vanished(object any) {
	if tombstone, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object = tombstone.Obj
	}
	gone, ok := object.(*corev1.Pod)
	if !ok {
		return
	}
	n.mu.Lock()
	p := n.pods[gone.UID]
	n.mu.Unlock()
	if p != nil {
		p.end()
	}
}
