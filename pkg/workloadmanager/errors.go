package workloadmanager

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"go.uber.org/zap/zapcore"

	"github.com/agentcube/agentcube/pkg/api"
	"github.com/agentcube/agentcube/pkg/auth"
	"github.com/agentcube/agentcube/pkg/sandbox"
	"github.com/agentcube/agentcube/pkg/session"
	"github.com/agentcube/agentcube/pkg/workload"
	"github.com/agentcube/agentcube/pkg/workloadmanager/provision"
)

// statusClientClosedRequest stands in logs and metrics for a client that went
// away; it is never sent. The number is nginx's.
const statusClientClosedRequest = 499

// How long a caller is asked to wait before it tries again: a dependency that
// is away is back soon, room in a quota is not.
const (
	retrySoon  = 2 * time.Second
	retryLater = 10 * time.Second
)

// problem is the public side of an error.
type problem struct {
	status  int
	code    string
	message string
	// reason a session ended for, if it is known.
	reason     string
	retryAfter time.Duration
	level      zapcore.Level
}

func (p problem) setRetryAfter(h http.Header) {
	if p.retryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(int(p.retryAfter/time.Second)))
	}
}

// requestError is a mistake of the caller's, with the text it is told.
type requestError struct {
	status        int
	code, message string
	// reason a session ended for, if it is known.
	reason string
	err    error
}

func (e *requestError) Error() string {
	if e.err == nil {
		return e.message
	}
	return e.message + ": " + e.err.Error()
}

func (e *requestError) Unwrap() error { return e.err }

var (
	errNoRoute        = &requestError{status: http.StatusNotFound, code: api.CodeNotFound, message: "no such route"}
	errMethod         = &requestError{status: http.StatusMethodNotAllowed, code: api.CodeMethodNotAllowed, message: "method not allowed"}
	errTooLarge       = &requestError{status: http.StatusRequestEntityTooLarge, code: api.CodeInvalidRequest, message: "request body is larger than 1 MiB"}
	errManyIdentities = &requestError{status: http.StatusUnauthorized, code: api.CodeUnauthenticated, message: "invalid identity token"}
	errPanicked       = errors.New("handler panicked")
	// errCreating: what is asked for needs a session that has been made.
	errCreating = errors.New("session is being created")
)

func invalid(message string) error {
	return &requestError{status: http.StatusBadRequest, code: api.CodeInvalidRequest, message: message}
}

func invalidBody(err error) error {
	return &requestError{status: http.StatusBadRequest, code: api.CodeInvalidRequest, message: "Invalid request body", err: err}
}

func unknownSession(id string) *requestError {
	const shown = 64 // of an id that is none
	if len(id) > shown {
		id = id[:shown] + "…"
	}
	return &requestError{
		status: http.StatusNotFound, code: api.CodeSessionNotFound,
		message: fmt.Sprintf("Session ID %s not found, maybe already deleted", id),
	}
}

// ofTemplate gives a missing template its name.
func ofTemplate(kind string, err error) error {
	rejected, isRejected := errors.AsType[*sandbox.RejectedError](err)
	if !errors.Is(err, workload.ErrNotFound) && (!isRejected || rejected.Kind != sandbox.RejectNamespaceMissing) {
		return err
	}
	message := "agent runtime not found"
	if kind == session.KindCodeInterpreter {
		message = "code interpreter not found"
	}
	return &requestError{status: http.StatusNotFound, code: api.CodeTemplateNotFound, message: message, err: err}
}

// problemOf is the table of errors. The first line that fits counts: typed
// errors that carry a public text, then kinds, then the rest, whose text
// stays private.
func problemOf(err error) problem {
	if e, ok := errors.AsType[*requestError](err); ok {
		return problem{status: e.status, code: e.code, message: e.message, reason: e.reason, level: zapcore.InfoLevel}
	}
	if p, ok := problemOfCreate(err); ok {
		return p
	}
	for _, row := range kinds {
		if errors.Is(err, row.err) {
			return row.problem
		}
	}
	return problem{
		status: http.StatusInternalServerError, code: api.CodeInternal,
		message: "internal error", level: zapcore.ErrorLevel,
	}
}

// problemOfCreate is for errors whose public text is their own.
func problemOfCreate(err error) (problem, bool) {
	if errors.Is(err, provision.ErrClientGone) {
		return clientGone, true
	}
	if e, ok := errors.AsType[*provision.TimeoutError](err); ok {
		return problem{
			status: http.StatusGatewayTimeout, code: api.CodeCreateTimeout,
			message: "timed out waiting for " + e.Waiting, level: zapcore.WarnLevel,
		}, true
	}
	if e, ok := errors.AsType[*provision.FailedError](err); ok {
		if e.Quota {
			return quotaExceeded(e.Message), true
		}
		return problem{
			status: http.StatusBadGateway, code: api.CodeSandboxFailed,
			message: fmt.Sprintf("sandbox failed: %s: %s", e.Reason, e.Message), level: zapcore.WarnLevel,
		}, true
	}
	if _, ok := errors.AsType[*provision.UnreachableError](err); ok {
		return problem{
			status: http.StatusBadGateway, code: api.CodeSandboxUnreachable,
			message: "sandbox is ready but does not accept connections", level: zapcore.WarnLevel,
		}, true
	}
	if e, ok := errors.AsType[*sandbox.RejectedError](err); ok {
		switch e.Kind {
		case sandbox.RejectQuota:
			return quotaExceeded(e.Message), true
		case sandbox.RejectPolicy:
			return rejected(e.Message), true
		case sandbox.RejectForbidden, sandbox.RejectNamespaceMissing:
		}
	}
	if errors.Is(err, workload.ErrInvalid) {
		return rejected(err.Error()), true
	}
	if errors.Is(err, workload.ErrPool) {
		return problem{
			status: http.StatusBadGateway, code: api.CodeSandboxFailed,
			message: err.Error(), level: zapcore.WarnLevel,
		}, true
	}
	return problem{}, false
}

// clientGone is answered to nobody.
var clientGone = problem{
	status: statusClientClosedRequest, code: api.CodeClientClosedRequest, level: zapcore.InfoLevel,
}

func quotaExceeded(message string) problem {
	return problem{
		status: http.StatusTooManyRequests, code: api.CodeQuotaExceeded,
		message: message, retryAfter: retryLater, level: zapcore.InfoLevel,
	}
}

func rejected(message string) problem {
	return problem{
		status: http.StatusUnprocessableEntity, code: api.CodeRejectedByCluster,
		message: message, level: zapcore.InfoLevel,
	}
}

// kinds are the errors that are told by what they are alone.
var kinds = []struct {
	err     error
	problem problem
}{
	{provision.ErrDeleted, problem{
		status: http.StatusConflict, code: api.CodeSessionDeleted,
		message: "session was deleted while it was being created", level: zapcore.InfoLevel,
	}},
	{errCreating, problem{
		status: http.StatusServiceUnavailable, code: api.CodeNotReady,
		message: "session is being created", retryAfter: retrySoon, level: zapcore.InfoLevel,
	}},
	{auth.ErrInvalidToken, problem{
		status: http.StatusUnauthorized, code: api.CodeUnauthenticated,
		message: "invalid identity token", level: zapcore.InfoLevel,
	}},
	{auth.ErrNoKey, problem{
		status: http.StatusServiceUnavailable, code: api.CodeNotReady,
		message: "identity key of the router is not loaded yet", retryAfter: retrySoon, level: zapcore.WarnLevel,
	}},
	{session.ErrUnavailable, problem{
		status: http.StatusServiceUnavailable, code: api.CodeStoreUnavailable,
		message: "session store is out of reach", retryAfter: retrySoon, level: zapcore.WarnLevel,
	}},
	{sandbox.ErrNotServed, problem{
		status: http.StatusServiceUnavailable, code: api.CodeClusterUnavailable,
		message: "agent-sandbox is not served by the cluster", retryAfter: retryLater, level: zapcore.ErrorLevel,
	}},
	{sandbox.ErrUnavailable, problem{
		status: http.StatusServiceUnavailable, code: api.CodeClusterUnavailable,
		message: "cluster is out of reach", retryAfter: retrySoon, level: zapcore.WarnLevel,
	}},
	// A look-up that the caller's leaving ended.
	{context.Canceled, clientGone},
}
