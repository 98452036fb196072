package client

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/agentcube/agentcube/pkg/api"
)

// Errors that an *Error can be, for errors.Is.
var (
	// ErrInvalid: the request is not valid; the message says what is not.
	ErrInvalid = errors.New("request is not valid")
	// ErrUnauthenticated: credentials are missing or bad.
	ErrUnauthenticated = errors.New("not authenticated")
	// ErrForbidden: the caller may not do this.
	ErrForbidden = errors.New("not allowed")
	// ErrTemplateNotFound: there is no such AgentRuntime or CodeInterpreter.
	ErrTemplateNotFound = errors.New("template not found")
	// ErrSessionNotFound: there is no such session (any more). The Reason of the
	// *Error says why it ended, for an hour.
	ErrSessionNotFound = errors.New("session not found")
	// ErrKeyReused: the Idempotency-Key belongs to a create with another body.
	ErrKeyReused = errors.New("idempotency key reused")
	// ErrSessionEnded: the session made with this Idempotency-Key has ended.
	ErrSessionEnded = errors.New("session ended")
	// ErrQuotaExceeded: a quota is used up.
	ErrQuotaExceeded = errors.New("quota exceeded")
	// ErrUnavailable: something is out of reach for now.
	ErrUnavailable = errors.New("unavailable")
)

// ErrAnswer: an answer cannot be used. It is no *Error, since it is not one that
// AgentCube gives.
var ErrAnswer = errors.New("answer cannot be used")

// sentinels by code.
var sentinels = map[string]error{
	api.CodeInvalidRequest:             ErrInvalid,
	api.CodeUnauthenticated:            ErrUnauthenticated,
	api.CodeUnauthorized:               ErrUnauthenticated,
	api.CodeForbidden:                  ErrForbidden,
	api.CodeTemplateNotFound:           ErrTemplateNotFound,
	api.CodeSessionNotFound:            ErrSessionNotFound,
	api.CodeIdempotencyKeyReused:       ErrKeyReused,
	api.CodeSessionEnded:               ErrSessionEnded,
	api.CodeQuotaExceeded:              ErrQuotaExceeded,
	api.CodeNotReady:                   ErrUnavailable,
	api.CodeStoreUnavailable:           ErrUnavailable,
	api.CodeClusterUnavailable:         ErrUnavailable,
	api.CodeSandboxNotReady:            ErrUnavailable,
	api.CodeServerOverloaded:           ErrUnavailable,
	api.CodeWorkloadManagerUnavailable: ErrUnavailable,
}

// Error is an answer of the workload-manager's or the router's that says no.
type Error struct {
	// Status is the HTTP status.
	Status int
	// Code is stable and machine-readable; see package api. Empty: an existing
	// installation answers, or something in between.
	Code string
	// Message is for people. Empty: the body is not that of an error of ours.
	Message string
	// Reason says why a session ended, if it is known.
	Reason string
	// RequestID finds the request in logs.
	RequestID string
	// RetryAfter is how long to wait before the next try. Zero: not said.
	RetryAfter time.Duration
	// Header is that of the answer.
	Header http.Header
}

// Error implements error.
func (e *Error) Error() string {
	text := e.Message
	if text == "" {
		text = fmt.Sprintf("answer %d %s", e.Status, http.StatusText(e.Status))
	}
	if e.Code != "" {
		text += " (" + e.Code + ")"
	}
	if e.Reason != "" {
		text += ", reason: " + e.Reason
	}
	if e.RequestID != "" {
		text += ", request " + e.RequestID
	}
	return text
}

// Is reports whether the error is one of the sentinels.
func (e *Error) Is(target error) bool {
	sentinel, known := sentinels[e.Code]
	if !known && e.between() {
		sentinel = ErrUnavailable
	}
	return sentinel != nil && sentinel == target
}

// between reports whether the answer seems to come from something in between,
// which could not reach the service.
func (e *Error) between() bool {
	switch e.Status {
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return e.Code == ""
	}
	return false
}

// temporary reports whether the same request may be answered otherwise later.
func (e *Error) temporary() bool {
	return e.Status == http.StatusTooManyRequests || e.Status == http.StatusServiceUnavailable || e.between()
}

// wireError is the body of an error: api.Error, and the reason.
type wireError struct {
	Message   string `json:"message"`
	Code      string `json:"code"`
	Reason    string `json:"reason"`
	RequestID string `json:"requestId"`
}

// routerError is the same of the router: api.RouterError, and the reason.
type routerError struct {
	Error     string `json:"error"`
	Code      string `json:"code"`
	Reason    string `json:"reason"`
	RequestID string `json:"requestId"`
}

// refusal by the workload-manager.
func (c *Client) refusal(res *http.Response, body []byte) *Error {
	var wire wireError
	if json.Unmarshal(body, &wire) != nil {
		wire = wireError{} // it is not one of ours
	}
	return c.newError(res, wire)
}

func (c *Client) newError(res *http.Response, wire wireError) *Error {
	if wire.RequestID == "" {
		wire.RequestID = res.Header.Get(api.HeaderRequestID)
	}
	return &Error{
		Status: res.StatusCode, Header: res.Header,
		Code: wire.Code, Message: wire.Message, Reason: wire.Reason, RequestID: wire.RequestID,
		RetryAfter: c.retryAfter(res.Header),
	}
}

// retryAfter reads the header, which holds seconds or a date.
func (c *Client) retryAfter(h http.Header) time.Duration {
	value := h.Get("Retry-After")
	if seconds, err := strconv.ParseUint(value, 10, 31); err == nil {
		return time.Duration(seconds) * time.Second
	}
	if at, err := http.ParseTime(value); err == nil {
		return max(0, at.Sub(c.clock.Now()))
	}
	return 0
}
