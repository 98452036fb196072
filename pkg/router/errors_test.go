package router

import (
	"errors"
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"go.uber.org/zap"

	"github.com/agentcube/agentcube/pkg/auth"
)

func TestEveryErrorHasItsAnswer(t *testing.T) {
	t.Parallel()
	for err, want := range map[error]struct {
		status int
		code   string
		retry  bool
	}{
		errSessionNotFound:      {404, "SESSION_NOT_FOUND", false},
		errTargetMismatch:       {409, "SESSION_TARGET_MISMATCH", false},
		auth.ErrUnauthorized:    {401, "UNAUTHORIZED", false},
		auth.ErrForbidden:       {403, "FORBIDDEN", false},
		errNotOwner:             {403, "FORBIDDEN", false},
		errNotReady:             {503, "SANDBOX_NOT_READY", true},
		errSuspended:            {503, "SESSION_SUSPENDED", true},
		errNoEntryPoint:         {502, "SANDBOX_UNREACHABLE", false},
		errBadEndpoint:          {502, "SANDBOX_UNREACHABLE", false},
		errUnreachable:          {502, "SANDBOX_UNREACHABLE", false},
		errReplaced:             {502, "SANDBOX_UNREACHABLE", false},
		errTimeout:              {504, "SANDBOX_TIMEOUT", false},
		errOverloaded:           {429, "SERVER_OVERLOADED", true},
		errStore:                {503, "STORE_UNAVAILABLE", true},
		ErrManagerUnavailable:   {502, "WORKLOAD_MANAGER_UNAVAILABLE", false},
		errSigning:              {500, "JWT_SIGNING_FAILED", false},
		errors.New("never met"): {500, "INTERNAL", false},
		errPanic:                {500, "INTERNAL", false},
		errClientGone:           {499, "CLIENT_CLOSED_REQUEST", false},
		errBadBody:              {400, "INVALID_REQUEST", false},
		errNoRoute:              {404, "NOT_FOUND", false},
		errMethod:               {405, "METHOD_NOT_ALLOWED", false},
	} {
		got := answerTo(fmt.Errorf("doing something: %w: %w", err, errors.New("a cause")))
		assert.Equal(t, want.status, got.status, err.Error())
		assert.Equal(t, want.code, got.code, err.Error())
		assert.Equal(t, want.retry, got.retryAfter != "", err.Error())
		assert.NotContains(t, got.text, "a cause", err.Error())
	}
}

func TestALeavingClientExplainsEveryOtherError(t *testing.T) {
	t.Parallel()
	refused := &ManagerError{Status: http.StatusBadGateway}
	assert.Equal(t, statusClientClosed, answerTo(fmt.Errorf("%w: %w", errClientGone, refused)).status)
	assert.Equal(t, statusClientClosed, answerTo(fmt.Errorf("%w: %w", errClientGone, errStore)).status)
}

func TestOnlyWhatAnOperatorMustMendIsAnErrorInTheLog(t *testing.T) {
	t.Parallel()
	for _, err := range []error{errSigning, errStore, ErrManagerUnavailable, errBadEndpoint, errPanic} {
		assert.Equal(t, zap.ErrorLevel, answerTo(err).level, err.Error())
	}
	for _, err := range []error{errSessionNotFound, errTargetMismatch, auth.ErrUnauthorized, errClientGone, errNotReady} {
		assert.Equal(t, zap.InfoLevel, answerTo(err).level, err.Error())
	}
}
