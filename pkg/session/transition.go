package session

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// ErrUnchanged is returned by a transition that finds its work done already.
// A store takes it as success and writes nothing, which makes every
// transition safe to repeat when an answer was lost.
var ErrUnchanged = errors.New("session already so")

// Known records the object that now carries the session: its UID once the
// create call has returned, or another name if the first one was taken. Only
// the holder of the reservation may.
func Known(token string, object ObjectRef) func(*Session) error {
	return func(s *Session) error {
		if err := s.heldBy(token); err != nil {
			return err
		}
		if s.State != StateCreating {
			return fmt.Errorf("recording %s: session is %s: %w", object, s.State, ErrStale)
		}
		if s.Object == object {
			return ErrUnchanged
		}
		s.Object = object
		return nil
	}
}

// Explain notes why a session that is being created is not ready yet. Its
// creator decides everything else.
func Explain(object ObjectRef, reason, message string) func(*Session) error {
	return func(s *Session) error {
		if s.State != StateCreating || !s.Object.Same(object) {
			return fmt.Errorf("explaining: session is %s, of %s: %w", s.State, s.Object, ErrStale)
		}
		if s.Reason == reason && s.Message == message {
			return ErrUnchanged
		}
		s.Reason, s.Message = reason, message
		return nil
	}
}

// Observed is what the cluster shows of the object behind a session.
type Observed struct {
	State           State // ready, not-ready or suspended
	Reason, Message string
	Object          ObjectRef
	Sandbox         SandboxRef
	// Address is the pod's IP address. Empty: it has none.
	Address string
	// ResourceVersion of the object this was read from.
	ResourceVersion string
}

// address is where the session is served. A suspended one is served nowhere,
// even while its pod is still going.
func (o Observed) address() string {
	if o.State == StateSuspended {
		return ""
	}
	return o.Address
}

// Commit makes a reserved session ready. It loses, with ErrStale, to a
// deletion and to another reservation, and finds its own earlier success.
func Commit(token string, o Observed) func(*Session) error {
	return func(s *Session) error {
		if err := s.heldBy(token); err != nil {
			return err
		}
		switch s.State {
		case StateCreating:
		case StateReady, StateNotReady, StateSuspended:
			return ErrUnchanged
		default:
			return fmt.Errorf("committing: session is %s: %w", s.State, ErrStale)
		}
		s.apply(o)
		s.Generation = 1
		return nil
	}
}

// Refresh makes a live row agree with what the cluster shows. newer reports
// whether its first resource version is newer than its second; a row that
// rests on a newer one than o wins over o, so that a lagging replica cannot
// bring an old address back.
func Refresh(o Observed, newer func(a, b string) bool) func(*Session) error {
	return func(s *Session) error {
		switch s.State {
		case StateReady, StateNotReady, StateSuspended:
		default:
			return fmt.Errorf("refreshing: session is %s: %w", s.State, ErrStale)
		}
		if !s.Object.Same(o.Object) {
			return fmt.Errorf("refreshing from %s: the row names %s: %w", o.Object, s.Object, ErrStale)
		}
		if s.ResourceVersion != "" && newer(s.ResourceVersion, o.ResourceVersion) {
			return fmt.Errorf("refreshing: the row rests on a newer object: %w", ErrStale)
		}
		if s.shows(o) {
			return ErrUnchanged
		}
		if s.replacedBy(o) {
			s.Generation++
		}
		s.apply(o)
		return nil
	}
}

// Delete marks a session as being deleted: no router dials it from here on.
// It is allowed in every state. unknownUntil is zero unless the outcome of
// the object's create call is unknown.
func Delete(reason string, unknownUntil time.Time) func(*Session) error {
	return func(s *Session) error {
		if s.State == StateDeleting && !unknownUntil.After(s.UnknownUntil) {
			return ErrUnchanged
		}
		if s.State != StateDeleting {
			s.Reason, s.Message, s.Attempts = reason, "", 0
		}
		s.State = StateDeleting
		s.EntryPoints = nil
		if unknownUntil.After(s.UnknownUntil) {
			s.UnknownUntil = unknownUntil
		}
		return nil
	}
}

// HeldBy is the guard of a removal by the session's creator.
func HeldBy(token string) func(Session) error {
	return func(s Session) error { return s.heldBy(token) }
}

// Names is the guard of a removal by whoever saw the object go.
func Names(object ObjectRef) func(Session) error {
	return func(s Session) error {
		if !s.Object.Same(object) {
			return fmt.Errorf("the row names %s, not %s: %w", s.Object, object, ErrStale)
		}
		return nil
	}
}

func (s Session) heldBy(token string) error {
	if token == "" || s.Creator.Token != token {
		return fmt.Errorf("another reservation holds the session: %w", ErrStale)
	}
	return nil
}

func (s *Session) apply(o Observed) {
	s.State, s.Reason, s.Message = o.State, o.Reason, o.Message
	if o.Object.UID != "" {
		s.Object.UID = o.Object.UID
	}
	if o.Sandbox != (SandboxRef{}) {
		s.Sandbox = o.Sandbox
	}
	s.Ports = s.ports()
	s.EntryPoints = EntryPoints(s.Ports, o.address())
	s.ResourceVersion = o.ResourceVersion
}

// shows reports whether the row says all that o says. The resource version
// alone is no reason to write: objects change far more often than sessions.
func (s *Session) shows(o Observed) bool {
	return s.State == o.State && s.Reason == o.Reason && s.Message == o.Message &&
		(o.Object.UID == "" || s.Object.UID == o.Object.UID) &&
		(o.Sandbox == (SandboxRef{}) || s.Sandbox == o.Sandbox) &&
		slices.Equal(s.EntryPoints, EntryPoints(s.ports(), o.address()))
}

// ServedAt reports whether the row's entry points lead to this address.
func (s *Session) ServedAt(address string) bool {
	return len(s.EntryPoints) > 0 && slices.Equal(s.EntryPoints, EntryPoints(s.ports(), address))
}

// replacedBy reports whether o is another pod or Sandbox than the row's. It
// waits for the address, so that a replacement seen in several steps counts
// once; an address that went away and came back is another pod's.
func (s *Session) replacedBy(o Observed) bool {
	if o.address() == "" {
		return false
	}
	return !s.ServedAt(o.address()) ||
		(o.Sandbox.UID != "" && s.Sandbox.UID != "" && o.Sandbox.UID != s.Sandbox.UID)
}
