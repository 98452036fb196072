package workloadmanager_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentcube/agentcube/pkg/api"
	"github.com/agentcube/agentcube/pkg/auth"
	"github.com/agentcube/agentcube/pkg/session"
	"github.com/agentcube/agentcube/pkg/workload"
	"github.com/agentcube/agentcube/pkg/workloadmanager/provision"
)

func TestWithoutTheHeadersNothingIsNew(t *testing.T) {
	t.Parallel()
	for name, headers := range map[string][]string{
		"no header":                         nil,
		"preferences that are none of ours": {"Prefer", `wait=10, return=minimal; foo="respond-async"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			answer := r.do(t, http.MethodPost, createRuntime, validBody, headers...)
			require.Equal(t, http.StatusOK, answer.Code)
			assert.Len(t, r.created, 1)
			assert.Empty(t, r.submitted)
			assert.Empty(t, answer.Header().Get("Location"))
			assert.Empty(t, answer.Header().Get("Preference-Applied"))
		})
	}
}

func TestAnAsyncCreate(t *testing.T) {
	t.Parallel()
	for name, headers := range map[string][]string{
		"as the contract has it":    {"Prefer", "respond-async"},
		"in capitals":               {"PREFER", "Respond-Async"},
		"among others":              {"Prefer", `foo="a, b\" c"; bar , respond-async;x=1, wait=10`},
		"in another line":           {"Prefer", "wait=10", "Prefer", "respond-async"},
		"with a value that is none": {"Prefer", `respond-async = ""`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.submit = func(ctx context.Context, call provision.Call) (session.Session, error) {
				order, err := call.Order(ctx)
				require.NoError(t, err)
				s := made(order)
				s.State, s.Generation, s.EntryPoints, s.Sandbox, s.Object.UID = session.StateCreating, 0, nil, session.SandboxRef{}, ""
				s.ExpiresAt = time.Date(2026, 12, 1, 4, 54, 7, 0, time.UTC)
				return s, nil
			}
			answer := r.do(t, http.MethodPost, createRuntime, validBody, headers...)
			require.Equal(t, http.StatusAccepted, answer.Code)
			assert.Equal(t, "/v1/sessions/"+knownID, answer.Header().Get("Location"))
			assert.Equal(t, "respond-async", answer.Header().Get("Preference-Applied"))
			assert.JSONEq(t, `{"kind":"Sandbox","sessionId":"`+knownID+`","sandboxId":"","sandboxName":"echo-0w6nv4p1",`+
				`"entryPoints":[],"state":"creating","expiresAt":"2026-12-01T04:54:07Z","idleTimeout":900,"generation":0}`,
				answer.Body.String())
			require.Len(t, r.submitted, 1)
			assert.True(t, r.submitted[0].Async)
			assert.Zero(t, r.submitted[0].Key)
		})
	}
}

func TestPreferencesThatCannotBeReadAreNone(t *testing.T) {
	t.Parallel()
	for _, value := range []string{"", ",", ";", "=", `"`, `"respond-async"`, "respond-async=no", "respond-asynchronous", `x="\`, `x="respond-async, respond-async`} {
		t.Run(value, func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, http.StatusOK, newRig(t).do(t, http.MethodPost, createRuntime, validBody, "Prefer", value).Code)
		})
	}
}

func TestWhatIsWrongBeforeTheReservationIsAnsweredToAnAsyncCreateToo(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		body   string
		arm    func(*rig)
		status int
		code   string
	}{
		"a body":       {"{", func(*rig) {}, 400, api.CodeInvalidRequest},
		"no template":  {validBody, func(r *rig) { r.find = noTemplate }, 404, api.CodeTemplateNotFound},
		"no key":       {`{"name":"picod","namespace":"default"}`, func(r *rig) { r.noKey = true }, 503, api.CodeNotReady},
		"no store":     {validBody, func(r *rig) { r.submit = fails(session.ErrUnavailable) }, 503, api.CodeStoreUnavailable},
		"bad identity": {validBody, func(r *rig) { r.verify = func(string) (string, error) { return "", auth.ErrInvalidToken } }, 401, api.CodeUnauthenticated},
	}
	for name, c := range cases {
		for manner, headers := range map[string][]string{
			"async": {"Prefer", "respond-async"}, "with a key": {"Idempotency-Key", "k"},
		} {
			t.Run(name+", "+manner, func(t *testing.T) {
				t.Parallel()
				r := newRig(t)
				c.arm(r)
				if name == "bad identity" {
					headers = append([]string{api.HeaderUserIdentity, "x"}, headers...)
				}
				answer := r.do(t, http.MethodPost, createRuntime, c.body, headers...)
				require.Equal(t, c.status, answer.Code)
				assert.Equal(t, c.code, problemIn(t, answer).Code)
				assert.Empty(t, answer.Header().Get("Location"))
				assert.Empty(t, answer.Header().Get("Preference-Applied"))
			})
		}
	}
}

func noTemplate(context.Context, session.WorkloadRef) (workload.Workload, error) {
	return workload.Workload{}, workload.ErrNotFound
}

func fails(err error) func(context.Context, provision.Call) (session.Session, error) {
	return func(context.Context, provision.Call) (session.Session, error) { return session.Session{}, err }
}

func TestWhatAnIdempotencyKeyMayBe(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		keys    []string
		message string // empty: it may
	}{
		"one byte":          {[]string{"k"}, ""},
		"255 bytes":         {[]string{strings.Repeat("k", 255)}, ""},
		"any bytes":         {[]string{"\"a b\", ü\xff"}, ""},
		"256 bytes":         {[]string{strings.Repeat("k", 256)}, "Idempotency-Key must not be longer than 255 bytes"},
		"none":              {[]string{""}, "Idempotency-Key must not be empty"},
		"two":               {[]string{"a", "b"}, "Idempotency-Key must be given once"},
		"twice the same":    {[]string{"a", "a"}, "Idempotency-Key must be given once"},
		"one that is empty": {[]string{"a", ""}, "Idempotency-Key must be given once"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			var headers []string
			for _, k := range c.keys {
				headers = append(headers, "Idempotency-Key", k)
			}
			answer := r.do(t, http.MethodPost, createRuntime, validBody, headers...)
			if c.message == "" {
				require.Equal(t, http.StatusOK, answer.Code)
				require.Len(t, r.submitted, 1)
				assert.NotZero(t, r.submitted[0].Key)
				return
			}
			require.Equal(t, http.StatusBadRequest, answer.Code)
			problem := problemIn(t, answer)
			assert.Equal(t, c.message, problem.Message)
			assert.Equal(t, "INVALID_REQUEST", problem.Code)
			assert.Empty(t, r.submitted)
		})
	}
}

// keyOf is what a request's key is made into.
func keyOf(t *testing.T, route, body string, headers ...string) session.RetryKey {
	t.Helper()
	r := newRig(t)
	r.verify = func(token string) (string, error) { return token, nil }
	require.Equal(t, http.StatusOK, r.do(t, http.MethodPost, route, body, headers...).Code)
	require.Len(t, r.submitted, 1)
	return r.submitted[0].Key
}

func TestWhatAKeyBelongsTo(t *testing.T) {
	t.Parallel()
	base := keyOf(t, createRuntime, validBody, "Idempotency-Key", "secret")
	assert.Len(t, base.Name, 64)
	assert.NotContains(t, base.Name, "secret")
	for name, c := range map[string]struct {
		route, body string
		headers     []string
		same        bool
	}{
		"the same":            {createRuntime, validBody, []string{"Idempotency-Key", "secret"}, true},
		"another name":        {createRuntime, `{"name":"other","namespace":"default"}`, []string{"Idempotency-Key", "secret"}, true},
		"another key":         {createRuntime, validBody, []string{"Idempotency-Key", "Secret"}, false},
		"another route":       {createInterpreter, validBody, []string{"Idempotency-Key", "secret"}, false},
		"another namespace":   {createRuntime, `{"name":"echo","namespace":"other"}`, []string{"Idempotency-Key", "secret"}, false},
		"an owner":            {createRuntime, validBody, []string{"Idempotency-Key", "secret", api.HeaderUserIdentity, "jane"}, false},
		"parts that run over": {createRuntime, `{"name":"echo","namespace":"defaults"}`, []string{"Idempotency-Key", "ecret"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := keyOf(t, c.route, c.body, c.headers...)
			assert.Equal(t, c.same, got.Name == base.Name)
		})
	}
	jane := keyOf(t, createRuntime, validBody, "Idempotency-Key", "secret", api.HeaderUserIdentity, "jane")
	john := keyOf(t, createRuntime, validBody, "Idempotency-Key", "secret", api.HeaderUserIdentity, "john")
	assert.NotEqual(t, jane.Name, john.Name)
}

func TestWhatTheSameBodyIs(t *testing.T) {
	t.Parallel()
	const full = `{"name":"echo","namespace":"default","ttl":60,"idleTimeout":30,"metadata":{"a":1,"b":{"c":"ü","d":[1,2]}}}`
	base := keyOf(t, createRuntime, full, "Idempotency-Key", "k")
	for name, c := range map[string]struct {
		body string
		same bool
	}{
		"byte for byte": {full, true},
		"other spaces, order and escapes, and fields that mean nothing": {
			"\n" + `{"metadata": {"b":{"d":[1, 2],"c":"\u00fc"},"a":1}, "idleTimeout":30, "ttl":60,` +
				`"namespace":"default", "name":"\u0065cho", "kind":"Sandbox", "more":[]}`, true,
		},
		"another name":            {strings.Replace(full, "echo", "other", 1), false},
		"another ttl":             {strings.Replace(full, "60", "61", 1), false},
		"another idle timeout":    {strings.Replace(full, "30", "31", 1), false},
		"no ttl":                  {strings.Replace(full, `"ttl":60,`, "", 1), false},
		"the lifetimes swapped":   {strings.Replace(strings.Replace(full, "60", "30", 1), `"idleTimeout":30`, `"idleTimeout":60`, 1), false},
		"other metadata":          {strings.Replace(full, `"a":1`, `"a":2`, 1), false},
		"another order of a list": {strings.Replace(full, `[1,2]`, `[2,1]`, 1), false},
		"large numbers that a float takes for the same": {strings.Replace(full, `"a":1`, `"a":1.00000000000000000001`, 1), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := keyOf(t, createRuntime, c.body, "Idempotency-Key", "k")
			assert.Equal(t, c.same, got.Body == base.Body)
			assert.Equal(t, base.Name, got.Name)
		})
	}
	t.Run("null is absent", func(t *testing.T) {
		t.Parallel()
		assert.Equal(t, keyOf(t, createRuntime, validBody, "Idempotency-Key", "k"),
			keyOf(t, createRuntime, `{"name":"echo","namespace":"default","ttl":null,"metadata":null}`, "Idempotency-Key", "k"))
	})
	t.Run("no metadata are not empty ones, which are kept", func(t *testing.T) {
		t.Parallel()
		assert.NotEqual(t, keyOf(t, createRuntime, validBody, "Idempotency-Key", "k"),
			keyOf(t, createRuntime, `{"name":"echo","namespace":"default","metadata":{}}`, "Idempotency-Key", "k"))
	})
}

func TestWhatAKeyIsRefusedWith(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		err    error
		status int
		code   string
	}{
		"another body":             {provision.ErrKeyReused, 422, "IDEMPOTENCY_KEY_REUSED"},
		"a session that ended":     {provision.ErrEnded, 409, "SESSION_ENDED"},
		"a wait that was too long": {&provision.TimeoutError{Waiting: "it"}, 504, "CREATE_TIMEOUT"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.submit = fails(c.err)
			answer := r.do(t, http.MethodPost, createInterpreter, validBody, "Idempotency-Key", "k", "Prefer", "respond-async")
			require.Equal(t, c.status, answer.Code)
			assert.Equal(t, c.code, problemIn(t, answer).Code)
		})
	}
}

func FuzzCreateHeaders(f *testing.F) {
	for _, seed := range [][2]string{
		{"", ""}, {"k", "respond-async"}, {"\"k\"", `a="b,c\"`}, {strings.Repeat("k", 256), ";;,,=="}, {"\xff", "\x00"},
	} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, key, prefer string) {
		r := newRig(t)
		answer := r.do(t, http.MethodPost, createRuntime, validBody, "Idempotency-Key", key, "Prefer", prefer)
		require.True(t, json.Valid(answer.Body.Bytes()))
		if len(key) == 0 || len(key) > 255 {
			require.Equal(t, http.StatusBadRequest, answer.Code)
			assert.Empty(t, r.submitted)
			return
		}
		require.Len(t, r.submitted, 1)
		call := r.submitted[0]
		assert.Len(t, call.Key.Name, 64)
		if call.Async {
			require.Equal(t, http.StatusAccepted, answer.Code)
			assert.Contains(t, strings.ToLower(prefer), "respond-async")
		} else {
			require.Equal(t, http.StatusOK, answer.Code)
		}
	})
}
