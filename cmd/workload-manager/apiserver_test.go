package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"

	"k8s.io/client-go/kubernetes/scheme"
)

const (
	coreAPI       = "/apis/agents.x-k8s.io/v1beta1"
	extensionsAPI = "/apis/extensions.agents.x-k8s.io/v1beta1"
	templatesAPI  = "/apis/runtime.agentcube.volcano.sh/v1alpha1"
	leasePath     = "/apis/coordination.k8s.io/v1/namespaces/default/leases/" + leaseName
)

type object = map[string]any

// apiServer is as much of one as the program needs: objects by their path,
// watches, and the discovery of agent-sandbox.
type apiServer struct {
	created chan string // the path of each Sandbox

	mu      sync.Mutex
	served  bool // agent-sandbox
	version int
	objects map[string]object
	watches map[chan object]string // what is watched: a path without a namespace
	ready   bool                   // Sandboxes become ready at once
	before  func(*http.Request)    // a call does its work after this
	calls   int
	events  []string // in order
}

func newAPIServer() *apiServer {
	return &apiServer{
		served: true, ready: true, created: make(chan string, 10),
		objects: map[string]object{}, watches: map[chan object]string{},
	}
}

// put stores a template that listens on the port.
func (s *apiServer) put(name string, port int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.objects[templatesAPI+"/namespaces/default/agentruntimes/"+name] = object{
		"apiVersion": "runtime.agentcube.volcano.sh/v1alpha1", "kind": "AgentRuntime",
		"metadata": object{"namespace": "default", "name": name, "uid": "u-" + name, "resourceVersion": "1"},
		"spec": object{
			"targetPort":  []any{object{"pathPrefix": "/", "port": port, "protocol": "HTTP"}},
			"podTemplate": object{"spec": object{"containers": []any{object{"name": "c", "image": "i"}}}},
		},
	}
}

func (s *apiServer) set(change func(*apiServer)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(s)
}

// happened is every event so far, in order.
func (s *apiServer) happened() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.events)
}

// sandboxes are the paths of those there are.
func (s *apiServer) sandboxes() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []string
	for path := range maps.Keys(s.objects) {
		if strings.HasPrefix(path, coreAPI) {
			found = append(found, path)
		}
	}
	return found
}

func (s *apiServer) leaseHolder() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	spec, _ := s.objects[leasePath]["spec"].(object)
	holder, _ := spec["holderIdentity"].(string)
	return holder
}

// makeReady lets what waits become ready.
func (s *apiServer) makeReady(path string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.store("MODIFIED", path, readySandbox(s.objects[path]))
}

func readySandbox(o object) object {
	o = maps.Clone(o)
	o["status"] = object{
		"podIPs":     []any{"127.0.0.1"},
		"conditions": []any{object{"type": "Ready", "status": "True", "reason": "DependenciesReady"}},
	}
	return o
}

func (s *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.calls++
	before := s.before
	s.mu.Unlock()
	if before != nil {
		before(r)
	}
	w.Header().Set("Content-Type", "application/json")
	_, named := s.object(r.URL.Path)
	switch {
	case r.URL.Path == coreAPI, r.URL.Path == extensionsAPI:
		s.discover(w)
	case r.URL.Query().Get("sendInitialEvents") != "":
		fail(w, http.StatusUnprocessableEntity, "Invalid") // not served: the client lists instead
	case r.URL.Query().Get("watch") != "":
		s.watch(w, r)
	case r.Method == http.MethodPost, r.Method == http.MethodPut:
		s.write(w, r)
	case r.Method == http.MethodDelete:
		s.delete(w, r)
	case named:
		o, _ := s.object(r.URL.Path)
		write(w, o)
	case slices.Contains([]string{"secrets", "sandboxes", "sandboxclaims"}, last(r.URL.Path)):
		s.list(w, r)
	default:
		fail(w, http.StatusNotFound, "NotFound")
	}
}

func (s *apiServer) object(path string) (object, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o, ok := s.objects[path]
	return o, ok
}

func (s *apiServer) discover(w http.ResponseWriter) {
	s.mu.Lock()
	served := s.served
	s.mu.Unlock()
	if !served {
		fail(w, http.StatusNotFound, "NotFound")
		return
	}
	var resources []any
	for _, name := range []string{"sandboxes", "sandboxclaims", "sandboxtemplates", "sandboxwarmpools"} {
		resources = append(resources, object{"name": name, "namespaced": true, "kind": name, "verbs": []any{"list"}})
	}
	write(w, object{"kind": "APIResourceList", "apiVersion": "v1", "resources": resources})
}

func (s *apiServer) list(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	items := []any{}
	for path, o := range s.objects {
		if collection(path) == r.URL.Path {
			items = append(items, o)
		}
	}
	kind, version := "List", "v1"
	if strings.Contains(r.Header.Get("Accept"), "PartialObjectMetadataList") {
		kind, version = "PartialObjectMetadataList", "meta.k8s.io/v1"
	}
	write(w, object{
		"kind": kind, "apiVersion": version, "metadata": object{"resourceVersion": strconv.Itoa(s.version)}, "items": items,
	})
}

func (s *apiServer) watch(w http.ResponseWriter, r *http.Request) {
	events := make(chan object, 100)
	s.mu.Lock()
	since, _ := strconv.Atoi(r.URL.Query().Get("resourceVersion"))
	for path, o := range s.objects {
		if version, _ := strconv.Atoi(metadataOf(o)["resourceVersion"].(string)); collection(path) == r.URL.Path && version > since {
			events <- object{"type": "ADDED", "object": o}
		}
	}
	s.watches[events] = r.URL.Path
	s.mu.Unlock()
	defer s.set(func(s *apiServer) {
		delete(s.watches, events)
		s.events = append(s.events, "watch ended "+last(r.URL.Path))
	})
	for {
		_ = http.NewResponseController(w).Flush()
		select {
		case e := <-events:
			write(w, e)
		case <-r.Context().Done():
			return
		}
	}
}

func (s *apiServer) write(w http.ResponseWriter, r *http.Request) {
	o, err := decode(r)
	if err != nil {
		fail(w, http.StatusBadRequest, "BadRequest")
		return
	}
	path, event := r.URL.Path, "MODIFIED"
	if r.Method == http.MethodPost {
		path, event = fmt.Sprint(r.URL.Path, "/", metadataOf(o)["name"]), "ADDED"
		w.WriteHeader(http.StatusCreated)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	o = s.store(event, path, o)
	write(w, o)
	if strings.HasPrefix(path, coreAPI) {
		s.created <- path
		if s.ready {
			s.store("MODIFIED", path, readySandbox(o))
		}
	}
}

func (s *apiServer) delete(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o, ok := s.objects[r.URL.Path]
	if !ok {
		fail(w, http.StatusNotFound, "NotFound")
		return
	}
	s.store("DELETED", r.URL.Path, o)
	s.events = append(s.events, "deleted")
	write(w, object{"kind": "Status", "apiVersion": "v1", "status": "Success"})
}

// store needs mu.
func (s *apiServer) store(event, path string, o object) object {
	s.version++
	o = maps.Clone(o)
	m := maps.Clone(metadataOf(o))
	m["resourceVersion"] = strconv.Itoa(s.version)
	if m["uid"] == nil {
		m["uid"] = "u" + strconv.Itoa(s.version)
	}
	o["metadata"] = m
	s.objects[path] = o
	if event == "DELETED" {
		delete(s.objects, path)
	}
	for events, watched := range s.watches {
		if watched == collection(path) {
			events <- object{"type": event, "object": o}
		}
	}
	return o
}

// decode reads a body: JSON from the dynamic client, protobuf from the typed
// one.
func decode(r *http.Request) (object, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	if bytes.HasPrefix(body, []byte("k8s\x00")) {
		decoded, kind, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, nil)
		if err != nil {
			return nil, err
		}
		decoded.GetObjectKind().SetGroupVersionKind(*kind)
		if body, err = json.Marshal(decoded); err != nil {
			return nil, err
		}
	}
	var o object
	err = json.Unmarshal(body, &o)
	return o, err
}

func metadataOf(o object) object { return o["metadata"].(object) }

// collection is what one watches in all namespaces to see the object.
func collection(path string) string {
	before, after, _ := strings.Cut(path, "/namespaces/")
	_, resource, _ := strings.Cut(after, "/")
	resource, _, _ = strings.Cut(resource, "/")
	return before + "/" + resource
}

func last(path string) string { return path[strings.LastIndex(path, "/")+1:] }

func write(w io.Writer, value any) {
	body, err := json.Marshal(value)
	if err != nil {
		panic(err) // net/http breaks the connection off, and the test fails
	}
	_, _ = w.Write(append(body, '\n'))
}

func fail(w http.ResponseWriter, code int, reason string) {
	w.WriteHeader(code)
	write(w, object{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "code": code})
}
