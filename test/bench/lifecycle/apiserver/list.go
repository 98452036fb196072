package main

import (
	"bytes"
	"encoding/base64"
	"net/http"
	"net/url"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
)

// list answers a page, or, with ?watch=, streams.
func (h *handler) list(w http.ResponseWriter, r *http.Request, c *collection) error {
	query := r.URL.Query()
	selected, err := selection(r, query)
	if err != nil {
		return err
	}
	if watching, _ := strconv.ParseBool(query.Get("watch")); watching {
		return h.watch(w, r, c, selected)
	}
	after, err := base64.RawURLEncoding.DecodeString(query.Get("continue"))
	if err != nil {
		return apierrors.NewBadRequest("continue key is not valid")
	}
	// Like the API server: a list at "any" version comes from memory, in one.
	limit, _ := strconv.Atoi(query.Get("limit"))
	if query.Get("resourceVersion") == "0" {
		limit = 0
	}
	objects, version, more := c.page(selected, string(after), limit)
	meta := metav1.ListMeta{ResourceVersion: format(version)}
	if more {
		meta.Continue = base64.RawURLEncoding.EncodeToString([]byte(objects[len(objects)-1].key))
	}
	if asMetadata(r) {
		return writeMetadata(w, r, objects, meta)
	}
	writeBody(w, http.StatusOK, listBody(c, objects, meta))
	return nil
}

// selection is what a request's path and query choose.
func selection(r *http.Request, query url.Values) (filter, error) {
	selector, err := labels.Parse(query.Get("labelSelector"))
	if err != nil {
		return filter{}, apierrors.NewBadRequest(err.Error())
	}
	byField, err := fields.ParseSelector(query.Get("fieldSelector"))
	if err != nil {
		return filter{}, apierrors.NewBadRequest(err.Error())
	}
	f := filter{namespace: r.PathValue("namespace"), labels: selector}
	for _, field := range byField.Requirements() {
		if field.Field != "metadata.name" {
			return filter{}, apierrors.NewBadRequest("field selector " + field.Field + " is not served")
		}
		f.name = field.Value
	}
	return f, nil
}

// listBody joins what is stored encoded.
func listBody(c *collection, objects []*object, meta metav1.ListMeta) []byte {
	var b bytes.Buffer
	b.WriteString(`{"kind":"` + c.kind + `List","apiVersion":"` + c.gvr.GroupVersion().String() +
		`","metadata":{"resourceVersion":"` + meta.ResourceVersion + `","continue":"` + meta.Continue + `"},"items":[`)
	for i, o := range objects {
		if i > 0 {
			b.WriteByte(',')
		}
		b.Write(o.body)
	}
	b.WriteString("]}")
	return b.Bytes()
}

func writeMetadata(w http.ResponseWriter, r *http.Request, objects []*object, meta metav1.ListMeta) error {
	list := &metav1.PartialObjectMetadataList{
		TypeMeta: metav1.TypeMeta{Kind: "PartialObjectMetadataList", APIVersion: "meta.k8s.io/v1"},
		ListMeta: meta,
		Items:    make([]metav1.PartialObjectMetadata, 0, len(objects)),
	}
	for _, o := range objects {
		list.Items = append(list.Items, *o.meta)
	}
	if !asProtobuf(r) {
		writeJSON(w, http.StatusOK, list)
		return nil
	}
	var body bytes.Buffer
	// Encoding needs no scheme: the list names its own kind.
	encoder := protobuf.NewSerializer(runtime.NewScheme(), runtime.NewScheme())
	if err := encoder.Encode(list, &body); err != nil {
		return err
	}
	w.Header().Set("Content-Type", typeProtobuf)
	_, _ = w.Write(body.Bytes()) // the client may be gone
	return nil
}
