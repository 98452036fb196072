package store

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"unicode/utf8"

	"github.com/agentcube/agentcube/pkg/session"
)

// encode returns the row of a canonical session. Equal sessions have equal
// rows: that is what lets a script compare them.
func encode(s session.Session) ([]byte, error) {
	var b bytes.Buffer
	separator := byte('{')
	add := func(name string, value []byte) error {
		quoted, err := json.Marshal(name)
		if err != nil {
			return fmt.Errorf("encoding the name %s: %w", name, err)
		}
		b.WriteByte(separator)
		b.Write(quoted)
		b.WriteByte(':')
		b.Write(value)
		separator = ','
		return nil
	}
	for _, f := range fields {
		value, err := f.get(&s)
		if err != nil {
			return nil, fmt.Errorf("encoding %s: %w", f.name, err)
		}
		if value == nil {
			continue
		}
		if err := add(f.name, value); err != nil {
			return nil, err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.Unknown)) {
		if _, ours := known[name]; ours {
			continue
		}
		// Written as it came: an encoder would compact it.
		if err := add(name, s.Unknown[name]); err != nil {
			return nil, err
		}
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// decode reads the row of the session id. Every failure is ErrCorrupt and
// names the id.
func decode(id string, row []byte) (session.Session, error) {
	s, err := parse(row)
	if err == nil && s.ID == "" {
		s.ID = id
	}
	if err == nil && s.ID != id {
		err = fmt.Errorf("it says it is %q", s.ID)
	}
	if err == nil {
		s, err = s.Canonical()
	}
	if err != nil {
		return session.Session{}, fmt.Errorf("session %s: %w: %w", id, ErrCorrupt, err)
	}
	return s, nil
}

func parse(row []byte) (session.Session, error) {
	var s session.Session
	if !utf8.Valid(row) {
		return s, errors.New("not UTF-8")
	}
	var values map[string]json.RawMessage
	if err := json.Unmarshal(row, &values); err != nil {
		return s, err
	}
	if values == nil {
		return s, errors.New("null is no row")
	}
	for name, value := range values {
		f, ok := known[name]
		if !ok {
			if s.Unknown == nil {
				s.Unknown = map[string]json.RawMessage{}
			}
			s.Unknown[name] = value
			continue
		}
		if err := f.set(&s, value); err != nil {
			return s, fmt.Errorf("%s: %w", name, err)
		}
	}
	return s, nil
}
