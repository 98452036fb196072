package workloadmanager

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/go-chi/chi/v5"

	"github.com/agentcube/agentcube/pkg/api"
	"github.com/agentcube/agentcube/pkg/httpserver"
	"github.com/agentcube/agentcube/pkg/session"
)

// Rows shows sessions as they are recorded.
type Rows interface {
	// Look returns the row, the last activity and the store's clock.
	Look(ctx context.Context, id string) (session.Snapshot, error)
	// Keep makes a session count as active now, if guard returns nil for it.
	Keep(ctx context.Context, id string, guard func(session.Snapshot) error) error
	// Ended tells why a session without a row ended, for an hour.
	Ended(ctx context.Context, id string) (session.Ending, error)
}

// sessionOf is a session as callers see it.
func sessionOf(s session.Session, lastActivity time.Time) api.Session {
	out := api.Session{
		SessionID: s.ID, State: string(s.State), Reason: s.Reason, Message: s.Message,
		Workload:    api.WorkloadRef(s.Workload),
		Object:      api.ObjectRef(s.Object),
		Sandbox:     api.SandboxRef(s.Sandbox),
		EntryPoints: make([]api.EntryPoint, len(s.EntryPoints)),
		OwnerID:     s.OwnerID, Metadata: s.Metadata,
		CreatedAt: s.CreatedAt, ExpiresAt: s.ExpiresAt,
		IdleTimeout:    int64(s.IdleTimeout / time.Second),
		LastActivityAt: lastActivity, IdleDeadline: s.IdleDeadline(lastActivity),
		Generation: s.Generation,
	}
	for i, e := range s.EntryPoints {
		out.EntryPoints[i] = api.EntryPoint(e)
	}
	return out
}

// caller is who asks about which session. The owner of a session is recorded,
// and nobody is refused for being another.
type caller struct {
	id, owner string
}

// callerOf reads a request about one session.
func (s *Server) callerOf(r *http.Request) (caller, error) {
	owner, err := s.owner(r)
	if err != nil {
		return caller{}, err
	}
	c := caller{id: chi.URLParam(r, "id"), owner: owner}
	if !session.ValidID(c.id) {
		return caller{}, unknownSession(c.id)
	}
	httpserver.RecordFrom(r.Context()).SetSession(c.id)
	return c, nil
}

// mayUse refuses a session that is over, by its state or by its time.
func (c caller) mayUse(seen session.Snapshot) error {
	ending := session.EndingOf(seen.Session)
	switch {
	case seen.State == session.StateDeleting:
	case seen.Expired(seen.Now):
		ending.Reason = session.ReasonExpired
	default:
		return nil
	}
	return c.gone(ending)
}

// gone is the answer for a session that ended.
func (c caller) gone(e session.Ending) error {
	err := unknownSession(c.id)
	if e.VisibleTo(c.owner) {
		err.reason = e.Reason
	}
	return err
}

// ofSession gives a missing session its id, and, if that is known, the reason.
func (s *Server) ofSession(ctx context.Context, c caller, err error) error {
	if !errors.Is(err, session.ErrNotFound) {
		return err
	}
	ending, endedErr := s.Rows.Ended(ctx, c.id)
	if endedErr != nil {
		// Also when the store fails: that there is no row, it has said.
		return unknownSession(c.id)
	}
	return c.gone(ending)
}

func (s *Server) readSession(w http.ResponseWriter, r *http.Request) error {
	c, err := s.callerOf(r)
	if err != nil {
		return err
	}
	wait, err := readWait(r.URL)
	if err != nil {
		return err
	}
	seen, err := s.look(r.Context(), c, wait)
	if err != nil {
		return s.ofSession(r.Context(), c, err)
	}
	writeJSON(w, http.StatusOK, sessionOf(seen.Session, seen.LastActivity))
	return nil
}

func (s *Server) keepSession(w http.ResponseWriter, r *http.Request) error {
	c, err := s.callerOf(r)
	if err != nil {
		return err
	}
	if err := s.Rows.Keep(r.Context(), c.id, c.mayUse); err != nil {
		return s.ofSession(r.Context(), c, err)
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}
