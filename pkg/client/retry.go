package client

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"time"
)

// Defaults of Retry.
const (
	defaultTries   = 4
	defaultPause   = 250 * time.Millisecond
	defaultMaxWait = 30 * time.Second
)

// Retry says how often a call that can be repeated is repeated.
type Retry struct {
	// Tries is how often a call is sent at most: 1 is no repeat, 0 means 4.
	Tries int
	// Pause before the second try; it doubles with each further one, and a random
	// part of up to a half is taken off. Retry-After of an answer makes it
	// longer, never shorter. 0 means 250 ms.
	Pause time.Duration
	// MaxWait bounds each pause. An answer that asks for a longer one is returned
	// as it is. 0 means 30 s.
	MaxWait time.Duration
}

func (r Retry) withDefaults() Retry {
	if r.Tries <= 0 {
		r.Tries = defaultTries
	}
	if r.Pause <= 0 {
		r.Pause = defaultPause
	}
	if r.MaxWait <= 0 {
		r.MaxWait = defaultMaxWait
	}
	return r
}

// pause before try number next (2 is the first repeat) after err; false if there
// is to be none.
func (r Retry) pause(next int, err error) (time.Duration, bool) {
	if next > r.Tries {
		return 0, false
	}
	pause := r.Pause
	for range next - 2 {
		pause = min(2*pause, r.MaxWait)
	}
	pause = min(pause, r.MaxWait)
	pause -= time.Duration(rand.Int64N(int64(pause)/2 + 1)) //nolint:gosec // it only spreads the calls
	if e, ok := errors.AsType[*Error](err); ok {
		pause = max(pause, e.RetryAfter)
	}
	return pause, pause <= r.MaxWait
}

// lostError: nobody knows whether the request was carried out.
type lostError struct{ err error }

func (e *lostError) Error() string { return e.err.Error() }
func (e *lostError) Unwrap() error { return e.err }

// repeat calls try until its error is none, or one that stays. A call that is
// made once is repeated only if it was never sent.
func (c *Client) repeat(ctx context.Context, once bool, try func(first bool) error) error {
	for n := 1; ; n++ {
		err := try(n == 1)
		if err == nil || ctx.Err() != nil || !repeatable(err, once) {
			return err
		}
		pause, ok := c.retry.pause(n+1, err)
		if !ok || c.clock.Wait(ctx, pause) != nil {
			return err // the cause tells more than that ctx is over
		}
	}
}

func repeatable(err error, once bool) bool {
	if e, ok := errors.AsType[*net.OpError](err); ok && e.Op == "dial" {
		return true // nothing was sent
	}
	if once {
		return false
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e.temporary()
	}
	_, lost := errors.AsType[*lostError](err)
	return lost
}
