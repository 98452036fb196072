package router

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/agentcube/agentcube/pkg/api"
	"github.com/agentcube/agentcube/pkg/auth"
	"github.com/agentcube/agentcube/pkg/session"
	"github.com/agentcube/agentcube/pkg/session/sessiontest"
)

func TestFixedRoutes(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for path, want := range map[string]string{
		"/health/live": `{"status":"alive"}`, "/health/ready": `{"status":"ready"}`,
		"/livez": `{"status":"ok"}`, "/readyz": `{"status":"ready"}`, "/metrics": `{"status":"metrics"}`,
	} {
		res, body := r.get(path, "")
		assert.Equal(t, http.StatusOK, res.StatusCode, path)
		assert.JSONEq(t, want, body, path)
	}
}

func TestReadinessFailsWhileDrainingAndLivenessDoesNot(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.router.Health.Drain()
	for path, want := range map[string]int{
		"/health/live": http.StatusOK, "/livez": http.StatusOK,
		"/health/ready": http.StatusServiceUnavailable, "/readyz": http.StatusServiceUnavailable,
	} {
		res, _ := r.get(path, "")
		assert.Equal(t, want, res.StatusCode, path)
	}
}

func TestUnknownRoutesAndMethodsFailInTheRoutersShape(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for _, path := range []string{"/", "/v1", "/v1/namespaces/n/pods/a/invocations/x", "/health", "//health/live"} {
		res, body := r.get(path, "")
		fails(t, res, body, http.StatusNotFound, api.CodeNotFound)
	}
	for _, method := range []string{http.MethodPost, "PURGE"} {
		res, body := r.do(r.request(method, "/health/live", "", nil))
		fails(t, res, body, http.StatusMethodNotAllowed, api.CodeMethodNotAllowed)
	}
}

func TestEveryMethodReachesTheSandbox(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := newSandbox(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("X-Body", string(body))
	})
	id := r.ready(s.endpoint())
	methods := []string{
		http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete,
		http.MethodOptions, http.MethodTrace, "PROPFIND", "PURGE",
	}
	for _, method := range methods {
		for _, body := range []string{"", "payload"} {
			var reader io.Reader
			if body != "" {
				reader = strings.NewReader(body)
			}
			res, text := r.do(r.request(method, echoPath+"/x", id, reader))
			require.Equal(t, http.StatusOK, res.StatusCode, text)
			assert.Equal(t, method, s.last(t).Method)
			assert.Equal(t, body, res.Header.Get("X-Body"), method)
		}
	}
}

func TestTheSandboxsAnswerPassesUntouched(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for _, status := range []int{200, 204, 302, 304, 401, 404, 409, 418, 429, 500, 502, 503} {
		s := newSandbox(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-From", "application")
			w.Header().Set("Location", "/elsewhere")
			w.Header().Add("Set-Cookie", "a=1")
			w.Header().Add("Set-Cookie", "b=2")
			w.Header()["Content-Type"] = nil
			w.WriteHeader(status)
			if status != http.StatusNoContent && status != http.StatusNotModified {
				_, _ = io.WriteString(w, "of the application")
			}
		})
		id := r.ready(s.endpoint())
		res, body := r.get(echoPath+"/x", id)
		assert.Equal(t, status, res.StatusCode)
		assert.Equal(t, "application", res.Header.Get("X-From"))
		assert.Equal(t, "/elsewhere", res.Header.Get("Location"))
		assert.Equal(t, []string{"a=1", "b=2"}, res.Header.Values("Set-Cookie"))
		assert.Empty(t, res.Header.Values("Content-Type"))
		assert.NotContains(t, body, "code")
	}
}

func TestASandboxCannotNameAnotherSession(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := newSandbox(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Add(api.HeaderSessionID, "forged")
		w.Header().Add(api.HeaderSessionID, "twice")
		w.Header().Set(api.HeaderSessionGeneration, "99")
	})
	id := r.ready(s.endpoint(), func(s *session.Session) { s.Generation = 7 })

	res, _ := r.get(echoPath+"/x", id)

	assert.Equal(t, []string{id}, res.Header.Values(api.HeaderSessionID))
	assert.Equal(t, []string{"7"}, res.Header.Values(api.HeaderSessionGeneration))
}

func TestWhatARowAllows(t *testing.T) {
	t.Parallel()
	none := func(*session.Session) {}
	for sentence, c := range map[string]struct {
		change func(*session.Session)
		status int
		code   string
		retry  bool
	}{
		"ready":                        {none, http.StatusOK, "", false},
		"a row that does not say so":   {func(s *session.Session) { s.Workload = session.WorkloadRef{}; s.State = "" }, http.StatusOK, "", false},
		"not expired yet":              {func(s *session.Session) { s.ExpiresAt = s.CreatedAt.Add(time.Hour) }, http.StatusOK, "", false},
		"an owner, callers anonymous":  {func(s *session.Session) { s.OwnerID = "someone" }, http.StatusOK, "", false},
		"creating":                     {func(s *session.Session) { s.State, s.EntryPoints = session.StateCreating, nil }, 503, api.CodeSandboxNotReady, true},
		"not ready":                    {func(s *session.Session) { s.State = session.StateNotReady }, 503, api.CodeSandboxNotReady, true},
		"a state of a later version":   {func(s *session.Session) { s.State = "thawing" }, 503, api.CodeSandboxNotReady, true},
		"suspended":                    {func(s *session.Session) { s.State = session.StateSuspended }, 503, api.CodeSessionSuspended, true},
		"deleting":                     {func(s *session.Session) { s.State = session.StateDeleting }, 404, api.CodeSessionNotFound, false},
		"expired":                      {func(s *session.Session) { s.ExpiresAt = s.CreatedAt.Add(-time.Second) }, 404, api.CodeSessionNotFound, false},
		"of another name":              {func(s *session.Session) { s.Workload.Name = "other" }, 409, api.CodeSessionTargetMismatch, false},
		"of another namespace":         {func(s *session.Session) { s.Workload.Namespace = "other" }, 409, api.CodeSessionTargetMismatch, false},
		"of another kind":              {func(s *session.Session) { s.Workload.Kind = session.KindCodeInterpreter }, 409, api.CodeSessionTargetMismatch, false},
		"deleting and of another name": {func(s *session.Session) { s.Workload.Name, s.State = "other", session.StateDeleting }, 404, api.CodeSessionNotFound, false},
		"ready without an entry point": {func(s *session.Session) { s.EntryPoints = nil }, 502, api.CodeSandboxUnreachable, false},
		"an endpoint that is none":     {func(s *session.Session) { s.EntryPoints[0].Endpoint = "169.254.169.254:80" }, 502, api.CodeSandboxUnreachable, false},
		"an endpoint that is a name":   {func(s *session.Session) { s.EntryPoints[0].Endpoint = "localhost:80" }, 502, api.CodeSandboxUnreachable, false},
	} {
		t.Run(sentence, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			s := newSandbox(t, nil)
			id := r.ready(s.endpoint(), c.change)
			res, body := r.get(echoPath+"/x", id)
			assert.Equal(t, id, res.Header.Get(api.HeaderSessionID))
			assert.Equal(t, "1", res.Header.Get(api.HeaderSessionGeneration))
			assert.Equal(t, c.retry, res.Header.Get("Retry-After") != "")
			assert.Zero(t, r.creator.count(), "the session was replaced")
			if c.code != "" {
				fails(t, res, body, c.status, c.code)
				return
			}
			require.Equal(t, c.status, res.StatusCode, body)
		})
	}
}

func TestASessionThatIsNotThereIsNotReplaced(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	const unknown = "00000000-0000-4000-8000-000000000000"

	res, body := r.get(echoPath+"/x", unknown)

	fails(t, res, body, http.StatusNotFound, api.CodeSessionNotFound)
	assert.Contains(t, body, `sessions.agentcube.volcano.sh \"`+unknown+`\" not found`)
	assert.Equal(t, unknown, res.Header.Get(api.HeaderSessionID))
	for _, id := range []string{"expiry", "*", strings.Repeat("a", 10<<10)} {
		res, body := r.get(echoPath+"/x", id)
		fails(t, res, body, http.StatusNotFound, api.CodeSessionNotFound)
		assert.Empty(t, res.Header.Values(api.HeaderSessionID))
	}
	res = r.raw("GET "+echoPath+"/x HTTP/1.1", api.HeaderSessionID+":")
	assert.Equal(t, http.StatusNotFound, res.StatusCode)
	assert.Zero(t, r.creator.count())
}

func TestAStoreThatDoesNotAnswerIsNotAnAbsence(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	id := r.ready("10.0.0.7:80")
	for status, err := range map[int]error{
		http.StatusServiceUnavailable:  fmt.Errorf("dialling: %w", session.ErrUnavailable),
		http.StatusInternalServerError: fmt.Errorf("decoding: %w", session.ErrCorrupt),
	} {
		r.store.FailNext("Get", err)
		res, body := r.get(echoPath+"/x", id)
		code := map[int]string{503: api.CodeStoreUnavailable, 500: api.CodeInternal}[status]
		fails(t, res, body, status, code)
		assert.Equal(t, id, res.Header.Get(api.HeaderSessionID))
		assert.NotContains(t, body, "dialling", "the cause is private")
	}
}

func TestWithoutASessionOneIsCreatedAndUsed(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := newSandbox(t, nil)
	r.creator.create = func(_ context.Context, workload session.WorkloadRef, owner string) (string, error) {
		assert.Equal(t, echoWorkload, workload)
		assert.Empty(t, owner)
		return r.ready(s.endpoint()), nil
	}

	res, body := r.get(echoPath+"/x?y", "")

	require.Equal(t, http.StatusOK, res.StatusCode, body)
	assert.Equal(t, sessiontest.ID(1), res.Header.Get(api.HeaderSessionID))
	assert.Equal(t, "/x?y", s.last(t).RequestURI)
	assert.Equal(t, 1, r.creator.count())
}

func TestASessionThatNobodyKnowsIsUndone(t *testing.T) {
	t.Parallel()
	for sentence, c := range map[string]struct {
		leaves string // when the client does
		undone bool
	}{
		"it leaves while the session is made":       {"create", true},
		"it leaves before the sandbox answers":      {"wait", true},
		"it leaves when it was told the session":    {"answer", false},
		"it leaves, and the session was there":      {"known", false},
		"it stays, and the sandbox cannot be found": {"never", false},
	} {
		t.Run(sentence, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			ctx, leave := context.WithCancel(t.Context())
			defer leave()
			s := newSandbox(t, func(w http.ResponseWriter, r *http.Request) {
				if c.leaves == "answer" {
					_ = http.NewResponseController(w).Flush()
				} else {
					leave()
				}
				<-r.Context().Done()
			})
			endpoint := s.endpoint()
			if c.leaves == "never" {
				endpoint = refusing(t)
			}
			r.creator.create = func(ctx context.Context, _ session.WorkloadRef, _ string) (string, error) {
				if c.leaves == "create" {
					leave()
					<-ctx.Done()
				}
				return r.ready(endpoint), nil
			}
			id := ""
			if c.leaves == "known" {
				id = r.ready(endpoint)
			}
			res, err := r.client().Do(r.request(http.MethodGet, echoPath+"/x", id, nil).WithContext(ctx))
			if err == nil {
				assert.Equal(t, sessiontest.ID(1), res.Header.Get(api.HeaderSessionID))
				_ = res.Body.Close()
			}
			leave()
			r.server.Close() // when it returns, so have the handlers
			want := []string(nil)
			if c.undone {
				want = []string{sessiontest.ID(1)}
			}
			assert.Equal(t, want, r.creator.undoneIDs())
		})
	}
}

func TestRefusalsOfTheWorkloadManagerPass(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.creator.create = func(context.Context, session.WorkloadRef, string) (string, error) {
		return "", fmt.Errorf("creating: %w", &ManagerError{429, api.CodeQuotaExceeded, "quota", "17"})
	}
	res, body := r.get(echoPath+"/x", "")
	fails(t, res, body, http.StatusTooManyRequests, api.CodeQuotaExceeded)
	assert.Equal(t, "17", res.Header.Get("Retry-After"))
	assert.Contains(t, body, `"quota"`)

	r.creator.create = nil
	res, body = r.get(echoPath+"/x", "")
	fails(t, res, body, http.StatusBadGateway, api.CodeWorkloadManagerUnavailable)
}

func TestSigningThatFailsIsTold(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.signer.err = errors.New("no key")
	id := r.ready("10.0.0.7:80")
	res, body := r.get(echoPath+"/x", id)
	fails(t, res, body, http.StatusInternalServerError, api.CodeJWTSigningFailed)
}

func TestCallersAreAuthenticated(t *testing.T) {
	t.Parallel()
	for sentence, c := range map[string]struct {
		auth   fakeAuth
		owner  string
		status int
		code   string
	}{
		"no credentials":          {fakeAuth{err: auth.ErrUnauthorized}, "", 401, api.CodeUnauthorized},
		"the role is missing":     {fakeAuth{err: auth.ErrForbidden}, "", 403, api.CodeForbidden},
		"the issuer is not known": {fakeAuth{err: auth.ErrNotReady}, "", 503, api.CodeNotReady},
		"the owner":               {fakeAuth{user: auth.Principal{Subject: "ann"}}, "ann", 200, ""},
		"another owner":           {fakeAuth{user: auth.Principal{Subject: "ann"}}, "bob", 403, api.CodeForbidden},
		"an unknown owner":        {fakeAuth{user: auth.Principal{Subject: "ann"}}, "", 200, ""},
	} {
		t.Run(sentence, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, func(d *Dependencies, _ *Options) { d.Authenticator = c.auth })
			s := newSandbox(t, nil)
			id := r.ready(s.endpoint(), func(s *session.Session) { s.OwnerID = c.owner })
			res, body := r.get(echoPath+"/x", id)
			if c.code != "" {
				fails(t, res, body, c.status, c.code)
				assert.Equal(t, c.status == http.StatusUnauthorized, res.Header.Get("WWW-Authenticate") != "")
				return
			}
			require.Equal(t, c.status, res.StatusCode, body)
			assert.Equal(t, "Bearer token/"+id+"//ann", s.last(t).Header.Get("Authorization"))
		})
	}
}

func TestTheCreatedSessionIsTheCallers(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(d *Dependencies, _ *Options) {
		d.Authenticator = fakeAuth{user: auth.Principal{Subject: "ann"}}
	})
	s := newSandbox(t, nil)
	r.creator.create = func(_ context.Context, _ session.WorkloadRef, owner string) (string, error) {
		return r.ready(s.endpoint(), func(s *session.Session) { s.OwnerID = owner }), nil
	}
	res, body := r.get(echoPath+"/x", "")
	require.Equal(t, http.StatusOK, res.StatusCode, body)
	assert.Equal(t, "ann", r.rows.Rows()[sessiontest.ID(1)].OwnerID)
}

func TestOverTheLimitRequestsAreRefusedAndHealthIsNot(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(_ *Dependencies, o *Options) { o.MaxConcurrentRequests = 1 })
	hold := make(chan struct{})
	s := newSandbox(t, func(http.ResponseWriter, *http.Request) { <-hold })
	id := r.ready(s.endpoint())
	done := make(chan int, 1)
	go func() {
		res, err := r.client().Do(r.request(http.MethodGet, echoPath+"/x", id, nil))
		if assert.NoError(t, err) {
			_ = res.Body.Close()
			done <- res.StatusCode
		}
	}()
	s.last(t) // the first is in flight

	res, body := r.get(echoPath+"/x", id)
	fails(t, res, body, http.StatusTooManyRequests, api.CodeServerOverloaded)
	assert.NotEmpty(t, res.Header.Get("Retry-After"))
	res, _ = r.get("/health/live", "")
	assert.Equal(t, http.StatusOK, res.StatusCode)

	close(hold)
	assert.Equal(t, http.StatusOK, <-done)
	res, _ = r.get(echoPath+"/x", id)
	assert.Equal(t, http.StatusOK, res.StatusCode, "the slot is free again")
}

func TestEveryRequestHasOneRecordWithItsSessionAndCode(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := newSandbox(t, nil)
	id := r.ready(s.endpoint())
	r.get(echoPath+"/x", id)
	r.get(echoPath+"/x", sessiontest.ID(2))
	r.server.Close() // the records are written when the handlers are done

	records := r.logs.FilterMessage("request").All()
	require.Len(t, records, 2)
	first, second := records[0].ContextMap(), records[1].ContextMap()
	assert.Equal(t, id, first["session"])
	assert.Empty(t, first["code"])
	assert.EqualValues(t, http.StatusOK, first["status"])
	assert.Equal(t, sessiontest.ID(2), second["session"])
	assert.Equal(t, api.CodeSessionNotFound, second["code"])
	assert.EqualValues(t, http.StatusNotFound, second["status"])
}

// Go's server lets any text in as the method of HTTP/2.
func TestAMethodThatIsNoneIsRefusedBeforeASessionIsMade(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	conn := r.dial()
	_, err := io.WriteString(conn, http2.ClientPreface)
	require.NoError(t, err)
	framer := http2.NewFramer(conn, conn)
	framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	require.NoError(t, framer.WriteSettings())
	var block bytes.Buffer
	encoder := hpack.NewEncoder(&block)
	for _, f := range [][2]string{
		{":method", "GET /other HTTP/1.1"}, {":scheme", "http"}, {":authority", "router.test"}, {":path", echoPath + "/x"},
	} {
		require.NoError(t, encoder.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]}))
	}
	require.NoError(t, framer.WriteHeaders(http2.HeadersFrameParam{
		StreamID: 1, BlockFragment: block.Bytes(), EndStream: true, EndHeaders: true,
	}))
	for {
		frame, err := framer.ReadFrame()
		require.NoError(t, err)
		if head, ok := frame.(*http2.MetaHeadersFrame); ok {
			assert.Equal(t, "400", head.PseudoValue("status"))
			break
		}
	}
	assert.Zero(t, r.creator.count())
}
