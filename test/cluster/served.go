package cluster

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// definition is the part of a CustomResourceDefinition that says what it serves.
type definition struct {
	Spec struct {
		Group string `json:"group"`
		Names struct {
			Plural string `json:"plural"`
		} `json:"names"`
		Versions []struct {
			Name   string `json:"name"`
			Served bool   `json:"served"`
		} `json:"versions"`
	} `json:"spec"`
}

// servedResources lists the resources that definitions will serve.
func servedResources(crds []*unstructured.Unstructured) ([]schema.GroupVersionResource, error) {
	var resources []schema.GroupVersionResource
	for _, crd := range crds {
		var d definition
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(crd.Object, &d); err != nil {
			return nil, fmt.Errorf("reading the definition %s: %w", crd.GetName(), err)
		}
		for _, version := range d.Spec.Versions {
			if version.Served {
				resources = append(resources, schema.GroupVersionResource{
					Group: d.Spec.Group, Version: version.Name, Resource: d.Spec.Names.Plural,
				})
			}
		}
	}
	return resources, nil
}

// missingResources lists the wanted resources that discovery does not show.
func missingResources(want []schema.GroupVersionResource, lists []*metav1.APIResourceList) []schema.GroupVersionResource {
	shown := map[schema.GroupVersionResource]bool{}
	for _, list := range lists {
		version, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			continue
		}
		for _, resource := range list.APIResources {
			shown[version.WithResource(resource.Name)] = true
		}
	}
	return slices.DeleteFunc(slices.Clone(want), func(r schema.GroupVersionResource) bool { return shown[r] })
}
