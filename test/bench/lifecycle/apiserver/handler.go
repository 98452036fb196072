package main

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
)

var (
	errModified = errors.New("the object has been modified; please apply your changes to the latest version and try again")
	errOtherUID = errors.New("Precondition failed: UID in precondition does not match") //nolint:staticcheck // as the API server writes it
)

// handler serves the API of a cluster.
type handler struct {
	cluster   *cluster
	watchList bool
}

// action answers one request about a collection. Its error becomes a Status.
type action func(w http.ResponseWriter, r *http.Request, c *collection) error

func newHandler(c *cluster, watchList bool) http.Handler {
	h := &handler{cluster: c, watchList: watchList}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /version", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, map[string]string{"major": "1", "minor": "36", "gitVersion": "v1.36.3"})
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") })
	mux.HandleFunc("GET /api", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, metav1.APIVersions{
			TypeMeta: metav1.TypeMeta{Kind: "APIVersions"}, Versions: []string{"v1"},
		})
	})
	mux.HandleFunc("GET /apis", func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, http.StatusOK, groups()) })
	for _, prefix := range []string{"/api/{version}", "/apis/{group}/{version}"} {
		mux.HandleFunc("GET "+prefix, discover)
		mux.HandleFunc("GET "+prefix+"/{resource}", h.on(h.list))
		collection := prefix + "/namespaces/{namespace}/{resource}"
		mux.HandleFunc("GET "+collection, h.on(h.list))
		mux.HandleFunc("POST "+collection, h.on(create))
		object := collection + "/{name}"
		mux.HandleFunc("GET "+object, h.on(get))
		mux.HandleFunc("PUT "+object, h.on(update))
		mux.HandleFunc("DELETE "+object, h.on(remove))
	}
	return mux
}

func discover(w http.ResponseWriter, r *http.Request) {
	gv := schema.GroupVersion{Group: r.PathValue("group"), Version: r.PathValue("version")}
	list, served := discovered(gv)
	if !served {
		writeError(w, apierrors.NewNotFound(schema.GroupResource{}, gv.String()))
		return
	}
	writeJSON(w, http.StatusOK, list)
}

// on finds the collection that the path names.
func (h *handler) on(do action) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		gvr := schema.GroupVersionResource{
			Group: r.PathValue("group"), Version: r.PathValue("version"), Resource: r.PathValue("resource"),
		}
		c, served := h.cluster.collections[gvr]
		if !served {
			writeError(w, apierrors.NewNotFound(gvr.GroupResource(), r.PathValue("name")))
			return
		}
		if err := do(w, r, c); err != nil {
			writeError(w, err)
		}
	}
}

func get(w http.ResponseWriter, r *http.Request, c *collection) error {
	o := c.get(key(r.PathValue("namespace"), r.PathValue("name")))
	if o == nil {
		return apierrors.NewNotFound(c.gvr.GroupResource(), r.PathValue("name"))
	}
	body := o.body
	if asMetadata(r) {
		var err error
		if body, err = o.metadata(); err != nil {
			return err
		}
	}
	writeBody(w, http.StatusOK, body)
	return nil
}

func create(w http.ResponseWriter, r *http.Request, c *collection) error {
	u, err := readObject(r)
	if err != nil {
		return err
	}
	u.SetNamespace(r.PathValue("namespace"))
	o, err := c.create(u)
	if err != nil {
		return err
	}
	writeBody(w, http.StatusCreated, o.body)
	return nil
}

func update(w http.ResponseWriter, r *http.Request, c *collection) error {
	u, err := readObject(r)
	if err != nil {
		return err
	}
	o, err := c.replace(r.PathValue("namespace"), r.PathValue("name"), u)
	if err != nil {
		return err
	}
	writeBody(w, http.StatusOK, o.body)
	return nil
}

func remove(w http.ResponseWriter, r *http.Request, c *collection) error {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	var options metav1.DeleteOptions
	if len(body) > 0 {
		if err := json.Unmarshal(body, &options); err != nil {
			return apierrors.NewBadRequest(err.Error())
		}
	}
	o, err := c.remove(r.PathValue("namespace"), r.PathValue("name"), options)
	if err != nil {
		return err
	}
	writeBody(w, http.StatusOK, o.body)
	return nil
}

// readObject reads a body: the typed clients send protobuf.
func readObject(r *http.Request) (*unstructured.Unstructured, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	if r.Header.Get("Content-Type") == typeProtobuf {
		if body, err = toJSON(body); err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
	}
	u := &unstructured.Unstructured{}
	if err := u.UnmarshalJSON(body); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	return u, nil
}

func toJSON(protobuf []byte) ([]byte, error) {
	typed, kind, err := scheme.Codecs.UniversalDeserializer().Decode(protobuf, nil, nil)
	if err != nil {
		return nil, err
	}
	typed.GetObjectKind().SetGroupVersionKind(*kind)
	return json.Marshal(typed)
}
