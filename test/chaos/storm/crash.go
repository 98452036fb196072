package storm

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/agentcube/agentcube/test/chaos/check"
	"github.com/agentcube/agentcube/test/cluster/process"
)

const (
	// crashWithin is how long an armed workload-manager has to come to its point:
	// one that was killed while it led gets its own lease back after 10 s.
	crashWithin = 25 * time.Second
	// lookInterval is how often it is looked whether it has.
	lookInterval = 20 * time.Millisecond
)

// leaderCalls are made by the holder of the lease only.
var leaderCalls = []string{"store.End", "store.Postpone", "store.Index"}

func leaders(point string) bool {
	for _, c := range leaderCalls {
		if strings.HasPrefix(point, c+".") {
			return true
		}
	}
	return false
}

// crashing is one workload-manager that is made to die at a point.
type crashing struct {
	point string
	times int
	// manager is its number, other that of the other one.
	manager, other int
	// gently: it is ended by SIGTERM, not by SIGKILL, to be armed.
	gently bool
	// down is how long it stays dead.
	down time.Duration
	// provoke makes it come to the point.
	provoke func(context.Context)
}

// crash arms a workload-manager with a point, waits until it has died there, and
// starts it again without. hit is false if it never came to the point in time.
func (w *World) crash(ctx context.Context, c crashing) (hit bool, err error) {
	alone := leaders(c.point)
	release := w.hold(c.manager, alone)
	defer release()
	if alone {
		// The other one gives the lease up and stays away, so that this one
		// collects.
		if err := w.managers[c.other].Stop(); err != nil {
			return false, err
		}
	}
	hit, err = w.dieAt(ctx, c)
	if err != nil {
		return hit, err
	}
	sleep(ctx, c.down)
	var group errgroup.Group
	group.Go(func() error { return w.managers[c.manager].restart(ctx) })
	if alone {
		group.Go(func() error { return w.managers[c.other].restart(ctx) })
	}
	return hit, group.Wait()
}

// hold keeps other crashes away from a workload-manager, or from both, until the
// func it returns is called. Both are taken in the order of their numbers, or two
// crashes would wait for each other.
func (w *World) hold(i int, both bool) func() {
	var held []*manager
	for j, m := range w.managers {
		if both || i == j {
			m.mu.Lock()
			held = append(held, m)
		}
	}
	return func() {
		for _, m := range held {
			m.mu.Unlock()
		}
	}
}

func (w *World) dieAt(ctx context.Context, c crashing) (hit bool, err error) {
	m := w.managers[c.manager]
	end := m.Kill
	if c.gently {
		end = m.Stop
	}
	if err := end(); err != nil {
		return false, err
	}
	err = m.restart(ctx, fmt.Sprintf("%s=%s:%d", crashVariable, c.point, c.times))
	var exit *process.ExitError
	if err != nil && !errors.As(err, &exit) {
		return false, err
	}
	if err == nil {
		if c.provoke != nil {
			c.provoke(ctx)
		}
		m.waitExit(ctx, crashWithin)
	}
	output, err := m.Output()
	if err != nil {
		return false, err
	}
	return strings.Contains(string(output), "dying at crash point "+c.point), m.Kill()
}

// restart starts a workload-manager that does not run.
func (m *manager) restart(ctx context.Context, env ...string) error {
	m.restartsMu.Lock()
	m.restarts = append(m.restarts, time.Now())
	m.restartsMu.Unlock()
	m.SetEnv(env...)
	return m.Start(ctx)
}

// restartedAfter tells whether a workload-manager was started again after a
// moment: it cannot have seen what happened just before.
func (w *World) restartedAfter(t time.Time) bool {
	for _, m := range w.managers {
		m.restartsMu.Lock()
		for _, r := range m.restarts {
			if r.After(t) {
				m.restartsMu.Unlock()
				return true
			}
		}
		m.restartsMu.Unlock()
	}
	return false
}

// waitExit returns once the program is gone, or after the time.
func (m *manager) waitExit(ctx context.Context, within time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	for m.PID() != 0 && ctx.Err() == nil {
		sleep(ctx, lookInterval)
	}
}

// provocation is what makes a workload-manager come to a point that its usual
// work seldom passes. It does no harm that the model does not know of.
func (w *World) provocation(m *model, point string, manager int, value uint64) func(context.Context) {
	call := strings.TrimSuffix(strings.TrimSuffix(point, ".before"), ".after")
	switch call {
	case "store.End", "store.Postpone":
		return func(ctx context.Context) {
			if s := m.pickSpace(value); s != nil {
				w.createShort(ctx, m, manager, s, 1, 0)
			}
		}
	case "store.Remove", "cluster.Delete":
		return func(ctx context.Context) { w.deleteOne(ctx, m, manager, value) }
	case "cluster.Get":
		return func(ctx context.Context) { w.kubeObject(ctx, m, value) }
	case "cluster.SandboxUID":
		return func(ctx context.Context) {
			if s := m.pickSpace(value); s != nil {
				w.createOn(ctx, m, manager, s, m.warmOf(s))
			}
		}
	case "cluster.SetLifetimes":
		return func(ctx context.Context) { w.patchOne(ctx, m, manager, value, value) }
	case "cluster.SetSessionLabel":
		return func(ctx context.Context) { w.relabel(ctx, m, value, value) }
	default:
		return func(ctx context.Context) {
			if s := m.pickSpace(value); s != nil {
				w.createOn(ctx, m, manager, s, nil)
			}
		}
	}
}

// needsResync tells whether a violation is one that only a comparison of both
// sides heals: something was done in the cluster that every workload-manager
// may have missed.
func (w *World) needsResync(m *model, v check.Violation) bool {
	switch v.Kind {
	case check.RowWithoutObject, check.LabelLost, check.NotEnded:
	default:
		return false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	k := m.sessions[v.Session]
	return k != nil && w.restartedAfter(k.lastTouched())
}
