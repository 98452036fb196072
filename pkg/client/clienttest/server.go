// Package clienttest is a workload-manager and a router in memory that answer as
// the wire says, for tests of whoever calls them. Its sandboxes echo.
//
// Its ids and times follow from what was asked, so that output can be compared
// with a file.
package clienttest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/agentcube/agentcube/pkg/api"
)

// Start is the time that a server begins with.
var Start = time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)

// Lifetimes of every template.
const (
	MaxLife = 8 * time.Hour
	Idle    = 15 * time.Minute
)

// ID of the nth session, counted from 1.
func ID(n int) string { return fmt.Sprintf("00000000-0000-4000-8000-%012d", n) }

// Server answers both services' routes at one URL.
type Server struct {
	URL *url.URL

	server *httptest.Server

	mu        sync.Mutex
	now       time.Time
	sessions  []*api.Session
	made      int
	ended     map[string]string // why, by id
	keys      map[string]key
	templates []string
	faults    []http.HandlerFunc
	requests  []*http.Request
	starting  int
}

type key struct{ body, id string }

// Serve starts a server that knows the templates, each as kind/namespace/name.
func Serve(templates ...string) *Server {
	s := &Server{now: Start, ended: map[string]string{}, keys: map[string]key{}, templates: templates}
	s.server = httptest.NewServer(s.handler())
	u, err := url.Parse(s.server.URL)
	if err != nil {
		panic(err) // httptest makes URLs
	}
	s.URL = u
	return s
}

// Close ends the server.
func (s *Server) Close() { s.server.Close() }

// Fault answers one coming request in place of the server; several do so one
// after the other.
func (s *Server) Fault(h ...http.HandlerFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = append(s.faults, h...)
}

// Refuse is a fault: the workload-manager says no.
func Refuse(status int, code, message string, header ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		for i := 0; i+1 < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		answer(w, status, api.Error{Message: message, Code: code, RequestID: r.Header.Get(api.HeaderRequestID)})
	}
}

// StartSlowly makes sessions ready when they have been read that often.
func (s *Server) StartSlowly(reads int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.starting = reads
}

// Advance moves the time.
func (s *Server) Advance(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now = s.now.Add(d)
}

// Now is the server's time.
func (s *Server) Now() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now
}

// End ends a session for a reason.
func (s *Server) End(id, reason string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.end(id, reason)
}

func (s *Server) end(id, reason string) {
	s.sessions = slices.DeleteFunc(s.sessions, func(x *api.Session) bool { return x.SessionID == id })
	s.ended[id] = reason
}

// Change changes a session, if there is one with that id.
func (s *Server) Change(id string, change func(*api.Session)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if x := s.find(id); x != nil {
		change(x)
	}
}

// Sessions are those that there are.
func (s *Server) Sessions() []api.Session {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []api.Session
	for _, x := range s.sessions {
		all = append(all, *x)
	}
	return all
}

// Requests are those that came, without their bodies.
func (s *Server) Requests() []*http.Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

func (s *Server) find(id string) *api.Session {
	for _, x := range s.sessions {
		if x.SessionID == id {
			return x
		}
	}
	return nil
}

func (s *Server) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/agent-runtime", s.create("AgentRuntime"))
	mux.HandleFunc("POST /v1/code-interpreter", s.create("CodeInterpreter"))
	mux.HandleFunc("DELETE /v1/agent-runtime/sessions/{id}", s.session(s.remove))
	mux.HandleFunc("DELETE /v1/code-interpreter/sessions/{id}", s.session(s.remove))
	mux.HandleFunc("DELETE /v1/sessions/{id}", s.session(s.remove))
	mux.HandleFunc("GET /v1/sessions", s.list)
	mux.HandleFunc("GET /v1/sessions/{id}", s.session(s.read))
	mux.HandleFunc("PATCH /v1/sessions/{id}", s.session(s.patch))
	mux.HandleFunc("POST /v1/sessions/{id}/keepalive", s.session(s.keepalive))
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusOK, map[string]any{"status": "ready", "details": map[string]string{"store": "ok"}})
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id := r.Header.Get(api.HeaderRequestID)
		s.mu.Lock()
		s.requests = append(s.requests, r)
		if id == "" {
			id = "request-" + strconv.Itoa(len(s.requests))
			r.Header.Set(api.HeaderRequestID, id)
		}
		var fault http.HandlerFunc
		if len(s.faults) > 0 {
			fault, s.faults = s.faults[0], s.faults[1:]
		}
		s.mu.Unlock()
		w.Header().Set(api.HeaderRequestID, id)
		switch {
		case fault != nil:
			fault(w, r)
		case strings.HasPrefix(r.RequestURI, "/v1/namespaces/"):
			s.invoke(w, r)
		default:
			mux.ServeHTTP(w, r)
		}
	})
}

func answer(w http.ResponseWriter, status int, body any) {
	text, err := json.Marshal(body)
	if err != nil {
		panic(err) // the bodies here encode
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(text)
}

func refuse(w http.ResponseWriter, r *http.Request, status int, code, message string) {
	Refuse(status, code, message)(w, r)
}
