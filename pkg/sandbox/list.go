package sandbox

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"
)

// watchedPage is how many whole objects one call lists.
const watchedPage = 500

// listShrunk lists the objects of an informer in pages, and keeps of each what
// the cache keeps. It serves where the API server does not stream first lists:
// an informer then asks for all objects of any version, which come in one
// answer, and a hundred thousand of them take gigabytes.
func listShrunk(ctx context.Context, objects dynamic.ResourceInterface, options metav1.ListOptions, shrink cache.TransformFunc) (runtime.Object, error) {
	// A limit is ignored for a list of any version. The latest one will do.
	options.ResourceVersion, options.ResourceVersionMatch = "", ""
	options.Limit = watchedPage
	all := &internalversion.List{}
	for {
		page, err := objects.List(ctx, options)
		if err != nil {
			return nil, err
		}
		for i := range page.Items {
			item, err := shrink(&page.Items[i])
			if err != nil {
				return nil, err
			}
			object, ok := item.(runtime.Object)
			if !ok {
				return nil, fmt.Errorf("listing: %T is no object", item)
			}
			all.Items = append(all.Items, object)
		}
		all.ResourceVersion = page.GetResourceVersion()
		if options.Continue = page.GetContinue(); options.Continue == "" {
			return all, nil
		}
	}
}
