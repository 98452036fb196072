package workloadmanager_test

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentcube/agentcube/pkg/api"
	"github.com/agentcube/agentcube/pkg/auth"
	"github.com/agentcube/agentcube/pkg/sandbox"
	"github.com/agentcube/agentcube/pkg/session"
	"github.com/agentcube/agentcube/pkg/workload"
	"github.com/agentcube/agentcube/pkg/workloadmanager"
	"github.com/agentcube/agentcube/pkg/workloadmanager/provision"
)

func TestWhatACreateAnswers(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.verify = func(token string) (string, error) {
		assert.Equal(t, "a.b.c", token)
		return "jane", nil
	}
	r.create = func(_ context.Context, request provision.Request) (session.Session, error) {
		s := made(request)
		s.ExpiresAt = time.Date(2026, 12, 1, 4, 54, 7, 0, time.UTC)
		return s, nil
	}
	answer := r.do(t, http.MethodPost, createRuntime, `{"name":"echo","namespace":"default","kind":"Whatever","more":1}`,
		api.HeaderUserIdentity, "a.b.c", "X-Request-Id", "mine", "Content-Type", "text/plain")
	require.Equal(t, http.StatusOK, answer.Code, "an existing router takes 201 for a failure")
	assert.JSONEq(t, `{"kind":"Sandbox","sessionId":"aea4cea2-6f42-4fbb-b464-82ddb3a1f64b","sandboxId":"uid-1",`+
		`"sandboxName":"echo-0w6nv4p1","entryPoints":[{"path":"/","protocol":"HTTP","endpoint":"10.0.0.7:8080"}],`+
		`"ownerId":"jane","state":"ready","expiresAt":"2026-12-01T04:54:07Z","idleTimeout":900,"generation":1}`,
		answer.Body.String())
	assert.Equal(t, "mine", answer.Header().Get("X-Request-Id"))
	record := r.logs.FilterMessage("request").All()
	require.Len(t, record, 1)
	assert.Equal(t, knownID, record[0].ContextMap()["session"])
}

func TestWhatACreateLeavesOut(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.create = func(_ context.Context, request provision.Request) (session.Session, error) {
		s := made(request)
		s.IdleTimeout, s.EntryPoints = 0, nil
		return s, nil
	}
	answer := r.do(t, http.MethodPost, createRuntime, validBody)
	assert.Contains(t, answer.Body.String(), `"entryPoints":[],"state"`, "no owner, and a list that is none")
	assert.NotContains(t, answer.Body.String(), "expiresAt")
	assert.NotContains(t, answer.Body.String(), "idleTimeout")
}

func TestWhatACreateAsksFor(t *testing.T) {
	t.Parallel()
	t.Run("of an AgentRuntime", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		require.Equal(t, 200, r.do(t, http.MethodPost, createRuntime, `{"name":"echo","namespace":"team","metadata":{"a":[1]}}`).Code)
		require.Len(t, r.created, 1)
		got := r.created[0]
		assert.Equal(t, session.WorkloadRef{Kind: session.KindAgentRuntime, Namespace: "team", Name: "echo"}, got.Workload)
		assert.Equal(t, "uid-of-template", got.WorkloadUID)
		assert.False(t, got.Warm)
		assert.Nil(t, got.Prepare)
		assert.Equal(t, session.Lifetimes{Idle: 15 * time.Minute, Max: 8 * time.Hour}, got.Lifetimes)
		assert.JSONEq(t, `{"a":[1]}`, string(got.Metadata))
		assert.Empty(t, got.OwnerID+got.AuthMode+got.KeyID)
		assert.Equal(t, template(got.Workload).Pod, got.Pod)
		assert.Equal(t, template(got.Workload).Ports, got.Ports)
	})
	t.Run("of a warm CodeInterpreter waits for its pool", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		require.Equal(t, 200, r.do(t, http.MethodPost, createInterpreter, `{"name":"warm","namespace":"team"}`).Code)
		got := r.created[0]
		assert.Equal(t, session.KindCodeInterpreter, got.Workload.Kind)
		assert.True(t, got.Warm)
		assert.Equal(t, session.AuthModeNone, got.AuthMode)
		require.NoError(t, got.Prepare(t.Context()))
		assert.Equal(t, []session.WorkloadRef{got.Workload}, r.waited)
		r.waitErr = workload.ErrPool
		require.ErrorIs(t, got.Prepare(t.Context()), workload.ErrPool)
	})
	t.Run("with picod carries the key", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		require.Equal(t, 200, r.do(t, http.MethodPost, createInterpreter, `{"name":"picod","namespace":"team"}`).Code)
		got := r.created[0]
		assert.Equal(t, session.AuthModePicoD, got.AuthMode)
		assert.Equal(t, "key-1", got.KeyID)
		assert.Contains(t, got.Pod.Spec["containers"].([]any)[0], "env")
	})
	t.Run("with the runtime class of the configuration", func(t *testing.T) {
		t.Parallel()
		r := newRig(t, func(c *workloadmanager.Config) { c.RuntimeClassName = "kata" })
		require.Equal(t, 200, r.do(t, http.MethodPost, createRuntime, validBody).Code)
		assert.Equal(t, "kata", r.created[0].Pod.Spec["runtimeClassName"])
	})
}

func TestLifetimesOfARequest(t *testing.T) {
	t.Parallel()
	const largest = 1<<31 - 1
	for literal, want := range map[string]time.Duration{
		"1": time.Second, "60": time.Minute, "90000": 25 * time.Hour, "null": 0,
		strconv.Itoa(largest): largest * time.Second,
	} {
		r := newRig(t)
		require.Equal(t, 200, r.do(t, http.MethodPost, createRuntime, `{"name":"echo","namespace":"x","ttl":`+literal+`}`).Code, literal)
		assert.Equal(t, session.Lifetimes{Idle: 15 * time.Minute, Max: 8 * time.Hour, TTL: want}, r.created[0].Lifetimes, literal)

		require.Equal(t, 200, r.do(t, http.MethodPost, createRuntime, `{"name":"echo","namespace":"x","idleTimeout":`+literal+`}`).Code, literal)
		if want == 0 {
			want = 15 * time.Minute
		}
		assert.Equal(t, session.Lifetimes{Idle: want, Max: 8 * time.Hour}, r.created[1].Lifetimes, literal)
	}
	for _, literal := range []string{
		"0", "-0", "-1", "1.5", "1.0", `"60"`, "1e30", "1e2", "true", "{}", "[]", strconv.Itoa(largest + 1), "99999999999999999999",
	} {
		for _, field := range []string{"ttl", "idleTimeout"} {
			r := newRig(t)
			answer := r.do(t, http.MethodPost, createRuntime, `{"name":"echo","namespace":"x","`+field+`":`+literal+`}`)
			assert.Equal(t, 400, answer.Code, literal)
			e := problemIn(t, answer)
			assert.Equal(t, api.CodeInvalidRequest, e.Code)
			assert.Equal(t, field+" must be a whole number of seconds from 1 to 2147483647", e.Message)
			assert.Empty(t, r.created)
		}
	}
}

func TestNamesOfARequest(t *testing.T) {
	t.Parallel()
	label63, name253 := strings.Repeat("a", 63), strings.Repeat("a.", 126)+"a"
	for what, c := range map[string]struct{ namespace, name, message string }{
		"neither":                    {"", "", "namespace is required"},
		"no namespace":               {"", "echo", "namespace is required"},
		"no name":                    {"default", "", "name is required"},
		"slash in name":              {"default", "a/b", "name must"},
		"dots in name":               {"default", "..", "name must"},
		"upper case in name":         {"default", "Echo", "name must"},
		"300 characters in name":     {"default", strings.Repeat("a", 300), "name must"},
		"254 characters in name":     {"default", name253 + "a", "name must"},
		"NUL in name":                {"default", `a\u0000b`, "name must"},
		"slash in namespace":         {"a/b", "echo", "namespace must"},
		"dots in namespace":          {"..", "echo", "namespace must"},
		"a dot in namespace":         {"a.b", "echo", "namespace must"},
		"upper case in namespace":    {"Default", "echo", "namespace must"},
		"64 characters in namespace": {label63 + "a", "echo", "namespace must"},
		"NUL in namespace":           {`a\u0000b`, "echo", "namespace must"},
	} {
		r := newRig(t)
		answer := r.do(t, http.MethodPost, createInterpreter, `{"namespace":"`+c.namespace+`","name":"`+c.name+`"}`)
		assert.Equal(t, 400, answer.Code, what)
		e := problemIn(t, answer)
		assert.Equal(t, api.CodeInvalidRequest, e.Code, what)
		assert.Contains(t, e.Message, c.message, what)
		assert.Empty(t, r.created, what)
	}
	r := newRig(t)
	assert.Equal(t, 200, r.do(t, http.MethodPost, createRuntime, `{"namespace":"`+label63+`","name":"`+name253+`"}`).Code)
}

func TestBodies(t *testing.T) {
	t.Parallel()
	const limit = 1 << 20
	pad := func(n int) string {
		return validBody[:len(validBody)-1] + `,"x":"` + strings.Repeat("x", n-len(validBody)-7) + `"}`
	}
	require.Len(t, pad(limit), limit)
	metadata := func(n int) string { return `{"a":"` + strings.Repeat("x", n-8) + `"}` }
	require.Len(t, metadata(4096), 4096)
	with := func(metadata string) string { return `{"name":"echo","namespace":"x","metadata":` + metadata + `}` }
	for what, c := range map[string]struct {
		body    string
		status  int
		message string
	}{
		"empty":                 {"", 400, "Invalid request body"},
		"a list":                {"[]", 400, "Invalid request body"},
		"half a word":           {"nul", 400, "Invalid request body"},
		"a number":              {"1", 400, "Invalid request body"},
		"null":                  {"null", 400, "namespace is required"},
		"two values":            {validBody + validBody, 400, "Invalid request body"},
		"deep nesting":          {`{"name":"echo","namespace":"x","y":` + strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000) + "}", 400, "Invalid request body"},
		"deep metadata":         {with(strings.Repeat("[", 100_000)), 400, "Invalid request body"},
		"duplicate keys":        {`{"name":"echo","name":"other","namespace":"x"}`, 400, "Invalid request body"},
		"invalid UTF-8":         {"{\"name\":\"echo\xff\",\"namespace\":\"x\"}", 400, "Invalid request body"},
		"a name of no string":   {`{"name":1,"namespace":"x"}`, 400, "Invalid request body"},
		"other case is unknown": {`{"Name":"echo","namespace":"x"}`, 400, "name is required"},
		"2 MiB":                 {pad(2 * limit), 413, "request body is larger than 1 MiB"},
		"1 MiB and a byte":      {pad(limit + 1), 413, "request body is larger than 1 MiB"},
		"1 MiB":                 {pad(limit), 200, ""},
		"metadata":              {with(`{}`), 200, ""},
		"no metadata":           {with(`null`), 200, ""},
		"a list as metadata":    {with(`[]`), 400, "metadata must be an object"},
		"text as metadata":      {with(`"x"`), 400, "metadata must be an object"},
		"4 KiB of metadata":     {with(metadata(4096)), 200, ""},
		"a byte more":           {with(metadata(4097)), 400, "metadata must not be larger than 4096 bytes"},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			answer := r.do(t, http.MethodPost, createRuntime, c.body)
			require.Equal(t, c.status, answer.Code)
			if c.status == 200 {
				require.Len(t, r.created, 1)
				return
			}
			assert.Equal(t, c.message, problemIn(t, answer).Message)
			assert.Equal(t, api.CodeInvalidRequest, problemIn(t, answer).Code)
			assert.Empty(t, r.created, "nothing is created")
		})
	}
	r := newRig(t)
	require.Equal(t, 200, r.do(t, http.MethodPost, createRuntime, with(`null`)).Code)
	assert.Nil(t, r.created[0].Metadata)
}

func TestTheIdentityHeader(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		headers []string
		err     error
		status  int
		code    string
	}{
		"is not needed":         {nil, errSecret, 200, ""},
		"no key loaded yet":     {[]string{api.HeaderUserIdentity, "x"}, auth.ErrNoKey, 503, api.CodeNotReady},
		"must not be trusted":   {[]string{api.HeaderUserIdentity, "x"}, auth.ErrInvalidToken, 401, api.CodeUnauthenticated},
		"empty is checked too":  {[]string{api.HeaderUserIdentity, ""}, auth.ErrInvalidToken, 401, api.CodeUnauthenticated},
		"twice is one too many": {[]string{api.HeaderUserIdentity, "x", api.HeaderUserIdentity, "x"}, nil, 401, api.CodeUnauthenticated},
	} {
		for _, target := range []struct{ method, path string }{
			{http.MethodPost, createRuntime},
			{http.MethodPost, createInterpreter},
			{http.MethodDelete, createRuntime + "/sessions/" + knownID},
		} {
			r := newRig(t)
			r.verify = func(string) (string, error) { return "jane", c.err }
			answer := r.do(t, target.method, target.path, validBody, c.headers...)
			require.Equal(t, c.status, answer.Code, what)
			if c.status == 200 {
				continue
			}
			assert.Equal(t, c.code, problemIn(t, answer).Code, what)
			assert.Empty(t, r.created, what)
			assert.Empty(t, r.removed, what)
			if c.status == 401 {
				assert.Equal(t, "invalid identity token", problemIn(t, answer).Message)
			} else {
				assert.Equal(t, "2", answer.Header().Get("Retry-After"))
			}
		}
	}
}

func TestTemplatesThatAreNotThere(t *testing.T) {
	t.Parallel()
	missing := &sandbox.RejectedError{Kind: sandbox.RejectNamespaceMissing, Message: "namespaces not found"}
	for path, message := range map[string]string{createRuntime: "agent runtime not found", createInterpreter: "code interpreter not found"} {
		for what, arm := range map[string]func(r *rig){
			"no template": func(r *rig) {
				r.find = func(context.Context, session.WorkloadRef) (workload.Workload, error) {
					return workload.Workload{}, workload.ErrNotFound
				}
			},
			"no namespace": func(r *rig) {
				r.create = func(context.Context, provision.Request) (session.Session, error) {
					return session.Session{}, missing
				}
			},
			"gone meanwhile": func(r *rig) {
				r.create = func(context.Context, provision.Request) (session.Session, error) {
					return session.Session{}, workload.ErrNotFound
				}
			},
		} {
			r := newRig(t)
			arm(r)
			answer := r.do(t, http.MethodPost, path, validBody)
			assert.Equal(t, 404, answer.Code, what)
			assert.Equal(t, api.CodeTemplateNotFound, problemIn(t, answer).Code, what)
			assert.Equal(t, message, problemIn(t, answer).Message, what)
		}
	}
}
