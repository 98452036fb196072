package provision_test

import (
	"context"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/utils/clock"

	"github.com/agentcube/agentcube/pkg/session"
	"github.com/agentcube/agentcube/pkg/workloadmanager/provision"
)

// listener answers dials from a moment on.
type listener struct {
	from   time.Time
	silent bool // until then dials hang instead of being refused
	dials  int
	last   string
}

func (l *listener) dial(ctx context.Context, network, address string) (net.Conn, error) {
	l.dials++
	l.last = network + " " + address
	if wait := (clock.RealClock{}).Since(l.from); wait < 0 {
		if l.silent {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		return nil, errRefused
	}
	here, there := net.Pipe()
	_ = there.Close()
	return here, nil
}

func TestProbe(t *testing.T) {
	t.Parallel()
	points := []session.EntryPoint{{Path: "/", Endpoint: "10.0.0.7:8080"}, {Path: "/b", Endpoint: "[fd00::7]:9090"}}
	for name, c := range map[string]struct {
		after    time.Duration
		silent   bool
		min, max time.Duration
		fails    bool
	}{
		"listens at once: nothing is waited for": {0, false, 0, 0, false},
		"listens soon":                           {10 * time.Millisecond, false, 10 * time.Millisecond, 20 * time.Millisecond, false},
		"listens late":                           {2 * time.Second, false, 2 * time.Second, 2250 * time.Millisecond, false},
		"was silent first":                       {2500 * time.Millisecond, true, 2500 * time.Millisecond, 3500 * time.Millisecond, false},
		"never listens":                          {time.Hour, false, 15 * time.Second, 15 * time.Second, true},
		"is silent":                              {time.Hour, true, 15 * time.Second, 15 * time.Second, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				clk := clock.RealClock{}
				start := clk.Now()
				l := &listener{from: start.Add(c.after), silent: c.silent}
				ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
				defer cancel()
				err := provision.NewDialer(clk, l.dial).Probe(ctx, points)
				assert.GreaterOrEqual(t, clk.Since(start), c.min)
				assert.LessOrEqual(t, clk.Since(start), c.max)
				if c.fails {
					require.ErrorContains(t, err, "entry point / at 10.0.0.7:8080")
					assert.Less(t, l.dials, 100, "pauses grow")
					return
				}
				require.NoError(t, err)
				assert.Equal(t, "tcp [fd00::7]:9090", l.last, "every entry point is probed")
			})
		})
	}
	t.Run("of nothing is no success", func(t *testing.T) {
		t.Parallel()
		require.Error(t, provision.NewDialer(clock.RealClock{}, (&net.Dialer{}).DialContext).Probe(t.Context(), nil))
	})
}
