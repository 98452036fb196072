package workloadmanager_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap/zapcore"

	"github.com/agentcube/agentcube/pkg/api"
	"github.com/agentcube/agentcube/pkg/auth"
	"github.com/agentcube/agentcube/pkg/sandbox"
	"github.com/agentcube/agentcube/pkg/session"
	"github.com/agentcube/agentcube/pkg/workload"
	"github.com/agentcube/agentcube/pkg/workloadmanager/provision"
)

func private(err error) error { return fmt.Errorf("doing something: %w: %w", err, errSecret) }

func TestEveryErrorHasItsAnswer(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		err        error
		status     int
		code       string
		message    string
		retryAfter string
		level      zapcore.Level
	}{
		"a quota of the API server": {
			private(&sandbox.RejectedError{Kind: sandbox.RejectQuota, Message: "exceeded quota: q"}),
			429, api.CodeQuotaExceeded, "exceeded quota: q", "10", zapcore.InfoLevel,
		},
		"a quota in a condition": {
			private(&provision.FailedError{Reason: "ReconcilerError", Message: "exceeded quota: q", Quota: true}),
			429, api.CodeQuotaExceeded, "exceeded quota: q", "10", zapcore.InfoLevel,
		},
		"a policy": {
			private(&sandbox.RejectedError{Kind: sandbox.RejectPolicy, Message: "denied by p"}),
			422, api.CodeRejectedByCluster, "denied by p", "", zapcore.InfoLevel,
		},
		"a template that cannot be used": {
			fmt.Errorf("AgentRuntime a/b %w: spec.targetPort", workload.ErrInvalid),
			422, api.CodeRejectedByCluster, "AgentRuntime a/b is not valid: spec.targetPort", "", zapcore.InfoLevel,
		},
		"a pool that cannot be made": {
			fmt.Errorf("CodeInterpreter a/b %w: no room", workload.ErrPool),
			502, api.CodeSandboxFailed, "CodeInterpreter a/b has no warm pool: no room", "", zapcore.WarnLevel,
		},
		"a sandbox that failed for good": {
			private(&provision.FailedError{Reason: "PodFailed", Message: "exit 1"}),
			502, api.CodeSandboxFailed, "sandbox failed: PodFailed: exit 1", "", zapcore.WarnLevel,
		},
		"not ready in time": {
			private(&provision.TimeoutError{Waiting: "the warm pool"}),
			504, api.CodeCreateTimeout, "timed out waiting for the warm pool", "", zapcore.WarnLevel,
		},
		"not ready in time, whatever else": {
			fmt.Errorf("%w: %w", &provision.TimeoutError{Waiting: "the store"}, session.ErrUnavailable),
			504, api.CodeCreateTimeout, "timed out waiting for the store", "", zapcore.WarnLevel,
		},
		"an entry point that never listened": {
			&provision.UnreachableError{Err: errSecret},
			502, api.CodeSandboxUnreachable, "sandbox is ready but does not accept connections", "", zapcore.WarnLevel,
		},
		"deleted while being created": {
			private(provision.ErrDeleted),
			409, api.CodeSessionDeleted, "session was deleted while it was being created", "", zapcore.InfoLevel,
		},
		"no identity key": {
			private(auth.ErrNoKey),
			503, api.CodeNotReady, "identity key of the router is not loaded yet", "2", zapcore.WarnLevel,
		},
		"the store out of reach": {
			private(session.ErrUnavailable),
			503, api.CodeStoreUnavailable, "session store is out of reach", "2", zapcore.WarnLevel,
		},
		"agent-sandbox not installed": {
			private(sandbox.ErrNotServed),
			503, api.CodeClusterUnavailable, "agent-sandbox is not served by the cluster", "10", zapcore.ErrorLevel,
		},
		"the cluster out of reach": {
			private(sandbox.ErrUnavailable),
			503, api.CodeClusterUnavailable, "cluster is out of reach", "2", zapcore.WarnLevel,
		},
		"our own role lacks a right": {
			private(&sandbox.RejectedError{Kind: sandbox.RejectForbidden, Message: "User agentcube cannot create"}),
			500, api.CodeInternal, "internal error", "", zapcore.ErrorLevel,
		},
		"an unreadable row": {
			private(session.ErrCorrupt),
			500, api.CodeInternal, "internal error", "", zapcore.ErrorLevel,
		},
		"anything else": {
			errSecret,
			500, api.CodeInternal, "internal error", "", zapcore.ErrorLevel,
		},
	} {
		for _, path := range []string{createRuntime, createInterpreter} {
			t.Run(what+path, func(t *testing.T) {
				t.Parallel()
				r := newRig(t)
				r.create = func(context.Context, provision.Request) (session.Session, error) { return session.Session{}, c.err }
				answer := r.do(t, http.MethodPost, path, validBody)
				require.Equal(t, c.status, answer.Code)
				e := problemIn(t, answer)
				assert.Equal(t, c.code, e.Code)
				assert.Equal(t, c.message, e.Message)
				assert.Equal(t, c.retryAfter, answer.Header().Get("Retry-After"))
				assert.NotContains(t, answer.Body.String(), "hunter2")

				records := r.logs.FilterMessage("request").All()
				require.Len(t, records, 1, "the edge logs once")
				assert.Equal(t, c.level, records[0].Level)
				fields := records[0].ContextMap()
				assert.Equal(t, c.code, fields["code"])
				assert.Equal(t, c.err.Error(), fields["error"], "the cause is in the log")
				assert.Equal(t, e.RequestID, fields["requestId"])
				assert.Equal(t, path, fields["route"])
			})
		}
	}
}

func TestAClientThatWentAwayIsAnsweredNothing(t *testing.T) {
	t.Parallel()
	for what, err := range map[string]error{
		"by the create":  fmt.Errorf("%w: %w", provision.ErrClientGone, session.ErrUnavailable),
		"by the look-up": fmt.Errorf("reading AgentRuntime: %w", context.Canceled),
	} {
		r := newRig(t)
		r.find = func(_ context.Context, ref session.WorkloadRef) (workload.Workload, error) {
			if errors.Is(err, provision.ErrClientGone) {
				return template(ref), nil
			}
			return workload.Workload{}, err
		}
		r.create = func(context.Context, provision.Request) (session.Session, error) { return session.Session{}, err }
		answer := r.do(t, http.MethodPost, createRuntime, validBody)
		assert.Zero(t, answer.Body.Len(), what)
		records := r.logs.FilterMessage("request").All()
		require.Len(t, records, 1, what)
		assert.Equal(t, zapcore.InfoLevel, records[0].Level, what)
		assert.EqualValues(t, 499, records[0].ContextMap()["status"], what)
		assert.Equal(t, api.CodeClientClosedRequest, records[0].ContextMap()["code"], what)
	}
}

func TestAPanicIsAnInternalError(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.create = func(context.Context, provision.Request) (session.Session, error) { panic("hunter2") }
	answer := r.do(t, http.MethodPost, createRuntime, validBody)
	assert.Equal(t, 500, answer.Code)
	assert.Equal(t, api.Error{Message: "internal error", Code: api.CodeInternal, RequestID: problemIn(t, answer).RequestID}, problemIn(t, answer))
}

func TestErrorsOfADelete(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		err     error
		status  int
		code    string
		message string
	}{
		"unknown": {session.ErrNotFound, 404, api.CodeSessionNotFound, "Session ID " + knownID + " not found, maybe already deleted"},
		"store":   {private(session.ErrUnavailable), 503, api.CodeStoreUnavailable, "session store is out of reach"},
		"cluster": {private(sandbox.ErrUnavailable), 503, api.CodeClusterUnavailable, "cluster is out of reach"},
		"other":   {private(sandbox.ErrForbidden), 500, api.CodeInternal, "internal error"},
	} {
		r := newRig(t)
		r.remove = func(context.Context, string, string) error { return c.err }
		answer := r.do(t, http.MethodDelete, createRuntime+"/sessions/"+knownID, "")
		assert.Equal(t, c.status, answer.Code, what)
		assert.Equal(t, c.code, problemIn(t, answer).Code, what)
		assert.Equal(t, c.message, problemIn(t, answer).Message, what)
		assert.Equal(t, c.status == 503, answer.Header().Get("Retry-After") == "2", what)
	}
}
