package workloadmanager

import (
	"encoding/json"
	"errors"
	"net/http"
	"time"
	"unicode/utf8"

	k8sjson "sigs.k8s.io/json"

	"github.com/agentcube/agentcube/pkg/session"
)

// lifetimes are those that a patch names. Zero: not named.
type lifetimes struct {
	ttl, idle time.Duration
}

// wirePatch keeps the numbers as they were written.
type wirePatch struct {
	TTL         json.RawMessage `json:"ttl"`
	IdleTimeout json.RawMessage `json:"idleTimeout"`
}

func parsePatch(body []byte) (lifetimes, error) {
	if !utf8.Valid(body) {
		return lifetimes{}, invalidBody(errors.New("not valid UTF-8"))
	}
	var wire wirePatch
	strict, err := k8sjson.UnmarshalStrict(body, &wire, k8sjson.DisallowDuplicateFields)
	if err = errors.Join(append(strict, err)...); err != nil {
		return lifetimes{}, invalidBody(err)
	}
	var named lifetimes
	if named.ttl, err = seconds("ttl", wire.TTL); err != nil {
		return lifetimes{}, err
	}
	if named.idle, err = seconds("idleTimeout", wire.IdleTimeout); err != nil {
		return lifetimes{}, err
	}
	if named == (lifetimes{}) {
		return lifetimes{}, invalid("ttl or idleTimeout is required")
	}
	return named, nil
}

// change is what they come to at that moment.
func (l lifetimes) change(now time.Time) session.Change {
	c := session.Change{At: now, Idle: l.idle}
	if l.ttl > 0 {
		c.ExpiresAt = now.Truncate(time.Millisecond).Add(l.ttl)
	}
	return c
}

func (s *Server) patchSession(w http.ResponseWriter, r *http.Request) error {
	c, err := s.callerOf(r)
	if err != nil {
		return err
	}
	body, err := readBody(w, r)
	if err != nil {
		return err
	}
	named, err := parsePatch(body)
	if err != nil {
		return err
	}
	seen, err := s.changeable(r, c)
	if err != nil {
		return err
	}
	changed, err := s.Sessions.Change(r.Context(), c.id, named.change(seen.Now))
	if errors.Is(err, session.ErrStale) {
		// It ended in between: say so.
		if _, endErr := s.changeable(r, c); endErr != nil {
			return endErr
		}
	}
	if err != nil {
		return s.ofSession(r.Context(), c, err)
	}
	writeJSON(w, http.StatusOK, sessionOf(changed, seen.LastActivity))
	return nil
}

// changeable looks at a session whose lifetimes are to change. One that is
// being created has no object yet that could be told.
func (s *Server) changeable(r *http.Request, c caller) (session.Snapshot, error) {
	seen, err := s.Rows.Look(r.Context(), c.id)
	if err != nil {
		return seen, s.ofSession(r.Context(), c, err)
	}
	if err := c.mayUse(seen); err != nil {
		return seen, err
	}
	if seen.State == session.StateCreating {
		return seen, errCreating
	}
	return seen, nil
}
