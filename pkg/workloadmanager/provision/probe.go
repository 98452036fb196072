package provision

import (
	"context"
	"fmt"
	"net"
	"time"

	"k8s.io/utils/clock"

	"github.com/agentcube/agentcube/pkg/session"
)

// Bounds of one dial and of the pauses between two: short at first, since a
// sandbox that is ready listens nearly always.
const (
	dialBound  = time.Second
	firstPause = 5 * time.Millisecond
	lastPause  = 250 * time.Millisecond
)

// Dialer probes by opening a TCP connection.
type Dialer struct {
	clock clock.Clock
	dial  func(ctx context.Context, network, address string) (net.Conn, error)
}

// NewDialer returns a Prober that dials. dial is usually that of a
// net.Dialer.
func NewDialer(clk clock.Clock, dial func(ctx context.Context, network, address string) (net.Conn, error)) *Dialer {
	return &Dialer{clock: clk, dial: dial}
}

// Probe implements Prober.
func (d *Dialer) Probe(ctx context.Context, points []session.EntryPoint) error {
	if len(points) == 0 {
		return fmt.Errorf("no entry point to probe")
	}
	for _, point := range points {
		if err := d.listens(ctx, point.Endpoint); err != nil {
			return fmt.Errorf("entry point %s at %s: %w", point.Path, point.Endpoint, err)
		}
	}
	return nil
}

func (d *Dialer) listens(ctx context.Context, endpoint string) error {
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		err := d.once(ctx, endpoint)
		if err == nil {
			return nil
		}
		timer := d.clock.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return err
		case <-timer.C():
		}
	}
}

func (d *Dialer) once(ctx context.Context, endpoint string) error {
	ctx, cancel := context.WithTimeout(ctx, dialBound)
	defer cancel()
	conn, err := d.dial(ctx, "tcp", endpoint)
	if err != nil {
		return err
	}
	return conn.Close()
}
