package provision

import (
	"errors"
	"fmt"
)

// How a create ends other than well. What the cluster or the store refuse
// comes as their own errors.
var (
	// ErrDeleted: somebody deleted the session, or its object, while it was
	// being created.
	ErrDeleted = errors.New("session was deleted while it was being created")
	// ErrClientGone: the caller went away. Nothing is answered.
	ErrClientGone = errors.New("client went away")
	// ErrKeyReused: the key was used for another create.
	ErrKeyReused = errors.New("idempotency key was used for another create")
	// ErrEnded: the session that the key made has ended.
	ErrEnded = errors.New("session of the idempotency key has ended")
)

// TimeoutError: the create bound passed.
type TimeoutError struct {
	// Waiting says for what, in public words.
	Waiting string
}

func (e *TimeoutError) Error() string { return "timed out waiting for " + e.Waiting }

// FailedError: the sandbox will never become ready.
type FailedError struct {
	// Reason and Message are the condition's.
	Reason, Message string
	// Quota: a ResourceQuota or limit stood in the way.
	Quota bool
}

func (e *FailedError) Error() string {
	return fmt.Sprintf("sandbox failed: %s: %s", e.Reason, e.Message)
}

// UnreachableError: the sandbox is ready and does not listen.
type UnreachableError struct {
	Err error
}

func (e *UnreachableError) Error() string { return "sandbox does not listen: " + e.Err.Error() }
func (e *UnreachableError) Unwrap() error { return e.Err }
