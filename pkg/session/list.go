package session

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"time"
)

// States are all that a row of ours can have.
var States = []State{StateCreating, StateReady, StateNotReady, StateSuspended, StateDeleting}

// Fields that sessions are listed by.
const (
	ByNamespace = "namespace"
	ByKind      = "kind"
	ByName      = "name"
	ByState     = "state"
	ByOwner     = "owner"
)

// ownerDigits is how much of the SHA-256 of an owner names its list. Which
// sessions are the owner's is decided by the rows.
const ownerDigits = 32

// List is the sessions that have one value in one field, in the order of
// creation. The zero List is that of all sessions.
type List struct {
	Field, Value string
}

// Lists are those that the session stands in. That of all comes first; a field
// that is not known gives none.
func (s Session) Lists() []List {
	return append([]List{{}}, lists(s.Object.Namespace, s.Workload.Kind, s.Workload.Name, s.State, s.OwnerID)...)
}

func lists(namespace, kind, name string, state State, owner string) []List {
	all := []List{
		{ByNamespace, namespace}, {ByKind, kind}, {ByName, name}, {ByState, string(state)}, {ByOwner, hashed(owner)},
	}
	known := all[:0]
	for _, l := range all {
		if l.Value != "" {
			known = append(known, l)
		}
	}
	return known
}

// hashed gives an owner, who may have any name, one of a fixed length.
func hashed(owner string) string {
	if owner == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(owner))
	return hex.EncodeToString(sum[:])[:ownerDigits]
}

// Position is a place in the order in which sessions are listed. The zero
// Position is before all.
type Position struct {
	CreatedAt time.Time
	ID        string
}

// Position of the session. It never changes.
func (s Session) Position() Position { return Position{CreatedAt: s.CreatedAt, ID: s.ID} }

// Compare orders by the time of creation, then by id.
func (p Position) Compare(o Position) int {
	return cmp.Or(p.CreatedAt.Compare(o.CreatedAt), cmp.Compare(p.ID, o.ID))
}

// Query asks for sessions. A filter that is empty lets all pass.
type Query struct {
	// Namespace of the object, which is that of the workload.
	Namespace string
	// Kind and Name of the workload. A session whose row does not tell its
	// workload passes neither.
	Kind, Name string
	State      State
	Owner      string
	// After is the place after which to begin.
	After Position
	// Limit of the page, at least 1.
	Limit int
}

// Lists are those whose common members are asked for, at least one.
func (q Query) Lists() []List {
	if named := lists(q.Namespace, q.Kind, q.Name, q.State, q.Owner); len(named) > 0 {
		return named
	}
	return []List{{}}
}

// Matches reports whether a session is asked for, whatever its place.
func (q Query) Matches(s Session) bool {
	return passes(q.Namespace, s.Object.Namespace) && passes(q.Kind, s.Workload.Kind) &&
		passes(q.Name, s.Workload.Name) && passes(q.State, s.State) && passes(q.Owner, s.OwnerID)
}

func passes[T ~string](filter, value T) bool { return filter == "" || filter == value }

// Listed is a session and when it was last active, in seconds. Zero: unknown.
type Listed struct {
	Session

	LastActivity time.Time
}

// Page is a part of a list, in the order of creation.
type Page struct {
	// Sessions may be fewer than the limit, even none, before the end.
	Sessions []Listed
	// Next is where the next page begins. Zero: there is nothing more.
	Next Position
}
