package storm

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/agentcube/agentcube/test/system"
)

// How long a fault is held. The longest, and what it takes to start an API
// server again, stay under the unknown-timeout of the programs.
const (
	shortFault = 500 * time.Millisecond
	longFault  = 4 * time.Second
)

// fault is one way in which a dependency fails for a while.
type fault struct {
	name string
	// part is what it works on: two faults of one part are not at once.
	part string
	// strike begins it, hold says that it is held, heal ends it.
	strike func(context.Context, target) error
	hold   bool
	heal   func(context.Context, target) error
}

// target is the workload-managers a proxy's fault is for.
type target []int

// The parts.
const (
	partRedis   = "redis"
	partControl = "control plane"
)

func (w *World) faults() []fault {
	noHeal := func(context.Context, target) error { return nil }
	plain := func(do func() error) func(context.Context, target) error {
		return func(context.Context, target) error { return do() }
	}
	start := func(do func(context.Context) error) func(context.Context, target) error {
		return func(ctx context.Context, _ target) error { return do(ctx) }
	}
	faults := []fault{
		{"redis stopped", partRedis, plain(w.Redis.Stop), true, start(w.Redis.Start)},
		{"redis killed", partRedis, plain(w.Redis.Kill), true, start(w.Redis.Start)},
		{"redis paused", partRedis, plain(w.Redis.Pause), true, plain(w.Redis.Resume)},
		{"api server stopped", partControl, plain(w.Cluster.APIServer.Stop), true, start(w.Cluster.APIServer.Start)},
		{"api server paused", partControl, plain(w.Cluster.APIServer.Pause), true, plain(w.Cluster.APIServer.Resume)},
		{"controller stopped", partControl, plain(w.Cluster.Controller.Stop), true, start(w.Cluster.Controller.Start)},
	}
	for _, dependency := range []string{system.Store, system.APIServer} {
		faults = append(faults,
			fault{dependency + " cut", dependency, w.proxied(dependency, "cut"), false, noHeal},
			fault{dependency + " refused", dependency, w.proxied(dependency, "refuse"), true, w.proxied(dependency, "thaw")},
			fault{dependency + " frozen", dependency, w.proxied(dependency, "freeze"), true, w.proxied(dependency, "thaw")},
		)
	}
	// What is frozen so is never thawed: whoever has the watch must notice.
	return append(faults, fault{watchesFrozen, system.APIServer, w.proxied(system.APIServer, "freeze open"), false, noHeal})
}

// watchesFrozen takes longer to get over than any other fault.
const watchesFrozen = "watches frozen"

func (w *World) proxied(dependency, what string) func(context.Context, target) error {
	return func(_ context.Context, t target) error {
		for _, i := range t {
			p := w.proxyOf(i, dependency)
			switch what {
			case "cut":
				p.Cut()
			case "refuse":
				p.Refuse()
			case "freeze":
				p.Freeze()
			case "freeze open":
				p.FreezeOpen()
			case "thaw":
				if err := p.Thaw(); err != nil { //nolint:contextcheck // a proxy outlives the fault
					return err
				}
			}
		}
		return nil
	}
}

// strikes runs faults, one at a time for each part.
type strikes struct {
	faults map[string]fault
	names  []string
	parts  map[string]*sync.Mutex
}

func newStrikes(faults []fault) *strikes {
	s := &strikes{faults: map[string]fault{}, parts: map[string]*sync.Mutex{}}
	for _, f := range faults {
		s.faults[f.name] = f
		s.names = append(s.names, f.name)
		s.parts[f.part] = &sync.Mutex{}
	}
	return s
}

// strike runs one fault from its beginning to its end.
func (s *strikes) strike(ctx context.Context, name string, t target, held time.Duration) error {
	f := s.faults[name]
	s.parts[f.part].Lock()
	defer s.parts[f.part].Unlock()
	if err := f.strike(ctx, t); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if f.hold {
		sleep(ctx, held)
	}
	if err := f.heal(ctx, t); err != nil {
		return fmt.Errorf("ending %q: %w", name, err)
	}
	return nil
}

// without does something while no fault of the part is under way.
func (s *strikes) without(part string, do func() string) string {
	s.parts[part].Lock()
	defer s.parts[part].Unlock()
	return do()
}
