package router

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/agentcube/agentcube/pkg/api"
	"github.com/agentcube/agentcube/pkg/client"
	"github.com/agentcube/agentcube/pkg/httpserver"
	"github.com/agentcube/agentcube/pkg/session"
)

// DefaultCreateTimeout is how long a create may take. It is longer than the
// workload-manager's own bound, so that its answer is heard.
const DefaultCreateTimeout = 130 * time.Second

// kindTexts are what the errors of a create call a kind of workload.
var kindTexts = map[string]string{
	session.KindAgentRuntime:    "agentruntimes",
	session.KindCodeInterpreter: "codeinterpreters",
}

// IdentitySigner makes the token that tells the workload-manager for whom a
// session is.
type IdentitySigner interface {
	IdentityToken(owner string) (string, error)
}

// Manager creates sessions at a workload-manager. Make it with NewManager.
type Manager struct {
	client  *client.Client
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
		client: client.New(client.Options{
			Transport: transport, WorkloadManager: base,
			// The caller decides whether it is worth another try.
			Retry: client.Retry{Tries: 1},
		}),
		signer: signer, timeout: timeout,
	}
}

// Create implements Creator. The session is undone by the workload-manager if
// ctx ends before it has answered.
func (m *Manager) Create(ctx context.Context, workload session.WorkloadRef, owner string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, m.timeout)
	defer cancel()
	c, err := m.inTheNameOf(ctx, owner)
	if err != nil {
		return "", err
	}
	created, err := c.Create(ctx, client.CreateOptions{
		Kind: client.Kind(workload.Kind), Namespace: workload.Namespace, Name: workload.Name, Undo: true,
	})
	if err != nil {
		return "", refusal(workload, err)
	}
	if !session.ValidID(created.SessionID) {
		return "", fmt.Errorf("answer to a create names session %q: %w", created.SessionID, ErrManagerUnavailable)
	}
	return created.SessionID, nil
}

// Undo implements Creator.
func (m *Manager) Undo(ctx context.Context, _ session.WorkloadRef, id, owner string) error {
	c, err := m.inTheNameOf(ctx, owner)
	if err != nil {
		return err
	}
	err = c.Delete(ctx, id)
	if refused, ok := errors.AsType[*client.Error](err); ok && refused.Status == http.StatusNotFound {
		return nil
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrManagerUnavailable, err)
	}
	return nil
}

// inTheNameOf is the client of one call.
func (m *Manager) inTheNameOf(ctx context.Context, owner string) (*client.Client, error) {
	header := http.Header{}
	if id := httpserver.RequestIDFrom(ctx); id != "" {
		header.Set(api.HeaderRequestID, id)
	}
	if owner == "" {
		return m.client.With(header), nil
	}
	token, err := m.signer.IdentityToken(owner)
	if err != nil {
		return nil, fmt.Errorf("identity for the workload-manager: %w: %w", errSigning, err)
	}
	header.Set(api.HeaderUserIdentity, token)
	return m.client.With(header), nil
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

// refusal turns the error of a create into the router's. An answer that is none
// of a workload-manager's is unusable, unless it is the 5xx of something in
// between, whose status says what to do.
func refusal(workload session.WorkloadRef, err error) error {
	refused, ok := errors.AsType[*client.Error](err)
	readable := ok && refused.Message != ""
	if !ok || refused.Status < http.StatusBadRequest || !readable && refused.Status < http.StatusInternalServerError {
		return fmt.Errorf("%w: %w", ErrManagerUnavailable, err)
	}
	e := &ManagerError{
		Status: refused.Status, Code: refused.Code, Message: refused.Message,
		RetryAfter: refused.Header.Get("Retry-After"),
	}
	switch {
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
			kindTexts[workload.Kind], workload.Namespace+"/"+workload.Name)
	}
	return e
}
