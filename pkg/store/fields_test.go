package store

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentcube/agentcube/pkg/session"
)

// Plain strings are read without the JSON decoder; nothing else may be taken
// for one.
func TestTextOfEveryFormIsRead(t *testing.T) {
	t.Parallel()
	const id = "0b7f2c9e-58d1-4a52-9c1f-6f6f0d6a7e11"
	row := func(fields string) []byte {
		return []byte(`{"kind":"Sandbox","sandboxNamespace":"team","name":"echo","sessionId":"` + id + `",` + fields + `}`)
	}
	for name, c := range map[string]struct {
		fields string
		want   func(*session.Session)
	}{
		"plain":                       {`"ownerId":"ann","status":"not-ready"`, func(s *session.Session) { s.OwnerID, s.State = "ann", session.StateNotReady }},
		"empty":                       {`"ownerId":"","status":""`, func(*session.Session) {}},
		"null":                        {`"ownerId":null,"status":null,"createdAt":null`, func(*session.Session) {}},
		"with a quote":                {`"ownerId":"a\"b"`, func(s *session.Session) { s.OwnerID = `a"b` }},
		"ending in a backslash":       {`"ownerId":"a\\"`, func(s *session.Session) { s.OwnerID = `a\` }},
		"with a letter by its number": {`"status":"re\u0061dy"`, func(s *session.Session) { s.State = session.StateReady }},
		"beyond ASCII":                {`"ownerId":"Ä漢"`, func(s *session.Session) { s.OwnerID = "Ä漢" }},
		"times": {`"createdAt":"2026-01-02T03:04:05.5+01:00","idleTimeout":"1h30m"`, func(s *session.Session) {
			s.CreatedAt, s.IdleTimeout = time.Date(2026, 1, 2, 2, 4, 5, 500_000_000, time.UTC), 90*time.Minute
		}},
		"times with escapes": {`"createdAt":"2026-01-02T03:04:05\u005a","idleTimeout":"1\u0068"`, func(s *session.Session) {
			s.CreatedAt, s.IdleTimeout = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), time.Hour
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want := session.Session{
				ID: id, Object: session.ObjectRef{Kind: session.KindSandbox, Namespace: "team", Name: "echo"},
				State: session.StateReady,
			}
			c.want(&want)
			got, err := decode(id, row(c.fields))
			require.NoError(t, err)
			assert.Equal(t, want, got)
		})
	}
	for name, fields := range map[string]string{
		"a number for a text": `"ownerId":7`,
		"a text for a number": `"revision":"7"`,
		"no time":             `"createdAt":"soon"`,
		"no duration":         `"idleTimeout":"long"`,
		"a bare line end":     "\"ownerId\":\"a\nb\"",
	} {
		t.Run(name+" is corrupt", func(t *testing.T) {
			t.Parallel()
			_, err := decode(id, row(fields))
			assert.ErrorIs(t, err, ErrCorrupt)
		})
	}
}
