package sandbox

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// What the calls of a Client come to, next to RejectedError and ErrNotServed.
// Nothing of the API server's own error types leaves the package.
var (
	// ErrNotFound: no such object. It is the API server's word, never a guess.
	ErrNotFound = errors.New("object not found")
	// ErrExists: an object of that name exists.
	ErrExists = errors.New("object exists")
	// ErrConflict: the object of that name is another one, or was changed
	// meanwhile.
	ErrConflict = errors.New("object is another or was changed")
	// ErrForbidden: the credentials do not allow it. Every RejectedError of
	// kind RejectForbidden is one.
	ErrForbidden = errors.New("not allowed")
	// ErrUnavailable: the API server is out of reach, overloaded or failing.
	ErrUnavailable = errors.New("API server unavailable")
)

// callError is the outcome of one call. Its cause is for messages only, unless
// it is that of the caller's own context.
type callError struct {
	doing   string
	kind    error
	cause   error
	unknown bool
}

func (e *callError) Error() string {
	if e.cause == nil || e.cause.Error() == e.kind.Error() {
		return fmt.Sprintf("%s: %v", e.doing, e.kind)
	}
	return fmt.Sprintf("%s: %v: %v", e.doing, e.kind, e.cause)
}

func (e *callError) Unwrap() error { return e.kind }

// OutcomeUnknown reports whether the API server may yet have applied, or may
// still apply, a call that failed so: it timed out, its connection broke, its
// caller left, or a 5xx came back. A 4xx is an answer.
func OutcomeUnknown(err error) bool {
	var call *callError
	return errors.As(err, &call) && call.unknown
}

// notSent is the outcome of a call whose caller had left before it was made.
func notSent(ctx context.Context, doing string) error {
	if ctx.Err() == nil {
		return nil
	}
	return &callError{doing: doing, kind: ctx.Err()}
}

// translate turns what client-go returned for a call into what this package
// promises. ctx is the caller's: its end is told apart from our own time limit
// for the call, which stands for an API server that does not answer.
func translate(ctx context.Context, err error, doing string) error {
	return translateUnlessEnded(ctx.Err(), err, doing)
}

// translateUnlessEnded is translate for a caller whose context's error is
// ended: nil for a call that takes no context.
func translateUnlessEnded(ended, err error, doing string) error {
	if err == nil {
		return nil
	}
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		return translateStatus(status.Status(), doing)
	}
	kind := ErrUnavailable
	if ended != nil {
		kind = ended
	}
	return &callError{doing: doing, kind: kind, cause: err, unknown: true}
}

func translateStatus(s metav1.Status, doing string) error {
	fail := func(kind error) error {
		return &callError{doing: doing, kind: kind, cause: errors.New(s.Message), unknown: s.Code >= http.StatusInternalServerError}
	}
	if kind, rejected := rejection(s); rejected {
		return fmt.Errorf("%s: %w", doing, &RejectedError{Kind: kind, Message: s.Message})
	}
	switch {
	case s.Code == http.StatusNotFound && unexpectedResponse(s):
		// No object was looked for: the path itself is not served.
		return fail(ErrNotServed)
	case s.Code == http.StatusNotFound:
		return fail(ErrNotFound)
	case s.Reason == metav1.StatusReasonAlreadyExists:
		return fail(ErrExists)
	case s.Code == http.StatusConflict, s.Code == http.StatusPreconditionFailed:
		return fail(ErrConflict)
	default:
		// 429, 5xx, and whatever no API server is known to answer.
		return fail(ErrUnavailable)
	}
}

// unexpectedResponse reports whether the body was no Status: client-go made
// this one up from the code.
func unexpectedResponse(s metav1.Status) bool {
	return hasCause(s, metav1.CauseTypeUnexpectedServerResponse)
}

func hasCause(s metav1.Status, cause metav1.CauseType) bool {
	if s.Details == nil {
		return false
	}
	for _, c := range s.Details.Causes {
		if c.Type == cause {
			return true
		}
	}
	return false
}
