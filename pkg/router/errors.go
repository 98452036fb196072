package router

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/agentcube/agentcube/pkg/api"
	"github.com/agentcube/agentcube/pkg/auth"
	"github.com/agentcube/agentcube/pkg/httpserver"
)

// Everything that can go wrong with a request. Causes are wrapped around
// these; the table below says what the caller learns.
var (
	errNoRoute         = errors.New("no such route")
	errMethod          = errors.New("method not allowed")
	errPanic           = errors.New("panic while serving")
	errBadBody         = errors.New("reading the request's body")
	errOverloaded      = errors.New("too many requests in flight")
	errSessionNotFound = errors.New("no such session")
	errTargetMismatch  = errors.New("session belongs to another workload")
	errNotOwner        = errors.New("session belongs to another owner")
	errNotReady        = errors.New("sandbox is not ready")
	errSuspended       = errors.New("session is suspended")
	errNoEntryPoint    = errors.New("ready row without entry points")
	errBadEndpoint     = errors.New("unusable endpoint")
	errUnreachable     = errors.New("sandbox unreachable")
	errReplaced        = errors.New("sandbox was replaced while it was to answer")
	errTimeout         = errors.New("sandbox timed out")
	errStore           = errors.New("store unavailable")
	errSigning         = errors.New("signing the sandbox token")
	errClientGone      = errors.New("client went away")

	// ErrManagerUnavailable: the workload-manager could not be asked, or its
	// answer is of no use.
	ErrManagerUnavailable = errors.New("workload-manager unavailable")
)

// statusClientClosed is written to logs and metrics only: nobody is left to
// read it.
const statusClientClosed = 499

// answer is what a caller and an operator learn of an error.
type answer struct {
	status int
	code   string
	text   string
	// retryAfter is the header of that name. Empty: absent.
	retryAfter string
	level      zapcore.Level
}

// answers is the one place where errors become answers; the first entry whose
// error is in the chain counts. Level is Error where an operator must act,
// Warn where one may want to look, Info for what is the caller's affair.
var answers = []struct {
	err error
	answer
}{
	{errClientGone, answer{statusClientClosed, api.CodeClientClosedRequest, "client went away", "", zap.InfoLevel}},
	{errNoRoute, answer{http.StatusNotFound, api.CodeNotFound, "no such route", "", zap.InfoLevel}},
	{errMethod, answer{http.StatusMethodNotAllowed, api.CodeMethodNotAllowed, "method not allowed", "", zap.InfoLevel}},
	{errBadBody, answer{http.StatusBadRequest, api.CodeInvalidRequest, "the request's body could not be read", "", zap.InfoLevel}},
	{errRequestLine, answer{http.StatusBadRequest, api.CodeInvalidRequest, "the method or the path cannot be sent on", "", zap.InfoLevel}},
	{errOverloaded, answer{http.StatusTooManyRequests, api.CodeServerOverloaded, "too many requests in flight", "1", zap.WarnLevel}},
	{errSessionNotFound, answer{http.StatusNotFound, api.CodeSessionNotFound, "session not found", "", zap.InfoLevel}},
	{errTargetMismatch, answer{http.StatusConflict, api.CodeSessionTargetMismatch, "the session belongs to another workload than the URL names", "", zap.InfoLevel}},
	{errNotOwner, answer{http.StatusForbidden, api.CodeForbidden, "the session belongs to another owner", "", zap.InfoLevel}},
	{auth.ErrUnauthorized, answer{http.StatusUnauthorized, api.CodeUnauthorized, "missing or invalid credentials", "", zap.InfoLevel}},
	{auth.ErrForbidden, answer{http.StatusForbidden, api.CodeForbidden, "not allowed", "", zap.InfoLevel}},
	{auth.ErrNotReady, answer{http.StatusServiceUnavailable, api.CodeNotReady, "credentials cannot be checked yet", "1", zap.WarnLevel}},
	{errNotReady, answer{http.StatusServiceUnavailable, api.CodeSandboxNotReady, "the sandbox is not ready", "1", zap.InfoLevel}},
	{errSuspended, answer{http.StatusServiceUnavailable, api.CodeSessionSuspended, "the session is suspended", "5", zap.InfoLevel}},
	{errNoEntryPoint, answer{http.StatusBadGateway, api.CodeSandboxUnreachable, "no entry point found for sandbox", "", zap.WarnLevel}},
	{errBadEndpoint, answer{http.StatusBadGateway, api.CodeSandboxUnreachable, "the sandbox's endpoint is unusable", "", zap.ErrorLevel}},
	{errReplaced, answer{http.StatusBadGateway, api.CodeSandboxUnreachable, "the sandbox was replaced before it answered", "", zap.WarnLevel}},
	{errUnreachable, answer{http.StatusBadGateway, api.CodeSandboxUnreachable, "the sandbox is unreachable", "", zap.WarnLevel}},
	{errTimeout, answer{http.StatusGatewayTimeout, api.CodeSandboxTimeout, "the sandbox did not answer in time", "", zap.WarnLevel}},
	{errStore, answer{http.StatusServiceUnavailable, api.CodeStoreUnavailable, "the session store is unavailable", "1", zap.ErrorLevel}},
	{ErrManagerUnavailable, answer{http.StatusBadGateway, api.CodeWorkloadManagerUnavailable, "the workload-manager is unavailable", "", zap.ErrorLevel}},
	{errSigning, answer{http.StatusInternalServerError, api.CodeJWTSigningFailed, "the sandbox token could not be signed", "", zap.ErrorLevel}},
}

// internal answers an error that nobody has thought of.
var internal = answer{http.StatusInternalServerError, api.CodeInternal, "internal error", "", zap.ErrorLevel}

// public is an error with a text of its own for the caller.
type public struct {
	err  error
	text string
}

func (p *public) Error() string { return p.text }
func (p *public) Unwrap() error { return p.err }

// notFound names the session in the words existing callers know.
func notFound(id string) error {
	return &public{errSessionNotFound, fmt.Sprintf("sessions.agentcube.volcano.sh %q not found", id)}
}

// answerTo finds what to say about err.
func answerTo(err error) answer {
	var manager *ManagerError
	if errors.As(err, &manager) && !errors.Is(err, errClientGone) {
		return manager.answer()
	}
	found := internal
	if i := indexOf(err); i >= 0 {
		found = answers[i].answer
	}
	var text *public
	if errors.As(err, &text) {
		found.text = text.text
	}
	return found
}

// known reports whether err has an answer of its own.
func known(err error) bool { return indexOf(err) >= 0 }

func indexOf(err error) int {
	for i := range answers {
		if errors.Is(err, answers[i].err) {
			return i
		}
	}
	return -1
}

// fail answers a request with an error, in the router's shape, and says in
// its access record why. x is nil where no session can be concerned.
func (rt *Router) fail(w http.ResponseWriter, r *http.Request, x *exchange, err error) {
	// The cause is another if it was the router that ended the request.
	if errors.Is(context.Cause(r.Context()), context.Canceled) {
		err = fmt.Errorf("%w: %w", errClientGone, err)
	}
	rt.counts.failed(err)
	a := answerTo(err)
	record := httpserver.RecordFrom(r.Context())
	record.Fail(a.code, err, a.level)
	x.stamp(w.Header())
	x.lastOnConn(w.Header())
	if a.status == statusClientClosed {
		record.SetStatus(a.status)
		w.WriteHeader(a.status)
		if x != nil && x.created {
			rt.undo(r.Context(), x)
		}
		return
	}
	body, marshalErr := json.Marshal(api.RouterError{
		Error: a.text, Code: a.code, Reason: rt.whyEnded(r.Context(), x, err), RequestID: httpserver.RequestIDFrom(r.Context()),
	})
	if marshalErr != nil { // strings always marshal
		panic(marshalErr)
	}
	h := w.Header()
	h.Set("Content-Type", "application/json; charset=utf-8")
	if a.retryAfter != "" {
		h.Set("Retry-After", a.retryAfter)
	}
	if a.status == http.StatusUnauthorized {
		h.Set("WWW-Authenticate", "Bearer")
	}
	w.WriteHeader(a.status)
	_, _ = w.Write(body) // a client that left is none of our concern
}
