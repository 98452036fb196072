package clienttest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/agentcube/agentcube/pkg/api"
)

func (s *Server) create(kind string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var wanted api.CreateRequest
		if json.Unmarshal(body, &wanted) != nil {
			refuse(w, r, http.StatusBadRequest, api.CodeInvalidRequest, "Invalid request body")
			return
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if !slices.Contains(s.templates, kind+"/"+wanted.Namespace+"/"+wanted.Name) {
			text := map[string]string{"AgentRuntime": "agent runtime not found", "CodeInterpreter": "code interpreter not found"}
			refuse(w, r, http.StatusNotFound, api.CodeTemplateNotFound, text[kind])
			return
		}
		x, problem := s.createOnce(r.Header.Get(api.HeaderIdempotencyKey), kind, string(body), wanted)
		if problem != "" {
			status := map[string]int{api.CodeIdempotencyKeyReused: http.StatusUnprocessableEntity, api.CodeSessionEnded: http.StatusConflict}
			refuse(w, r, status[problem], problem, "the key belongs to another create, or its session ended")
			return
		}
		status := http.StatusOK
		if r.Header.Get(api.HeaderPrefer) == api.PreferAsync {
			status = http.StatusAccepted
			w.Header().Set("Location", "/v1/sessions/"+x.SessionID)
		} else {
			ready(x)
		}
		answer(w, status, created(x))
	}
}

// createOnce returns the session of a key, made if need be, or the code of what
// is wrong.
func (s *Server) createOnce(header, kind, body string, wanted api.CreateRequest) (x *api.Session, problem string) {
	body = kind + body
	if k, used := s.keys[header]; header != "" && used {
		switch x = s.find(k.id); {
		case k.body != body:
			return nil, api.CodeIdempotencyKeyReused
		case x == nil:
			return nil, api.CodeSessionEnded
		}
		return x, ""
	}
	x = s.newSession(kind, wanted)
	s.sessions = append(s.sessions, x)
	s.keys[header] = key{body, x.SessionID}
	return x, ""
}

func (s *Server) newSession(kind string, wanted api.CreateRequest) *api.Session {
	s.made++
	n := strconv.Itoa(s.made)
	object := map[string]string{"AgentRuntime": "Sandbox", "CodeInterpreter": "SandboxClaim"}[kind]
	x := &api.Session{
		SessionID: ID(s.made), State: api.StateCreating, Reason: "WaitingForSandbox", Message: "the pod is being started",
		Workload: api.WorkloadRef{Kind: kind, Namespace: wanted.Namespace, Name: wanted.Name},
		Object:   api.ObjectRef{Kind: object, Namespace: wanted.Namespace, Name: wanted.Name + "-" + n, UID: "object-" + n},
		Sandbox:  api.SandboxRef{Name: wanted.Name + "-" + n, UID: "sandbox-" + n},
		Metadata: wanted.Metadata, CreatedAt: s.now, ExpiresAt: s.now.Add(life(wanted.TTL)),
		IdleTimeout: int64(Idle / time.Second), Generation: 1,
	}
	if wanted.IdleTimeout != nil {
		x.IdleTimeout = *wanted.IdleTimeout
	}
	s.touch(x)
	return x
}

func life(ttl *int64) time.Duration {
	if ttl == nil {
		return MaxLife
	}
	return min(MaxLife, time.Duration(*ttl)*time.Second)
}

func (s *Server) touch(x *api.Session) {
	x.LastActivityAt = s.now
	x.IdleDeadline = s.now.Add(time.Duration(x.IdleTimeout) * time.Second)
}

func ready(x *api.Session) {
	x.State, x.Reason, x.Message = api.StateReady, "", ""
	x.EntryPoints = []api.EntryPoint{{Path: "/", Protocol: "HTTP", Endpoint: "10.0.0.7:8080"}}
}

func created(x *api.Session) api.CreateResponse {
	return api.CreateResponse{
		Kind: x.Object.Kind, SessionID: x.SessionID, SandboxID: x.Sandbox.UID, SandboxName: x.Object.Name,
		EntryPoints: x.EntryPoints, State: x.State, ExpiresAt: &x.ExpiresAt, IdleTimeout: x.IdleTimeout, Generation: 1,
	}
}

// session finds the one that a route names, or answers 404.
func (s *Server) session(do func(http.ResponseWriter, *http.Request, *api.Session)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		id := r.PathValue("id")
		if x := s.find(id); x != nil {
			do(w, r, x)
			return
		}
		answer(w, http.StatusNotFound, api.Error{
			Message: fmt.Sprintf("Session ID %s not found, maybe already deleted", id), Code: api.CodeSessionNotFound,
			Reason: s.ended[id], RequestID: r.Header.Get(api.HeaderRequestID),
		})
	}
}

func (s *Server) remove(w http.ResponseWriter, _ *http.Request, x *api.Session) {
	s.end(x.SessionID, api.EndedDeleted)
	answer(w, http.StatusOK, api.DeleteResponse{Message: "Sandbox deleted successfully"})
}

// read does not wait: the state changes by the number of reads.
func (s *Server) read(w http.ResponseWriter, _ *http.Request, x *api.Session) {
	if x.State == api.StateCreating {
		if s.starting--; s.starting < 0 {
			ready(x)
		}
	}
	answer(w, http.StatusOK, x)
}

func (s *Server) patch(w http.ResponseWriter, r *http.Request, x *api.Session) {
	var wanted api.PatchRequest
	if json.NewDecoder(r.Body).Decode(&wanted) != nil {
		refuse(w, r, http.StatusBadRequest, api.CodeInvalidRequest, "Invalid request body")
		return
	}
	if wanted.TTL != nil {
		x.ExpiresAt = s.now.Add(time.Duration(*wanted.TTL) * time.Second)
		if latest := x.CreatedAt.Add(MaxLife); x.ExpiresAt.After(latest) {
			x.ExpiresAt = latest
		}
	}
	if wanted.IdleTimeout != nil {
		x.IdleTimeout = *wanted.IdleTimeout
		x.IdleDeadline = x.LastActivityAt.Add(time.Duration(x.IdleTimeout) * time.Second)
	}
	answer(w, http.StatusOK, x)
}

func (s *Server) keepalive(w http.ResponseWriter, _ *http.Request, x *api.Session) {
	s.touch(x)
	w.WriteHeader(http.StatusNoContent)
}

// list makes its cursor out of the last id of the page.
func (s *Server) list(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := r.URL.Query()
	limit := 100
	if text := q.Get("limit"); text != "" {
		limit, _ = strconv.Atoi(text)
	}
	if limit < 1 || limit > 1000 {
		refuse(w, r, http.StatusBadRequest, api.CodeInvalidRequest, "limit must be from 1 to 1000")
		return
	}
	page := api.SessionList{Items: []api.Session{}}
	for _, x := range s.sessions {
		matches := true
		for name, value := range map[string]string{
			"namespace": x.Workload.Namespace, "kind": x.Workload.Kind, "name": x.Workload.Name,
			"state": x.State, "owner": x.OwnerID,
		} {
			matches = matches && (q.Get(name) == "" || q.Get(name) == value)
		}
		if !matches || strings.Compare(x.SessionID, q.Get("cursor")) <= 0 {
			continue
		}
		if len(page.Items) == limit {
			page.Cursor = page.Items[limit-1].SessionID
			break
		}
		page.Items = append(page.Items, *x)
	}
	answer(w, http.StatusOK, page)
}
