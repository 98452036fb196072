package store

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/agentcube/agentcube/pkg/session"
)

// Sentinels of pkg/session, under the names by which users of this package
// know them.
var (
	ErrNotFound    = session.ErrNotFound
	ErrExists      = session.ErrExists
	ErrStale       = session.ErrStale
	ErrUnavailable = session.ErrUnavailable
	ErrCorrupt     = session.ErrCorrupt
	ErrInvalid     = session.ErrInvalid
)

// refusals are the codes with which a server that is there refuses to work.
// Each passes, or is set right by an operator, without a change of ours.
// Source: the error codes of Redis 6.2 to 8 and Valkey.
var refusals = []string{
	"BUSY",        // a script runs for too long
	"CLUSTERDOWN", // a slot is not served
	"LOADING",     // reading its data set
	"MASTERDOWN",  // a replica without its master
	"MISCONF",     // cannot persist
	"NOAUTH",      // a password is needed
	"NOPERM",      // the user may not
	"NOREPLICAS",  // too few replicas to write
	"OOM",         // noeviction, memory full
	"READONLY",    // a replica
	"TRYAGAIN",    // a slot is being moved
	"WRONGPASS",   // another password is needed
}

// translate turns a failure of the client into what this package promises.
// ctx is the caller's: if that was cancelled, nothing is said about the store.
func translate(ctx context.Context, what string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(ctx.Err(), context.Canceled):
		return fmt.Errorf("%s: %w", what, context.Canceled)
	case errors.Is(err, ErrUnavailable), isOurs(err):
		return fmt.Errorf("%s: %w", what, err)
	case hasCode(err, "WRONGTYPE"):
		return fmt.Errorf("%s: %w: %w", what, ErrCorrupt, err)
	case isAnswer(err) && !isRefusal(err):
		return fmt.Errorf("%s: %w", what, err)
	default:
		return fmt.Errorf("%s: %w: %w", what, ErrUnavailable, err)
	}
}

// isOurs reports whether err was made here, not by the client.
func isOurs(err error) bool {
	return errors.Is(err, ErrNotFound) || errors.Is(err, ErrExists) ||
		errors.Is(err, ErrStale) || errors.Is(err, ErrCorrupt) || errors.Is(err, ErrInvalid)
}

// isAnswer reports whether err is what the server said, rather than trouble on
// the way to it.
func isAnswer(err error) bool {
	var answer redis.Error
	return errors.As(err, &answer)
}

// isRefusal reports whether the server answered that it does nothing for now.
func isRefusal(err error) bool {
	for _, code := range refusals {
		if hasCode(err, code) {
			return true
		}
	}
	// A server that is full says so under the code of all errors (networking.c).
	return strings.Contains(err.Error(), "max number of clients reached")
}

// hasCode reports whether the server answered with the code. Redis 6.2 wraps
// an error met inside a script into a text of its own, "… -OOM command not
// allowed …".
func hasCode(err error, code string) bool {
	text := err.Error()
	return isAnswer(err) &&
		(strings.HasPrefix(text, code+" ") || strings.Contains(text, " -"+code+" "))
}
