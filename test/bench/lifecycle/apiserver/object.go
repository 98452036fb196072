package main

import (
	"encoding/json"
	"fmt"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
)

// object is one stored object, ready to be sent. It never changes.
type object struct {
	// key orders a list: namespace/name.
	key             string
	namespace, name string
	labels          labels.Set
	version         int64
	body            []byte
	meta            *metav1.PartialObjectMetadata
}

func newObject(u *unstructured.Unstructured) (*object, error) {
	body, err := json.Marshal(u.Object)
	if err != nil {
		return nil, err
	}
	meta := &metav1.PartialObjectMetadata{}
	if err := json.Unmarshal(body, meta); err != nil {
		return nil, fmt.Errorf("reading the metadata of %s: %w", u.GetName(), err)
	}
	meta.TypeMeta = metav1.TypeMeta{Kind: "PartialObjectMetadata", APIVersion: "meta.k8s.io/v1"}
	version, err := strconv.ParseInt(u.GetResourceVersion(), 10, 64)
	if err != nil {
		return nil, fmt.Errorf("%s has no resource version: %w", u.GetName(), err)
	}
	return &object{
		key: key(u.GetNamespace(), u.GetName()), namespace: u.GetNamespace(), name: u.GetName(),
		labels: u.GetLabels(), version: version, body: body, meta: meta,
	}, nil
}

func key(namespace, name string) string { return namespace + "/" + name }

// at is the object with another resource version: a deletion is an event of its
// own.
func (o *object) at(version int64) (*object, error) {
	u := &unstructured.Unstructured{}
	if err := json.Unmarshal(o.body, &u.Object); err != nil {
		return nil, err
	}
	u.SetResourceVersion(format(version))
	return newObject(u)
}

// metadata is the object without spec and status.
func (o *object) metadata() ([]byte, error) { return json.Marshal(o.meta) }

// filter selects objects of a list or watch.
type filter struct {
	namespace, name string // empty: any
	labels          labels.Selector
}

func (f filter) takes(o *object) bool {
	return (f.namespace == "" || f.namespace == o.namespace) &&
		(f.name == "" || f.name == o.name) && f.labels.Matches(o.labels)
}
