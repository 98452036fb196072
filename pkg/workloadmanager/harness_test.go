package workloadmanager_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
	"k8s.io/utils/clock"

	"github.com/agentcube/agentcube/pkg/api"
	"github.com/agentcube/agentcube/pkg/api/openapi/openapitest"
	"github.com/agentcube/agentcube/pkg/auth"
	"github.com/agentcube/agentcube/pkg/httpserver"
	"github.com/agentcube/agentcube/pkg/sandbox"
	"github.com/agentcube/agentcube/pkg/session"
	"github.com/agentcube/agentcube/pkg/session/sessiontest"
	"github.com/agentcube/agentcube/pkg/workload"
	"github.com/agentcube/agentcube/pkg/workloadmanager"
	"github.com/agentcube/agentcube/pkg/workloadmanager/changes"
	"github.com/agentcube/agentcube/pkg/workloadmanager/provision"
)

const knownID = "aea4cea2-6f42-4fbb-b464-82ddb3a1f64b"

// backend is all that a Server calls: it answers as a test says, and keeps
// what it was asked.
type backend struct {
	create  func(context.Context, provision.Request) (session.Session, error)
	submit  func(context.Context, provision.Call) (session.Session, error)
	remove  func(ctx context.Context, id, reason string) error
	change  func(ctx context.Context, id string, c session.Change) (session.Session, error)
	find    func(context.Context, session.WorkloadRef) (workload.Workload, error)
	verify  func(token string) (string, error)
	noKey   bool
	waitErr error

	created   []provision.Request
	submitted []provision.Call
	removed   []string
	changed   []session.Change
	waited    []session.WorkloadRef
}

func (b *backend) Create(ctx context.Context, r provision.Request) (session.Session, error) {
	b.created = append(b.created, r)
	if b.create != nil {
		return b.create(ctx, r)
	}
	return made(r), nil
}

// Submit makes the session as Create does, unless a test says otherwise.
func (b *backend) Submit(ctx context.Context, call provision.Call) (session.Session, error) {
	b.submitted = append(b.submitted, call)
	if b.submit != nil {
		return b.submit(ctx, call)
	}
	r, err := call.Order(ctx)
	if err != nil {
		return session.Session{}, err
	}
	return made(r), nil
}

func (b *backend) Delete(ctx context.Context, id, reason string) error {
	b.removed = append(b.removed, id+" "+reason)
	if b.remove != nil {
		return b.remove(ctx, id, reason)
	}
	return nil
}

func (b *backend) Change(ctx context.Context, id string, c session.Change) (session.Session, error) {
	b.changed = append(b.changed, c)
	if b.change != nil {
		return b.change(ctx, id, c)
	}
	object := session.ObjectRef{Kind: session.KindSandbox, Namespace: "default", Name: "echo-0w6nv4p1"}
	return session.Session{ID: id, State: session.StateReady, Object: object}, nil
}

func (b *backend) Get(ctx context.Context, ref session.WorkloadRef) (workload.Workload, error) {
	if b.find != nil {
		return b.find(ctx, ref)
	}
	return template(ref), nil
}

func (b *backend) WaitPool(_ context.Context, ref session.WorkloadRef) (workload.Workload, error) {
	b.waited = append(b.waited, ref)
	return workload.Workload{}, b.waitErr
}

func (b *backend) Key() (pem, keyID string, ok bool) {
	if b.noKey {
		return "", "", false
	}
	return "PEM", "key-1", true
}

func (b *backend) VerifyIdentity(token string) (string, error) {
	if b.verify != nil {
		return b.verify(token)
	}
	return "", auth.ErrInvalidToken
}

// template is that of the name: "warm" has a pool, "picod" wants the key.
func template(ref session.WorkloadRef) workload.Workload {
	w := workload.Workload{
		Ref: ref, UID: "uid-of-template", Idle: workload.DefaultIdle, Max: workload.DefaultMax,
		Ports: []session.Port{{Path: "/", Protocol: "HTTP", Port: 8080}},
		Pod: sandbox.PodTemplate{Spec: map[string]any{
			"containers": []any{map[string]any{"name": "main"}},
		}},
		Warm: ref.Name == "warm",
	}
	if ref.Kind == session.KindCodeInterpreter {
		w.AuthMode = session.AuthModeNone
	}
	if ref.Name == "picod" {
		w.AuthMode = session.AuthModePicoD
	}
	return w
}

// made is the session that a request makes.
func made(r provision.Request) session.Session {
	s := session.Session{
		ID: knownID, State: session.StateReady, Generation: 1,
		Object:      session.ObjectRef{Kind: session.KindSandbox, Namespace: r.Workload.Namespace, Name: "echo-0w6nv4p1", UID: "uid-1"},
		Sandbox:     session.SandboxRef{Name: "echo-0w6nv4p1", UID: "uid-1"},
		EntryPoints: session.EntryPoints(r.Ports, "10.0.0.7"),
		OwnerID:     r.OwnerID, IdleTimeout: r.Lifetimes.Idle,
	}
	if r.Warm {
		s.Object.Kind, s.Object.UID = session.KindSandboxClaim, "uid-of-claim"
	}
	return s
}

// rig is a Server over a backend, with what it logged.
type rig struct {
	*backend
	rows   *sessiontest.Fake
	store  *sessiontest.Faulty
	hub    *changes.Hub
	server *workloadmanager.Server
	health *httpserver.Health
	logs   *observer.ObservedLogs
}

func newRig(t testing.TB, config ...func(*workloadmanager.Config)) *rig {
	t.Helper()
	core, logs := observer.New(zapcore.InfoLevel)
	clk := clock.RealClock{}
	r := &rig{backend: &backend{}, logs: logs, health: httpserver.NewHealth(clk, zap.NewNop())}
	r.rows, r.hub = sessiontest.NewFake(clk), changes.New()
	r.store = sessiontest.NewFaulty(r.rows)
	c := workloadmanager.Config{
		Rows: r.store, Changes: r.hub,
		Clock: clk, Log: zap.New(core), Sessions: r.backend, Index: r.store, Templates: r.backend, Identity: r.backend, Health: r.health,
		Metrics: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "metrics") }),
	}
	for _, change := range config {
		change(&c)
	}
	r.server = workloadmanager.New(c)
	return r
}

// do sends a request, and wants its answer to be one that is described; headers
// are pairs.
func (r *rig) do(t testing.TB, method, target, body string, headers ...string) *httptest.ResponseRecorder {
	t.Helper()
	request := httptest.NewRequestWithContext(t.Context(), method, target, strings.NewReader(body))
	for i := 0; i+1 < len(headers); i += 2 {
		request.Header.Add(headers[i], headers[i+1])
	}
	return r.serve(t, request)
}

// serve answers a request, and wants the answer to be one that is described.
func (r *rig) serve(t testing.TB, request *http.Request) *httptest.ResponseRecorder {
	t.Helper()
	recorder := httptest.NewRecorder()
	r.server.ServeHTTP(recorder, request)
	if recorder.Body.Len() == 0 && recorder.Code == http.StatusOK {
		return recorder // the client went away, and got none
	}
	assert.NoError(t, openapitest.WorkloadManager.Answer(request, openapitest.Answer{
		Status: recorder.Code, Header: recorder.Header(), Body: recorder.Body.Bytes(),
	}))
	return recorder
}

func problemIn(t testing.TB, answer *httptest.ResponseRecorder) api.Error {
	t.Helper()
	require.Equal(t, "application/json; charset=utf-8", answer.Header().Get("Content-Type"))
	var e api.Error
	require.NoError(t, json.Unmarshal(answer.Body.Bytes(), &e))
	require.NotEmpty(t, e.RequestID)
	require.Equal(t, answer.Header().Get("X-Request-Id"), e.RequestID)
	return e
}

const (
	createRuntime     = "/v1/agent-runtime"
	createInterpreter = "/v1/code-interpreter"
	validBody         = `{"name":"echo","namespace":"default"}`
)

var errSecret = errors.New("dial tcp 10.1.2.3:6379: password hunter2")
