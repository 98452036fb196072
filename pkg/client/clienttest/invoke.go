package clienttest

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/agentcube/agentcube/pkg/api"
)

// kinds by their part of the router's path.
var kinds = map[string]string{"agent-runtimes": "AgentRuntime", "code-interpreters": "CodeInterpreter"}

// RefuseRouted is a fault: the router says no.
func RefuseRouted(status int, code, message string, header ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		for i := 0; i+1 < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		answer(w, status, api.RouterError{Error: message, Code: code, RequestID: r.Header.Get(api.HeaderRequestID)})
	}
}

// invoke is the router. Its sandbox answers with the request line and the body;
// at /status/NNN with that status.
func (s *Server) invoke(w http.ResponseWriter, r *http.Request) {
	route, uri, _ := strings.Cut(r.RequestURI, "/invocations")
	parts := strings.Split(strings.TrimPrefix(route, "/v1/namespaces/"), "/")
	if len(parts) != 3 || kinds[parts[1]] == "" {
		RefuseRouted(http.StatusNotFound, api.CodeNotFound, "no such route")(w, r)
		return
	}
	x := s.target(w, r, kinds[parts[1]], parts[0], parts[2])
	if x == nil {
		return
	}
	w.Header().Set(api.HeaderSessionID, x.SessionID)
	w.Header().Set(api.HeaderSessionGeneration, "1")
	var status int
	if n, _ := fmt.Sscanf(uri, "/status/%d", &status); n == 1 {
		http.Error(w, "as you wish", status)
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	fmt.Fprintf(w, "%s %s\n", r.Method, uri)
	_, _ = io.Copy(w, r.Body)
}

// target is the session that is named, or a new one; nil if it answered.
func (s *Server) target(w http.ResponseWriter, r *http.Request, kind, namespace, name string) *api.Session {
	s.mu.Lock()
	defer s.mu.Unlock()
	id := r.Header.Get(api.HeaderSessionID)
	if id == "" {
		if !slices.Contains(s.templates, kind+"/"+namespace+"/"+name) {
			RefuseRouted(http.StatusNotFound, api.CodeTemplateNotFound,
				fmt.Sprintf("%ss.agentcube.volcano.sh %q not found", strings.ToLower(kind), namespace+"/"+name))(w, r)
			return nil
		}
		x := s.newSession(kind, api.CreateRequest{Namespace: namespace, Name: name})
		ready(x)
		s.sessions = append(s.sessions, x)
		return x
	}
	x := s.find(id)
	switch {
	case x == nil:
		w.Header().Set(api.HeaderSessionID, id)
		answer(w, http.StatusNotFound, api.RouterError{
			Error: fmt.Sprintf("session %s not found", id), Code: api.CodeSessionNotFound,
			Reason: s.ended[id], RequestID: r.Header.Get(api.HeaderRequestID),
		})
		return nil
	case x.Workload != api.WorkloadRef{Kind: kind, Namespace: namespace, Name: name}:
		RefuseRouted(http.StatusConflict, api.CodeSessionTargetMismatch, "session belongs to another workload")(w, r)
		return nil
	}
	s.touch(x)
	return x
}
