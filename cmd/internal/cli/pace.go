package cli

import (
	"context"
	"time"

	"k8s.io/utils/clock"
)

// pace is the clock of a client.
type pace struct{ clock.WithTicker }

// Wait implements client.Clock.
func (p pace) Wait(ctx context.Context, d time.Duration) error {
	timer := p.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C():
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
