package store

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentcube/agentcube/pkg/session"
	"github.com/agentcube/agentcube/pkg/session/sessiontest"
)

// recordedRow is a row as an existing installation stores it.
type recordedRow struct {
	Name         string `json:"name"`
	Key          string `json:"key"`
	Value        string `json:"value"`
	Expiry       string `json:"expiry"`
	LastActivity string `json:"last_activity"`
}

func recordedRows(t testing.TB) []recordedRow {
	t.Helper()
	data, err := os.ReadFile("testdata/rows.json")
	require.NoError(t, err)
	var rows []recordedRow
	require.NoError(t, json.Unmarshal(data, &rows))
	require.NotEmpty(t, rows)
	return rows
}

// names returns the names of an object's fields, in order.
func names(t *testing.T, row string) []string {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(row))
	_, err := d.Token()
	require.NoError(t, err)
	var found []string
	for d.More() {
		name, err := d.Token()
		require.NoError(t, err)
		found = append(found, name.(string))
		var value json.RawMessage
		require.NoError(t, d.Decode(&value))
	}
	return found
}

func TestRecordedRowsAreRewrittenAsTheyWere(t *testing.T) {
	t.Parallel()
	for _, recorded := range recordedRows(t) {
		t.Run(recorded.Name, func(t *testing.T) {
			t.Parallel()
			id := strings.TrimPrefix(recorded.Key, "session:")
			s, err := decode(id, []byte(recorded.Value))
			require.NoError(t, err)
			row, err := encode(s)
			require.NoError(t, err)
			// What we fill in is ours, and stands behind all of theirs.
			require.True(t, bytes.HasPrefix(row, []byte(strings.TrimSuffix(recorded.Value, "}"))), "%s", row)
			ours := names(t, string(row))[len(names(t, recorded.Value)):]
			for _, name := range ours {
				assert.Contains(t, []string{"objectUid", "sandboxName"}, name)
			}
		})
	}
}

func TestRecordedRowsMeanWhatTheySay(t *testing.T) {
	t.Parallel()
	recorded := recordedRows(t)
	read := func(n int) session.Session {
		s, err := decode(strings.TrimPrefix(recorded[n].Key, "session:"), []byte(recorded[n].Value))
		require.NoError(t, err)
		return s
	}
	created := time.Date(2026, 11, 30, 20, 54, 4, 0, time.UTC)
	direct := session.Session{
		ID:          "aea4cea2-6f42-4fbb-b464-82ddb3a1f64b",
		Object:      session.ObjectRef{Kind: "Sandbox", Namespace: "default", Name: "echo-0w6nv4p1"},
		CreatedAt:   created,
		ExpiresAt:   created.Add(8 * time.Hour),
		IdleTimeout: 15 * time.Minute,
	}
	placeholder := direct
	placeholder.State = session.StateCreating
	placeholder.CreatedAt = created.Add(410533519)
	placeholder.ExpiresAt = created.Add(8*time.Hour + 410522858)
	assert.Equal(t, placeholder, read(0))

	ready := direct
	ready.State = session.StateReady
	ready.Object.UID = "103ad0a0-a6a1-431c-81fb-6253dfe676f0" // a direct Sandbox is its own object
	ready.Sandbox = session.SandboxRef{Name: "echo-0w6nv4p1", UID: ready.Object.UID}
	ready.EntryPoints = []session.EntryPoint{{Path: "/", Protocol: "HTTP", Endpoint: "127.10.0.3:8080"}}
	assert.Equal(t, ready, read(1))

	claim := read(2)
	assert.Equal(t, session.ObjectRef{Kind: "SandboxClaim", Namespace: "default", Name: "warm-7u5if1i1"}, claim.Object,
		"the UID is the adopted Sandbox's, not the claim's")
	assert.Equal(t, session.SandboxRef{UID: "d74debb4-30e7-40ce-83f8-93511454ff90"}, claim.Sandbox)
}

func full() session.Session {
	s := sessiontest.Reserved(1, time.Date(2026, 3, 4, 5, 6, 7, 8, time.UTC))
	s.Object.UID, s.Sandbox = "object", session.SandboxRef{Name: "sandbox", UID: "uid"}
	s.EntryPoints = []session.EntryPoint{{Path: "/a", Protocol: "HTTPS", Endpoint: "[::1]:1"}}
	s.State, s.Reason, s.Message = session.StateNotReady, "Reason", `a "message" <&>`
	s.AuthMode, s.KeyID, s.Installation = session.AuthModePicoD, "key", "installation"
	s.Generation, s.ResourceVersion = 3, "12345678901234567890"
	s.UnknownUntil = time.Date(2026, 3, 4, 5, 7, 0, 0, time.UTC)
	s.Attempts, s.Revision = 2, 9007199254740993
	s.Pending = session.Pending{Token: "change", Life: true}
	s.Unknown = map[string]json.RawMessage{"z": json.RawMessage(`[ ]`), "a": json.RawMessage(`1.0e400`)}
	return s
}

const fullRow = `{"kind":"Sandbox","sandboxId":"uid","sandboxNamespace":"default","name":"echo-00000001",` +
	`"entryPoints":[{"path":"/a","protocol":"HTTPS","endpoint":"[::1]:1"}],` +
	`"sessionId":"00000000-0000-4000-8000-000000000001","ownerId":"owner",` +
	`"createdAt":"2026-03-04T05:06:07.000000008Z","expiresAt":"2026-03-04T13:06:07.000000008Z",` +
	`"idleTimeout":"15m0s","status":"not-ready",` +
	`"workload":{"kind":"AgentRuntime","namespace":"default","name":"echo"},"objectUid":"object",` +
	`"sandboxName":"sandbox","ports":[{"path":"/","protocol":"HTTP","port":8080}],"reason":"Reason",` +
	`"message":"a \"message\" \u003c\u0026\u003e","metadata":{"n": 12345678901234567890},"maxDuration":"8h0m0s",` +
	`"authMode":"picod","keyId":"key","creator":{"process":"process","token":"token-1"},` +
	`"installation":"installation","generation":3,"resourceVersion":"12345678901234567890",` +
	`"unknownUntil":"2026-03-04T05:07:00Z","attempts":2,"pending":{"token":"change","life":true},"revision":9007199254740993,"a":1.0e400,"z":[ ]}`

func TestARowHasItsFieldsInOrder(t *testing.T) {
	t.Parallel()
	row, err := encode(full())
	require.NoError(t, err)
	assert.Equal(t, fullRow, string(row)) //nolint:testifylint // the order of the fields counts
	back, err := decode(full().ID, row)
	require.NoError(t, err)
	assert.Equal(t, full(), back)
}

func TestEveryFieldOfOursIsLeftOutWhenEmpty(t *testing.T) {
	t.Parallel()
	s, err := session.Session{
		ID: sessiontest.ID(1), Object: session.ObjectRef{Kind: "SandboxClaim", Namespace: "n", Name: "o"},
	}.Canonical()
	require.NoError(t, err)
	row, err := encode(s)
	require.NoError(t, err)
	//nolint:testifylint // the order of the fields counts
	assert.Equal(t, `{"kind":"SandboxClaim","sandboxId":"","sandboxNamespace":"n","name":"o","entryPoints":null,`+
		`"sessionId":"00000000-0000-4000-8000-000000000001","createdAt":"0001-01-01T00:00:00Z",`+
		`"expiresAt":"0001-01-01T00:00:00Z","idleTimeout":"0s","status":"ready"}`, string(row))
}

func TestAnUnknownFieldCannotTakeTheNameOfAKnownOne(t *testing.T) {
	t.Parallel()
	s := full()
	s.Unknown = map[string]json.RawMessage{"status": json.RawMessage(`"deleting"`)}
	row, err := encode(s)
	require.NoError(t, err)
	assert.Equal(t, 1, bytes.Count(row, []byte(`"status"`)))
}

// minimal is a row with as little as there may be, with one field replaced or
// added.
func minimal(field string) string {
	return `{"kind":"Sandbox","sandboxNamespace":"n","name":"o"` + field + `}`
}

func TestWhatOldRowsLackOrSpellOddlyIsUnderstood(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	cases := map[string]struct {
		row  string
		want func(*session.Session)
	}{
		"without a status it is ready":        {``, func(*session.Session) {}},
		"a null status is none":               {`,"status":null`, func(*session.Session) {}},
		"an empty status is none":             {`,"status":""`, func(*session.Session) {}},
		"a status of a newer build is kept":   {`,"status":"parked"`, func(s *session.Session) { s.State = "parked" }},
		"an empty list of entry points":       {`,"entryPoints":[]`, func(*session.Session) {}},
		"an idle timeout of null":             {`,"idleTimeout":null`, func(*session.Session) {}},
		"an empty idle timeout":               {`,"idleTimeout":""`, func(*session.Session) {}},
		"an idle timeout in nanoseconds":      {`,"idleTimeout":60000000000`, func(s *session.Session) { s.IdleTimeout = time.Minute }},
		"an idle timeout in minutes":          {`,"idleTimeout":"90m"`, func(s *session.Session) { s.IdleTimeout = 90 * time.Minute }},
		"a time without a fraction":           {`,"createdAt":"2026-03-04T05:06:07Z"`, func(s *session.Session) { s.CreatedAt = at }},
		"a time with a fraction":              {`,"createdAt":"2026-03-04T05:06:07.000000001Z"`, func(s *session.Session) { s.CreatedAt = at.Add(1) }},
		"a time of another zone":              {`,"createdAt":"2026-03-04T07:06:07+02:00"`, func(s *session.Session) { s.CreatedAt = at }},
		"a null time":                         {`,"createdAt":null,"expiresAt":null`, func(*session.Session) {}},
		"an empty time":                       {`,"expiresAt":""`, func(*session.Session) {}},
		"unlimited":                           {`,"expiresAt":"0001-01-01T00:00:00Z"`, func(*session.Session) {}},
		"metadata of null is none":            {`,"metadata":null`, func(*session.Session) {}},
		"all null":                            {`,"ownerId":null,"workload":null,"ports":null,"creator":null,"revision":null`, func(*session.Session) {}},
		"a null of an unknown field is kept":  {`,"x":null`, func(s *session.Session) { s.Unknown = map[string]json.RawMessage{"x": json.RawMessage("null")} }},
		"a known name in capitals is unknown": {`,"Status":"x"`, func(s *session.Session) { s.Unknown = map[string]json.RawMessage{"Status": json.RawMessage(`"x"`)} }},
	}
	for meaning, c := range cases {
		t.Run(meaning, func(t *testing.T) {
			t.Parallel()
			want := session.Session{
				ID: sessiontest.ID(1), State: session.StateReady,
				Object: session.ObjectRef{Kind: "Sandbox", Namespace: "n", Name: "o"},
			}
			c.want(&want)
			got, err := decode(sessiontest.ID(1), []byte(minimal(c.row)))
			require.NoError(t, err)
			assert.Equal(t, want, got)
		})
	}
}

func TestGarbageIsCorruptAndNamesItsID(t *testing.T) {
	t.Parallel()
	cases := map[string]string{
		"nothing": ``, "null": `null`, "a list": `[]`, "a text": `"x"`, "a number": `1`,
		"half a row": `{"kind":"Sandbox"`, "a row and more": minimal(``) + `x`,
		"an empty row":            `{}`,
		"another kind":            `{"kind":"Pod","sandboxNamespace":"n","name":"o"}`,
		"no namespace":            `{"kind":"Sandbox","name":"o"}`,
		"no name":                 `{"kind":"Sandbox","sandboxNamespace":"n"}`,
		"not UTF-8":               minimal(",\"x\":\"\xff\""),
		"another session's row":   minimal(`,"sessionId":"00000000-0000-4000-8000-000000000002"`),
		"a time that is none":     minimal(`,"createdAt":"yesterday"`),
		"a time that is a number": minimal(`,"createdAt":1796072044`),
		"a year of five digits":   minimal(`,"createdAt":"9999-12-31T23:59:59-23:00"`),
		"a year before the first": minimal(`,"createdAt":"0000-01-01T00:00:00+01:00"`),
		"a duration that is none": minimal(`,"idleTimeout":"soon"`),
		"a duration of an object": minimal(`,"idleTimeout":{}`),
		"entry points of a text":  minimal(`,"entryPoints":"10.0.0.7"`),
		"ports out of range":      minimal(`,"ports":[{"port":4294967296}]`),
		"a revision of a text":    minimal(`,"revision":"1"`),
		"a revision of a half":    minimal(`,"revision":1.5`),
		"a status of a number":    minimal(`,"status":1`),
	}
	for what, row := range cases {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			_, err := decode(sessiontest.ID(1), []byte(row))
			require.ErrorIs(t, err, ErrCorrupt)
			require.NotErrorIs(t, err, ErrNotFound)
			assert.ErrorContains(t, err, sessiontest.ID(1))
		})
	}
}

func TestYearsThatFitAreKept(t *testing.T) {
	t.Parallel()
	for _, year := range []string{"0000", "9999"} {
		_, err := decode(sessiontest.ID(1), []byte(minimal(`,"createdAt":"`+year+`-06-01T00:00:00Z"`)))
		require.NoError(t, err)
	}
}

func FuzzDecode(f *testing.F) {
	for _, recorded := range recordedRows(f) {
		id := strings.TrimPrefix(recorded.Key, "session:")
		f.Add(strings.ReplaceAll(recorded.Value, id, sessiontest.ID(1)))
	}
	f.Add(fullRow)
	f.Add(minimal(`,"x":[ 1 , {} ],"y":1e999,"\u003c":"<"`))
	f.Add(minimal(`,"idleTimeout":-1,"metadata":{"a":[]},"expiresAt":""`))
	f.Fuzz(func(t *testing.T, row string) {
		id := sessiontest.ID(1)
		first, err := decode(id, []byte(row))
		if err != nil {
			require.ErrorIs(t, err, ErrCorrupt)
			return
		}
		written, err := encode(first)
		require.NoError(t, err, "what can be read can be written")
		second, err := decode(id, written)
		require.NoError(t, err, "what was written can be read: %s", written)
		require.Equal(t, first, second)
		again, err := encode(second)
		require.NoError(t, err)
		require.Equal(t, string(written), string(again))
		var before map[string]json.RawMessage
		require.NoError(t, json.Unmarshal([]byte(row), &before))
		for name, value := range before {
			if _, ours := known[name]; !ours {
				require.Equal(t, string(value), string(second.Unknown[name]), "%q", name)
			}
		}
	})
}
