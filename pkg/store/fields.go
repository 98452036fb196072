package store

import (
	"bytes"
	"encoding/json"
	"time"

	"github.com/agentcube/agentcube/pkg/session"
)

// field is one field of a row.
type field struct {
	name string
	// get returns the value as JSON; nil: the field is left out.
	get func(*session.Session) (json.RawMessage, error)
	set func(*session.Session, json.RawMessage) error
}

// fields are those of a row in the order in which they are written. Existing
// installations know them up to status.
var fields = []field{
	always("kind", func(s *session.Session) *string { return &s.Object.Kind }),
	always("sandboxId", func(s *session.Session) *string { return &s.Sandbox.UID }),
	always("sandboxNamespace", func(s *session.Session) *string { return &s.Object.Namespace }),
	always("name", func(s *session.Session) *string { return &s.Object.Name }),
	{"entryPoints", getEntryPoints, setEntryPoints},
	always("sessionId", func(s *session.Session) *string { return &s.ID }),
	unlessZero("ownerId", func(s *session.Session) *string { return &s.OwnerID }),
	always("createdAt", func(s *session.Session) *instant { return (*instant)(&s.CreatedAt) }),
	always("expiresAt", func(s *session.Session) *instant { return (*instant)(&s.ExpiresAt) }),
	always("idleTimeout", func(s *session.Session) *duration { return (*duration)(&s.IdleTimeout) }),
	always("status", func(s *session.Session) *session.State { return &s.State }),

	unlessZero("workload", func(s *session.Session) *workload { return (*workload)(&s.Workload) }),
	unlessZero("objectUid", func(s *session.Session) *string { return &s.Object.UID }),
	unlessZero("sandboxName", func(s *session.Session) *string { return &s.Sandbox.Name }),
	{"ports", getPorts, setPorts},
	unlessZero("reason", func(s *session.Session) *string { return &s.Reason }),
	unlessZero("message", func(s *session.Session) *string { return &s.Message }),
	{"metadata", getMetadata, setMetadata},
	unlessZero("maxDuration", func(s *session.Session) *duration { return (*duration)(&s.MaxDuration) }),
	unlessZero("authMode", func(s *session.Session) *string { return &s.AuthMode }),
	unlessZero("keyId", func(s *session.Session) *string { return &s.KeyID }),
	unlessZero("creator", func(s *session.Session) *creator { return (*creator)(&s.Creator) }),
	unlessZero("installation", func(s *session.Session) *string { return &s.Installation }),
	unlessZero("generation", func(s *session.Session) *int64 { return &s.Generation }),
	unlessZero("resourceVersion", func(s *session.Session) *string { return &s.ResourceVersion }),
	unlessZero("unknownUntil", func(s *session.Session) *instant { return (*instant)(&s.UnknownUntil) }),
	unlessZero("attempts", func(s *session.Session) *int { return &s.Attempts }),
	unlessZero("pending", func(s *session.Session) *pending { return (*pending)(&s.Pending) }),
	unlessZero("revision", func(s *session.Session) *int64 { return &s.Revision }),
}

var known = func() map[string]field {
	m := make(map[string]field, len(fields))
	for _, f := range fields {
		m[f.name] = f
	}
	return m
}()

func always[T any](name string, at func(*session.Session) *T) field {
	return field{
		name: name,
		get:  func(s *session.Session) (json.RawMessage, error) { return json.Marshal(*at(s)) },
		set:  func(s *session.Session, v json.RawMessage) error { return unmarshal(v, at(s)) },
	}
}

// unmarshal is json.Unmarshal of a value that is known to be valid. Most values
// are plain strings, which take a tenth of its time; a hundred thousand rows are
// read in one go when a program starts.
func unmarshal(v json.RawMessage, into any) error {
	if text, ok := plain(v); ok {
		switch into := into.(type) {
		case *string:
			*into = text
			return nil
		case *session.State:
			*into = session.State(text)
			return nil
		case *instant:
			return into.set(text)
		case *duration:
			return into.set(text)
		}
	}
	return json.Unmarshal(v, into)
}

// plain is the text of a string without escapes.
func plain(v json.RawMessage) (string, bool) {
	if len(v) < 2 || v[0] != '"' || bytes.IndexByte(v, '\\') >= 0 {
		return "", false
	}
	return string(v[1 : len(v)-1]), true
}

func unlessZero[T comparable](name string, at func(*session.Session) *T) field {
	f := always(name, at)
	get := f.get
	f.get = func(s *session.Session) (json.RawMessage, error) {
		var zero T
		if *at(s) == zero {
			return nil, nil
		}
		return get(s)
	}
	return f
}

type (
	workload struct {
		Kind      string `json:"kind"`
		Namespace string `json:"namespace"`
		Name      string `json:"name"`
	}
	creator struct {
		Process string `json:"process"`
		Token   string `json:"token"`
	}
	pending struct {
		Token string `json:"token"`
		Life  bool   `json:"life,omitempty"`
		Idle  bool   `json:"idle,omitempty"`
	}
	entryPoint struct {
		Path     string `json:"path"`
		Protocol string `json:"protocol"`
		Endpoint string `json:"endpoint"`
	}
)

// getEntryPoints writes null for none: an existing router answers 404 to null,
// and would look for the first of an empty list.
func getEntryPoints(s *session.Session) (json.RawMessage, error) {
	var points []entryPoint
	for _, p := range s.EntryPoints {
		points = append(points, entryPoint(p))
	}
	return json.Marshal(points)
}

func setEntryPoints(s *session.Session, v json.RawMessage) error {
	var points []entryPoint
	if err := json.Unmarshal(v, &points); err != nil {
		return err
	}
	for _, p := range points {
		s.EntryPoints = append(s.EntryPoints, session.EntryPoint(p))
	}
	return nil
}

func getPorts(s *session.Session) (json.RawMessage, error) {
	if len(s.Ports) == 0 {
		return nil, nil
	}
	return json.Marshal(s.Ports)
}

func setPorts(s *session.Session, v json.RawMessage) error { return json.Unmarshal(v, &s.Ports) }

func getMetadata(s *session.Session) (json.RawMessage, error) { return s.Metadata, nil }

func setMetadata(s *session.Session, v json.RawMessage) error {
	s.Metadata = v
	return nil
}

// instant is a time in RFC 3339, with the fraction it has. The zero time is
// 0001-01-01T00:00:00Z, which is how a row says unlimited.
type instant time.Time

func (t instant) MarshalJSON() ([]byte, error) {
	return json.Marshal(time.Time(t).UTC().Format(time.RFC3339Nano))
}

func (t *instant) UnmarshalJSON(data []byte) error {
	var text string
	if err := json.Unmarshal(data, &text); err != nil {
		return err
	}
	return t.set(text)
}

func (t *instant) set(text string) error {
	if text == "" {
		return nil
	}
	parsed, err := time.Parse(time.RFC3339, text)
	*t = instant(parsed.UTC())
	return err
}

// duration is a Go duration string. A number, which is how Go itself writes a
// duration, is taken as nanoseconds.
type duration time.Duration

func (d duration) MarshalJSON() ([]byte, error) { return json.Marshal(time.Duration(d).String()) }

func (d *duration) UnmarshalJSON(data []byte) error {
	var text string
	if err := json.Unmarshal(data, &text); err != nil {
		return json.Unmarshal(data, (*int64)(d))
	}
	return d.set(text)
}

func (d *duration) set(text string) error {
	if text == "" {
		return nil
	}
	parsed, err := time.ParseDuration(text)
	*d = duration(parsed)
	return err
}
