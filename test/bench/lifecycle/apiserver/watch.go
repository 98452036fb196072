package main

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/watch"
)

// bookmarkPeriod is about that of the API server.
const bookmarkPeriod = time.Minute

// stream is one watch that is being answered.
type stream struct {
	collection *collection
	filter     filter
	metadata   bool
	bookmarks  bool
	w          http.ResponseWriter
	position   int // in the events of the collection
}

func (h *handler) watch(w http.ResponseWriter, r *http.Request, c *collection, f filter) error {
	query := r.URL.Query()
	bookmarks, _ := strconv.ParseBool(query.Get("allowWatchBookmarks"))
	s := &stream{collection: c, filter: f, metadata: asMetadata(r), bookmarks: bookmarks, w: w}
	initial, err := h.initial(query)
	if err != nil {
		return err
	}
	ctx := r.Context()
	if seconds, _ := strconv.Atoi(query.Get("timeoutSeconds")); seconds > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Duration(seconds)*time.Second)
		defer cancel()
	}
	version := query.Get("resourceVersion")
	if !initial && version != "" && version != "0" {
		from, err := strconv.ParseInt(version, 10, 64)
		if err != nil {
			return apierrors.NewBadRequest("resourceVersion: " + err.Error())
		}
		position, known := c.position(from)
		if !known {
			return apierrors.NewResourceExpired("too old resource version: " + version)
		}
		s.position = position
		s.begin()
		s.follow(ctx)
		return nil
	}
	s.begin()
	if s.list(initial) == nil {
		s.follow(ctx)
	}
	return nil
}

// initial reports whether the watch is to begin with the whole list and say
// where that ends, by the rules of the API server (ValidateListOptions in
// k8s.io/apimachinery/pkg/apis/meta/internalversion/validation).
func (h *handler) initial(query url.Values) (bool, error) {
	wanted := query.Get("sendInitialEvents")
	if wanted == "" {
		return false, nil
	}
	kind := schema.GroupKind{Group: "meta.k8s.io", Kind: "ListOptions"}
	if !h.watchList {
		return false, apierrors.NewInvalid(kind, "", field.ErrorList{field.Forbidden(field.NewPath("sendInitialEvents"),
			"sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled")})
	}
	if query.Get("resourceVersionMatch") != string(metav1.ResourceVersionMatchNotOlderThan) {
		return false, apierrors.NewInvalid(kind, "", field.ErrorList{field.Forbidden(field.NewPath("resourceVersionMatch"),
			"sendInitialEvents requires setting resourceVersionMatch to NotOlderThan")})
	}
	return strconv.ParseBool(wanted)
}

func (s *stream) begin() {
	s.w.Header().Set("Content-Type", typeJSON)
	s.w.WriteHeader(http.StatusOK)
	s.flush()
}

func (s *stream) flush() { _ = http.NewResponseController(s.w).Flush() } // a client that is gone is noticed by the write

// list sends everything there is. end: and says that it has.
func (s *stream) list(end bool) error {
	objects, position, version := s.collection.snapshot(s.filter)
	s.position = position
	for _, o := range objects {
		if err := s.send(watch.Added, o); err != nil {
			return err
		}
	}
	if !end {
		s.flush()
		return nil
	}
	return s.bookmark(version, `,"annotations":{"`+metav1.InitialEventsAnnotationKey+`":"true"}`)
}

// follow sends what happens until the client goes or the time is over.
func (s *stream) follow(ctx context.Context) {
	ticker := time.NewTicker(bookmarkPeriod)
	defer ticker.Stop()
	for {
		events, version, changed := s.collection.after(s.position)
		for _, e := range events {
			s.position++
			if s.event(e) != nil {
				return
			}
		}
		if len(events) > 0 {
			s.flush()
		}
		select {
		case <-ctx.Done():
			return
		case <-changed:
		case <-ticker.C:
			if s.bookmarks && s.bookmark(version, "") != nil {
				return
			}
		}
	}
}

// event sends a change as a client sees it that selects: what leaves the
// selection is deleted to it.
func (s *stream) event(e event) error {
	takes := s.filter.takes(e.object)
	took := e.before != nil && s.filter.takes(e.before)
	switch {
	case e.kind == watch.Deleted && took, took && !takes:
		return s.send(watch.Deleted, e.object)
	case takes && took:
		return s.send(watch.Modified, e.object)
	case takes && e.kind != watch.Deleted:
		return s.send(watch.Added, e.object)
	default:
		return nil
	}
}

func (s *stream) send(kind watch.EventType, o *object) error {
	body := o.body
	if s.metadata {
		var err error
		if body, err = o.metadata(); err != nil {
			return err
		}
	}
	return s.write(`{"type":"`+string(kind)+`","object":`, string(body), "}\n")
}

func (s *stream) bookmark(version int64, extra string) error {
	kind, api := s.collection.kind, s.collection.gvr.GroupVersion().String()
	if s.metadata {
		kind, api = "PartialObjectMetadata", "meta.k8s.io/v1"
	}
	defer s.flush()
	return s.write(`{"type":"BOOKMARK","object":{"kind":"`+kind+`","apiVersion":"`+api+
		`","metadata":{"resourceVersion":"`+format(version)+`"`+extra, "}}}\n")
}

func (s *stream) write(parts ...string) error {
	for _, part := range parts {
		if _, err := s.w.Write([]byte(part)); err != nil {
			return err
		}
	}
	return nil
}
