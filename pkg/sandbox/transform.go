package sandbox

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
)

// cached is what an informer keeps of an object: a pod template has kilobytes,
// and thousands of them fill the memory of a small program.
type cached struct{ Object }

// GetObjectMeta is the little that the informer asks of what it stores: key,
// UID and resource version.
func (c *cached) GetObjectMeta() metav1.Object {
	return &metav1.ObjectMeta{
		Namespace:       c.Ref.Namespace,
		Name:            c.Ref.Name,
		UID:             types.UID(c.Ref.UID),
		ResourceVersion: c.ResourceVersion,
	}
}

// GetObjectKind and DeepCopyObject let a list hold it.
func (c *cached) GetObjectKind() schema.ObjectKind { return schema.EmptyObjectKind }

// DeepCopyObject returns c itself: what is in the cache is never changed.
func (c *cached) DeepCopyObject() runtime.Object { return c }

var (
	_ metav1.ObjectMetaAccessor = (*cached)(nil)
	_ runtime.Object            = (*cached)(nil)
)

// shrink makes a cached of each object on its way into the cache. What comes
// by a watch-list passes twice, so a cached passes through. It never fails: one
// failure would reject the whole list. An object that Parse rejects, as none
// should be, is known by its metadata only.
func shrink(api API) cache.TransformFunc {
	return func(item any) (any, error) {
		u, ok := item.(*unstructured.Unstructured)
		if !ok {
			return item, nil
		}
		object, err := api.Parse(u)
		if err != nil {
			object = parseMetadata(u)
		}
		return &cached{Object: object}, nil
	}
}
