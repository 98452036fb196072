package router

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentcube/agentcube/pkg/api"
	"github.com/agentcube/agentcube/pkg/session"
	"github.com/agentcube/agentcube/pkg/session/sessiontest"
)

// manager is a client of a workload-manager that answers with handler.
func manager(t *testing.T, handler http.HandlerFunc, signer IdentitySigner) *Manager {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return managerAt(t, server.URL, signer)
}

func managerAt(t *testing.T, address string, signer IdentitySigner) *Manager {
	t.Helper()
	base, err := url.Parse(address)
	require.NoError(t, err)
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return NewManager(transport, base, signer, 0)
}

func answering(status int, body string, headers ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

func TestACreateAsksForTheWorkloadOfTheURL(t *testing.T) {
	t.Parallel()
	for kind, route := range map[string]string{
		session.KindAgentRuntime: "/v1/agent-runtime", session.KindCodeInterpreter: "/v1/code-interpreter",
	} {
		for owner, identity := range map[string]string{"": "", "ann": "identity/ann"} {
			m := manager(t, func(w http.ResponseWriter, r *http.Request) {
				assert.Equal(t, http.MethodPost, r.Method)
				assert.Equal(t, route, r.RequestURI)
				assert.Equal(t, identity, r.Header.Get("X-AgentCube-User-Identity"))
				body, _ := io.ReadAll(r.Body)
				assert.JSONEq(t, `{"name":"echo","namespace":"default"}`, string(body))
				// as an existing installation answers
				_, _ = io.WriteString(w, `{"kind":"Sandbox","sessionId":"`+sessiontest.ID(7)+`","sandboxId":"u","sandboxName":"n","entryPoints":[]}`)
			}, &fakeSigner{})
			id, err := m.Create(t.Context(), session.WorkloadRef{Kind: kind, Namespace: "default", Name: "echo"}, owner)
			require.NoError(t, err)
			assert.Equal(t, sessiontest.ID(7), id)
		}
	}
}

func TestRefusalsKeepStatusCodeAndRetryAfter(t *testing.T) {
	t.Parallel()
	for sentence, c := range map[string]struct {
		handler http.HandlerFunc
		want    ManagerError
	}{
		"with a code": {
			answering(429, `{"message":"quota","code":"QUOTA_EXCEEDED","requestId":"r"}`, "Retry-After", "17"),
			ManagerError{429, "QUOTA_EXCEEDED", "quota", "17"},
		},
		"a code of a later version": {
			answering(418, `{"message":"m","code":"TEAPOT"}`), ManagerError{418, "TEAPOT", "m", ""},
		},
		"the template is not there": {
			answering(404, `{"message":"agent runtime not found","code":"TEMPLATE_NOT_FOUND"}`),
			ManagerError{404, "TEMPLATE_NOT_FOUND", `agentruntimes.agentcube.volcano.sh "default/echo" not found`, ""},
		},
		"an existing installation, not there": {
			answering(404, `{"message":"agent runtime not found"}`),
			ManagerError{404, "TEMPLATE_NOT_FOUND", `agentruntimes.agentcube.volcano.sh "default/echo" not found`, ""},
		},
		"an existing installation, not valid": {
			answering(400, `{"message":"name is required"}`), ManagerError{400, "INVALID_REQUEST", "name is required", ""},
		},
		"an existing installation, broken": {
			answering(500, `{"message":"internal server error"}`), ManagerError{500, "INTERNAL", "internal server error", ""},
		},
		"a 503 of something in between": {
			answering(503, `<html>`, "Retry-After", "3"),
			ManagerError{503, "WORKLOAD_MANAGER_UNAVAILABLE", "the workload-manager is unavailable", "3"},
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			t.Parallel()
			_, err := manager(t, c.handler, &fakeSigner{}).Create(t.Context(), echoWorkload, "")
			got, ok := errors.AsType[*ManagerError](err)
			require.True(t, ok, "%v", err)
			assert.Equal(t, c.want, *got)
			a := answerTo(err)
			assert.Equal(t, c.want, ManagerError{a.status, a.code, a.text, a.retryAfter})
		})
	}
}

func TestAnswersOfTheWorkloadManagerThatAreOfNoUse(t *testing.T) {
	t.Parallel()
	good, err := json.Marshal(api.CreateResponse{SessionID: sessiontest.ID(1)})
	require.NoError(t, err)
	for sentence, handler := range map[string]http.HandlerFunc{
		"no JSON":                  answering(200, "<html>"),
		"no session":               answering(200, `{}`),
		"a session that is none":   answering(200, `{"sessionId":"expiry"}`),
		"another status":           answering(201, string(good)),
		"a redirect":               answering(302, string(good), "Location", "/elsewhere"),
		"a 404 of something else":  answering(404, "404 page not found"),
		"a body that breaks":       answering(200, string(good), "Content-Length", "1000"),
		"a connection that breaks": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
	} {
		t.Run(sentence, func(t *testing.T) {
			t.Parallel()
			_, err := manager(t, handler, &fakeSigner{}).Create(t.Context(), echoWorkload, "")
			require.ErrorIs(t, err, ErrManagerUnavailable)
			a := answerTo(err)
			assert.Equal(t, http.StatusBadGateway, a.status)
			assert.Equal(t, api.CodeWorkloadManagerUnavailable, a.code)
		})
	}
	t.Run("nobody listens", func(t *testing.T) {
		t.Parallel()
		_, err := managerAt(t, "http://"+refusing(t), &fakeSigner{}).Create(t.Context(), echoWorkload, "")
		require.ErrorIs(t, err, ErrManagerUnavailable)
	})
}

func TestACreateIsBounded(t *testing.T) {
	t.Parallel()
	m := manager(t, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
	}, &fakeSigner{})
	assert.Equal(t, 130*time.Second, m.timeout)
	m.timeout = 20 * time.Millisecond
	_, err := m.Create(t.Context(), echoWorkload, "")
	require.ErrorIs(t, err, ErrManagerUnavailable)
}

func TestAClientThatLeavesEndsTheCreate(t *testing.T) {
	t.Parallel()
	begun, ended := make(chan struct{}), make(chan struct{})
	m := manager(t, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		close(begun)
		<-r.Context().Done()
		close(ended)
	}, &fakeSigner{})
	ctx, leave := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := m.Create(ctx, echoWorkload, "")
		done <- err
	}()
	<-begun
	leave()
	require.ErrorIs(t, <-done, context.Canceled)
	<-ended
}

func TestWithoutAnIdentityNothingIsAskedFor(t *testing.T) {
	t.Parallel()
	m := manager(t, func(http.ResponseWriter, *http.Request) { assert.Fail(t, "asked") }, &fakeSigner{err: errors.New("no key")})
	_, err := m.Create(t.Context(), echoWorkload, "ann")
	assert.Equal(t, api.CodeJWTSigningFailed, answerTo(err).code)
}

func TestAnUndoDeletesTheSession(t *testing.T) {
	t.Parallel()
	for status, ok := range map[int]bool{200: true, 404: true, 503: false, 302: false} {
		m := manager(t, func(w http.ResponseWriter, r *http.Request) {
			assert.Equal(t, http.MethodDelete, r.Method)
			assert.Equal(t, "/v1/agent-runtime/sessions/"+sessiontest.ID(7), r.RequestURI)
			assert.Equal(t, "identity/ann", r.Header.Get("X-AgentCube-User-Identity"))
			w.WriteHeader(status)
		}, &fakeSigner{})
		err := m.Undo(t.Context(), echoWorkload, sessiontest.ID(7), "ann")
		if ok {
			require.NoError(t, err)
			continue
		}
		require.ErrorIs(t, err, ErrManagerUnavailable)
	}
}
