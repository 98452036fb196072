package session

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// Canonical returns the session as every store keeps it, so that what is read
// equals what was written: times in UTC, nothing that is empty but not nil,
// no entry points in a state that has none, and what follows from other
// fields filled in. ErrInvalid for a session that no row can hold.
func (s Session) Canonical() (Session, error) {
	if err := s.validate(); err != nil {
		return Session{}, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	s = s.Clone()
	if err := s.canonicalJSON(); err != nil {
		return Session{}, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	for _, t := range []*time.Time{&s.CreatedAt, &s.ExpiresAt, &s.UnknownUntil} {
		*t = t.Round(0).UTC()
		if t.Year() < 0 || t.Year() > 9999 {
			return Session{}, fmt.Errorf("%w: time %s has no RFC 3339 form", ErrInvalid, t)
		}
	}
	if s.State == "" {
		s.State = StateReady
	}
	switch s.State {
	case StateCreating, StateDeleting, StateSuspended:
		s.EntryPoints = nil
	}
	s.fillSandbox()
	return s, nil
}

func (s Session) validate() error {
	switch {
	case !ValidID(s.ID):
		return fmt.Errorf("id %q is not a UUID", s.ID)
	case s.Object.Kind != KindSandbox && s.Object.Kind != KindSandboxClaim:
		return fmt.Errorf("kind %q is neither %s nor %s", s.Object.Kind, KindSandbox, KindSandboxClaim)
	case s.Object.Namespace == "" || s.Object.Name == "":
		return errors.New("the object has no namespace or no name")
	}
	return s.Key.validate()
}

// fillSandbox: a direct Sandbox is its own object.
func (s *Session) fillSandbox() {
	if s.Object.Kind != KindSandbox || s.Sandbox.UID == "" {
		return
	}
	if s.Object.UID == "" {
		s.Object.UID = s.Sandbox.UID
	}
	if s.Sandbox.Name == "" {
		s.Sandbox.Name = s.Object.Name
	}
}

func (s *Session) canonicalJSON() error {
	s.Metadata = bytes.TrimSpace(s.Metadata)
	if len(s.Metadata) == 0 || string(s.Metadata) == "null" {
		s.Metadata = nil
	} else if !json.Valid(s.Metadata) {
		return errors.New("metadata is not JSON")
	}
	if len(s.Unknown) == 0 {
		s.Unknown = nil
	}
	for name, value := range s.Unknown {
		if !json.Valid(value) {
			return fmt.Errorf("field %q is not JSON", name)
		}
		s.Unknown[name] = bytes.TrimSpace(value)
	}
	return nil
}
