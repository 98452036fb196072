package workloadmanager

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/agentcube/agentcube/pkg/api"
	"github.com/agentcube/agentcube/pkg/auth"
	"github.com/agentcube/agentcube/pkg/httpserver"
	"github.com/agentcube/agentcube/pkg/session"
	"github.com/agentcube/agentcube/pkg/workload"
	"github.com/agentcube/agentcube/pkg/workloadmanager/provision"
)

func (s *Server) create(kind string) func(http.ResponseWriter, *http.Request) error {
	return func(w http.ResponseWriter, r *http.Request) error {
		owner, err := s.owner(r)
		if err != nil {
			return err
		}
		request, err := readCreateRequest(w, r)
		if err != nil {
			return err
		}
		ref := session.WorkloadRef{Kind: kind, Namespace: request.namespace, Name: request.name}
		template, err := s.Templates.Get(r.Context(), ref)
		if err != nil {
			return ofTemplate(kind, err)
		}
		order, err := s.order(request, template, owner)
		if err != nil {
			return err
		}
		created, err := s.Sessions.Create(r.Context(), order)
		if err != nil {
			return ofTemplate(kind, err)
		}
		httpserver.RecordFrom(r.Context()).SetSession(created.ID)
		writeJSON(w, http.StatusOK, createResponse(created))
		return nil
	}
}

// order joins what the caller asked for with what the template gives.
func (s *Server) order(request createRequest, template workload.Workload, owner string) (provision.Request, error) {
	order := provision.Request{
		Workload:    template.Ref,
		WorkloadUID: template.UID,
		Warm:        template.Warm,
		Ports:       template.Ports,
		Lifetimes:   session.Lifetimes{Idle: template.Idle, Max: template.Max, TTL: request.ttl},
		OwnerID:     owner,
		Metadata:    request.metadata,
		AuthMode:    template.AuthMode,
	}
	if request.idle > 0 {
		order.Lifetimes.Idle = request.idle
	}
	if template.Warm {
		order.Prepare = func(ctx context.Context) error {
			_, err := s.Templates.WaitPool(ctx, template.Ref)
			return err
		}
	}
	template = template.WithRuntimeClass(s.RuntimeClassName)
	if template.AuthMode == session.AuthModePicoD {
		pem, keyID, ok := s.Identity.Key()
		if !ok {
			return provision.Request{}, auth.ErrNoKey
		}
		template = template.WithPublicKey(pem)
		order.KeyID = keyID
	}
	order.Pod = template.Pod
	return order, nil
}

func createResponse(s session.Session) api.CreateResponse {
	response := api.CreateResponse{
		Kind:        s.Object.Kind,
		SessionID:   s.ID,
		SandboxID:   s.Sandbox.UID,
		SandboxName: s.Object.Name,
		EntryPoints: make([]api.EntryPoint, len(s.EntryPoints)),
		OwnerID:     s.OwnerID,
		State:       string(s.State),
		IdleTimeout: int64(s.IdleTimeout / time.Second),
		Generation:  s.Generation,
	}
	for i, e := range s.EntryPoints {
		response.EntryPoints[i] = api.EntryPoint(e)
	}
	if !s.ExpiresAt.IsZero() {
		response.ExpiresAt = &s.ExpiresAt
	}
	return response
}

func (s *Server) delete(w http.ResponseWriter, r *http.Request) error {
	c, err := s.callerOf(r)
	if err != nil {
		return err
	}
	if err := s.Sessions.Delete(r.Context(), c.id, session.ReasonDeleted); err != nil {
		return s.ofSession(r.Context(), c, err)
	}
	writeJSON(w, http.StatusOK, api.DeleteResponse{Message: "Sandbox deleted successfully"})
	return nil
}

// fail answers an error and puts it into the request's record.
func (s *Server) fail(w http.ResponseWriter, r *http.Request, err error) {
	p := problemOf(err)
	record := httpserver.RecordFrom(r.Context())
	record.Fail(p.code, err, p.level)
	if p.status == statusClientClosedRequest {
		record.SetStatus(p.status)
		return
	}
	p.setRetryAfter(w.Header())
	writeJSON(w, p.status, api.Error{
		Message: p.message, Code: p.code, Reason: p.reason, RequestID: httpserver.RequestIDFrom(r.Context()),
	})
}

func writeJSON(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(body) //nolint:errchkjson // an error says that the client is gone, which the record shows
}
