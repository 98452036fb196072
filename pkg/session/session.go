// Package session owns the domain: what a session is, the states it passes
// through, the rules of time that end it, and the transitions that are
// allowed. Every transition is a pure function on a Session value; which of
// two concurrent ones wins is decided by the store, by compare-and-set.
//
// It knows neither Redis nor Kubernetes nor HTTP, and imports the standard
// library only, so that any flow can be run in memory.
package session

import (
	"encoding/json"
	"errors"
	"time"
)

// Sentinels that the methods of a store promise. Adapters translate what
// their dependency returns into these at the edge.
var (
	// ErrNotFound: no row bears this id.
	ErrNotFound = errors.New("session not found")
	// ErrExists: a row bears this id already, and it is not the caller's.
	ErrExists = errors.New("session exists")
	// ErrStale: the row no longer is what the caller believes: another state,
	// another reservation token, another object, a newer resource version.
	ErrStale = errors.New("session changed")
	// ErrUnavailable: the store did not answer, or not in time. Whether a
	// write was applied is not known.
	ErrUnavailable = errors.New("store unavailable")
	// ErrCorrupt: a row is there, but it cannot be read. It is never taken for
	// an absent one, since its sandbox may be running.
	ErrCorrupt = errors.New("row unreadable")
	// ErrInvalid: no row can hold the session that was to be written.
	ErrInvalid = errors.New("session cannot be written")
)

// State is where a session is in its life:
//
//	creating -> ready <-> not-ready -> deleting -> gone
//
// and suspended while its object is. A row that is gone has no state.
type State string

// The values as they stand in a row's "status".
const (
	StateCreating  State = "creating"
	StateReady     State = "ready"
	StateNotReady  State = "not-ready"
	StateSuspended State = "suspended"
	StateDeleting  State = "deleting"
)

// Kinds of the object that carries a session.
const (
	KindSandbox      = "Sandbox"
	KindSandboxClaim = "SandboxClaim"
)

// Kinds of the workload a session is made from.
const (
	KindAgentRuntime    = "AgentRuntime"
	KindCodeInterpreter = "CodeInterpreter"
)

// How a sandbox authenticates the router.
const (
	AuthModePicoD = "picod"
	AuthModeNone  = "none"
)

// ObjectRef names the object that carries a session. An empty UID means
// unknown: the create call has not returned, or the row comes from an
// installation that does not record it.
type ObjectRef struct {
	Kind, Namespace, Name, UID string
}

// Same reports whether both name the same object. A UID that either side does
// not know is not compared.
func (r ObjectRef) Same(o ObjectRef) bool {
	return r.Kind == o.Kind && r.Namespace == o.Namespace && r.Name == o.Name &&
		(r.UID == "" || o.UID == "" || r.UID == o.UID)
}

// String is for messages: "Sandbox default/echo-0w6nv4p1".
func (r ObjectRef) String() string { return r.Kind + " " + r.Namespace + "/" + r.Name }

// WorkloadRef names the template a session was made from. It is zero in rows
// of installations that do not record it.
type WorkloadRef struct {
	Kind, Namespace, Name string
}

// SandboxRef names the Sandbox that serves a session. For a claim it is the
// adopted one, whose name is its own; the UID is its identity.
type SandboxRef struct {
	Name, UID string
}

// EntryPoint is one way into the sandbox.
type EntryPoint struct {
	// Path is the template's pathPrefix, as given there.
	Path string
	// Protocol is HTTP or HTTPS.
	Protocol string
	// Endpoint is host:port without a scheme; an IPv6 host stands in brackets.
	Endpoint string
}

// Port is an entry point of the template, before the sandbox has an address.
type Port struct {
	// Path is the template's pathPrefix, as given there.
	Path string `json:"path"`
	// Protocol is HTTP or HTTPS.
	Protocol string `json:"protocol"`
	Port     int32  `json:"port"`
}

// Creator is the process that reserved a row and the token it did so with.
// Zero in rows of existing installations.
type Creator struct {
	// Process names the heartbeat that shows the creator to be alive.
	Process string
	// Token is unique to the reservation. It stays in the row, so that a
	// commit whose answer was lost recognises itself.
	Token string
}

// Session is one row of the store.
type Session struct {
	ID       string
	Object   ObjectRef
	Workload WorkloadRef
	Sandbox  SandboxRef
	// Ports are the template's entry points; they outlive a sandbox's address.
	// Empty in rows of installations that do not record them.
	Ports []Port
	// EntryPoints is empty unless the sandbox has an address.
	EntryPoints []EntryPoint
	OwnerID     string
	CreatedAt   time.Time
	// ExpiresAt is the hard end of life. Zero: unlimited.
	ExpiresAt time.Time
	// IdleTimeout ends a session that nobody used for so long. Zero: unknown,
	// never idle.
	IdleTimeout time.Duration
	// MaxDuration is the template's bound on ExpiresAt - CreatedAt. Zero:
	// unlimited or unknown.
	MaxDuration time.Duration
	State       State
	// Reason and Message say why a session is not ready or is being deleted.
	Reason, Message string
	// Metadata is what the caller gave, as it came. Empty: none.
	Metadata json.RawMessage
	// AuthMode is AuthModePicoD, AuthModeNone or, unknown, empty.
	AuthMode string
	// KeyID names the router key whose public half the sandbox got.
	KeyID   string
	Creator Creator
	// Installation is the id that the object's label bears.
	Installation string
	// Generation counts the pods and Sandboxes that have served the session,
	// from 1. Zero: unknown.
	Generation int64
	// ResourceVersion of the object that the endpoints rest on.
	ResourceVersion string
	// UnknownUntil is set when the outcome of the object's create call is not
	// known: until then an absent object proves nothing, since the API server
	// may still apply the call.
	UnknownUntil time.Time
	// Attempts counts failed deletions, or, while Pending, failed changes of the
	// object, for their back-off.
	Attempts int
	// Pending is a change of lifetimes that the object may not have followed yet.
	Pending Pending
	// Revision is raised by the store with each write. Zero: a row of an
	// installation that does not count.
	Revision int64
	// Unknown holds the fields of the row that this build does not know. They
	// survive every update.
	Unknown map[string]json.RawMessage
}

// Committed reports whether the session's creator is done with the row: it
// was ready at least once, or comes from an installation that records no
// creator.
func (s Session) Committed() bool {
	return s.Creator.Token == "" || s.Generation > 0
}

// Clone returns a copy that shares nothing mutable with s.
func (s Session) Clone() Session {
	s.Ports = append([]Port(nil), s.Ports...)
	s.EntryPoints = append([]EntryPoint(nil), s.EntryPoints...)
	s.Metadata = append(json.RawMessage(nil), s.Metadata...)
	if s.Unknown != nil {
		unknown := make(map[string]json.RawMessage, len(s.Unknown))
		for k, v := range s.Unknown {
			unknown[k] = append(json.RawMessage(nil), v...)
		}
		s.Unknown = unknown
	}
	return s
}

// Live reports whether the session is there to be used, now or once its
// sandbox is back: neither being created nor being deleted.
func (s Session) Live() bool {
	return s.State != StateCreating && s.State != StateDeleting
}
