package client

import (
	"context"
	"time"
)

// Clock paces repeats, so that a test can set the time.
type Clock interface {
	Now() time.Time
	// Wait returns after d, or with the error of ctx when that ends first.
	Wait(ctx context.Context, d time.Duration) error
}

type systemClock struct{}

func (systemClock) Now() time.Time { return time.Now() } //nolint:forbidigo // this is the clock

func (systemClock) Wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d) //nolint:forbidigo // this is the clock
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
