package router

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/agentcube/agentcube/pkg/api"
	"github.com/agentcube/agentcube/pkg/httpserver"
	"github.com/agentcube/agentcube/pkg/session"
)

// DefaultCreateTimeout is how long a create may take. It is longer than the
// workload-manager's own bound, so that its answer is heard.
const DefaultCreateTimeout = 130 * time.Second

// maxAnswer bounds the workload-manager's answers, 1 MiB.
const maxAnswer = 1 << 20

// kindTexts are what a create and its errors call a kind of workload.
var kindTexts = map[string]struct{ route, resource string }{
	session.KindAgentRuntime:    {"/v1/agent-runtime", "agentruntimes"},
	session.KindCodeInterpreter: {"/v1/code-interpreter", "codeinterpreters"},
}

// IdentitySigner makes the token that tells the workload-manager for whom a
// session is.
type IdentitySigner interface {
	IdentityToken(owner string) (string, error)
}

// Manager creates sessions at a workload-manager. Make it with NewManager.
type Manager struct {
	client  *http.Client
	base    *url.URL
	signer  IdentitySigner
	timeout time.Duration
}

// NewManager returns a client of the workload-manager at base. A timeout of 0
// means DefaultCreateTimeout.
func NewManager(transport http.RoundTripper, base *url.URL, signer IdentitySigner, timeout time.Duration) *Manager {
	if timeout <= 0 {
		timeout = DefaultCreateTimeout
	}
	return &Manager{
		client: &http.Client{
			Transport: transport,
			// A redirect is no answer to a create.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		base: base, signer: signer, timeout: timeout,
	}
}

// Create implements Creator. The session is undone by the workload-manager if
// ctx ends before it has answered.
func (m *Manager) Create(ctx context.Context, workload session.WorkloadRef, owner string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, m.timeout)
	defer cancel()
	body, err := json.Marshal(api.CreateRequest{Name: workload.Name, Namespace: workload.Namespace})
	if err != nil {
		return "", fmt.Errorf("encoding a create: %w", err)
	}
	req, err := m.request(ctx, http.MethodPost, kindTexts[workload.Kind].route, body, owner)
	if err != nil {
		return "", err
	}
	res, err := m.client.Do(req)
	if err != nil {
		return "", fmt.Errorf("creating a session: %w: %w", ErrManagerUnavailable, err)
	}
	defer func() { _ = res.Body.Close() }()
	answer, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if err != nil {
		return "", fmt.Errorf("reading the answer to a create: %w: %w", ErrManagerUnavailable, err)
	}
	if res.StatusCode != http.StatusOK {
		return "", refusal(workload, res, answer)
	}
	var created api.CreateResponse
	if err := json.Unmarshal(answer, &created); err != nil {
		return "", fmt.Errorf("answer to a create: %w: %w", ErrManagerUnavailable, err)
	}
	if !session.ValidID(created.SessionID) {
		return "", fmt.Errorf("answer to a create names session %q: %w", created.SessionID, ErrManagerUnavailable)
	}
	return created.SessionID, nil
}

// Undo implements Creator.
func (m *Manager) Undo(ctx context.Context, workload session.WorkloadRef, id, owner string) error {
	req, err := m.request(ctx, http.MethodDelete, kindTexts[workload.Kind].route+"/sessions/"+id, nil, owner)
	if err != nil {
		return err
	}
	res, err := m.client.Do(req)
	if err != nil {
		return fmt.Errorf("deleting session %s: %w: %w", id, ErrManagerUnavailable, err)
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode != http.StatusOK && res.StatusCode != http.StatusNotFound {
		return fmt.Errorf("deleting session %s: workload-manager answers %d: %w", id, res.StatusCode, ErrManagerUnavailable)
	}
	return nil
}

// request addresses the workload-manager, in the name of the owner.
func (m *Manager) request(ctx context.Context, method, path string, body []byte, owner string) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, method, m.base.JoinPath(path).String(), bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("addressing the workload-manager: %w", err)
	}
	req.Header.Set("Content-Type", "application/json")
	if id := httpserver.RequestIDFrom(ctx); id != "" {
		req.Header.Set(api.HeaderRequestID, id)
	}
	if owner == "" {
		return req, nil
	}
	token, err := m.signer.IdentityToken(owner)
	if err != nil {
		return nil, fmt.Errorf("identity for the workload-manager: %w: %w", errSigning, err)
	}
	req.Header.Set(api.HeaderUserIdentity, token)
	return req, nil
}

// ManagerError is a refusal by the workload-manager. It is passed on.
type ManagerError struct {
	Status        int
	Code, Message string
	// RetryAfter is the header as it came. Empty: there was none.
	RetryAfter string
}

// Error implements error.
func (e *ManagerError) Error() string {
	return fmt.Sprintf("workload-manager answers %d %s: %s", e.Status, e.Code, e.Message)
}

func (e *ManagerError) answer() answer {
	level := zapcore.InfoLevel
	if e.Status >= http.StatusInternalServerError {
		level = zap.WarnLevel
	}
	return answer{status: e.Status, code: e.Code, text: e.Message, retryAfter: e.RetryAfter, level: level}
}

// legacyCodes are for workload-managers that give a message only.
var legacyCodes = map[int]string{
	http.StatusBadRequest:          api.CodeInvalidRequest,
	http.StatusUnauthorized:        api.CodeUnauthenticated,
	http.StatusForbidden:           api.CodeForbidden,
	http.StatusNotFound:            api.CodeTemplateNotFound,
	http.StatusTooManyRequests:     api.CodeQuotaExceeded,
	http.StatusInternalServerError: api.CodeInternal,
}

// refusal turns an answer other than 200 into an error. One that is no answer
// of a workload-manager's is unusable, unless it is the 5xx of something in
// between, whose status says what to do.
func refusal(workload session.WorkloadRef, res *http.Response, body []byte) error {
	var refused api.Error
	readable := json.Unmarshal(body, &refused) == nil && refused.Message != ""
	e := &ManagerError{
		Status: res.StatusCode, Code: refused.Code, Message: refused.Message,
		RetryAfter: res.Header.Get("Retry-After"),
	}
	switch {
	case res.StatusCode < http.StatusBadRequest, !readable && res.StatusCode < http.StatusInternalServerError:
		return fmt.Errorf("workload-manager answers %d: %w", res.StatusCode, ErrManagerUnavailable)
	case !readable:
		e.Code, e.Message = api.CodeWorkloadManagerUnavailable, "the workload-manager is unavailable"
	case e.Code == "" && legacyCodes[e.Status] != "":
		e.Code = legacyCodes[e.Status]
	case e.Code == "":
		e.Code = api.CodeWorkloadManagerUnavailable
	}
	if e.Code == api.CodeTemplateNotFound {
		// In the words that callers of the router know.
		e.Message = fmt.Sprintf("%s.agentcube.volcano.sh %q not found",
			kindTexts[workload.Kind].resource, workload.Namespace+"/"+workload.Name)
	}
	return e
}
