// Package auth owns who is who: the key the router signs with and its tokens,
// the check of those tokens by the workload-manager, OIDC at the router, and
// TLS between the two.
//
// It does not decide what a caller may do beyond a required role, and it
// writes no HTTP: every refusal is one of the errors below, which the surface
// turns into a status.
package auth

import "errors"

// Errors of the identity key and of the tokens signed with it.
var (
	// ErrNoKey: the identity key is not loaded yet. The caller may try again.
	ErrNoKey = errors.New("identity key not loaded")
	// ErrUnknownKey: the session asks for a key this process does not hold.
	ErrUnknownKey = errors.New("identity key not held")
	// ErrInvalidToken: an identity token that must not be trusted.
	ErrInvalidToken = errors.New("invalid identity token")
)

// Errors of a caller's bearer token.
var (
	// ErrNotReady: the issuer, or the keys it signs with, cannot be read.
	ErrNotReady = errors.New("token issuer not reached")
	// ErrUnauthorized: no token, or one that must not be trusted.
	ErrUnauthorized = errors.New("unauthorized")
	// ErrForbidden: a good token without the required role.
	ErrForbidden = errors.New("forbidden")
)

// Principal is who a request comes from. Zero: nobody in particular.
type Principal struct {
	// Subject is the issuer's stable name of the caller.
	Subject string
	// Email is empty when the issuer does not say.
	Email string
	// Roles as the issuer lists them.
	Roles []string
}
