package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/google/uuid"
	goredis "github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"
	"k8s.io/utils/clock"

	"github.com/agentcube/agentcube/pkg/session"
	"github.com/agentcube/agentcube/pkg/store"
	"github.com/agentcube/agentcube/test/bench/lifecycle/fleet"
	"github.com/agentcube/agentcube/test/cluster"
	"github.com/agentcube/agentcube/test/cluster/process"
)

const (
	// writers load the store at a time.
	writers = 64
	// age of the sessions: what is young is spared many a look.
	age = time.Hour
)

// bench is what the measurements share.
type bench struct {
	settings
	dir, logs string
	redis     *cluster.Redis
	programs  programs
}

// programs are the paths of the executables.
type programs struct{ manager, apiserver string }

// build compiles what runs as a process, the workload-manager as it is shipped.
func (b *bench) build(ctx context.Context) error {
	b.programs = programs{manager: b.program, apiserver: filepath.Join(b.dir, "apiserver")}
	builds := map[string]string{b.programs.apiserver: "./test/bench/lifecycle/apiserver"}
	if b.program == "" {
		b.programs.manager = filepath.Join(b.dir, "workload-manager")
		builds[b.programs.manager] = "./cmd/workload-manager"
	}
	for out, source := range builds {
		compile := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags=-s -w", "-o", out, source)
		compile.Env = append(os.Environ(), "CGO_ENABLED=0")
		if text, err := compile.CombinedOutput(); err != nil {
			return fmt.Errorf("building %s: %w\n%s", source, err, text)
		}
	}
	return nil
}

// measure runs the programs with so many sessions that are not due, and as many
// more as become due.
func (b *bench) measure(ctx context.Context, size int) (r result, err error) {
	r = result{notDue: size, due: b.due, watchList: b.watchList}
	client := store.Client(store.Config{Addrs: []string{b.redis.Addr}})
	rows := store.New(clock.RealClock{}, client, store.Options{})
	defer rows.Close()
	begun := time.Now()
	f, err := b.load(ctx, rows, size+b.due)
	if err != nil {
		return r, err
	}
	r.loaded = time.Since(begun)
	folder := filepath.Join(b.logs, fmt.Sprintf("%d-sessions", size))
	server, err := b.startAPIServer(ctx, folder, f)
	if err != nil {
		return r, err
	}
	defer stop(server.Process, &err)
	begun = time.Now()
	manager, err := b.startManager(ctx, folder, server)
	if err != nil {
		return r, err
	}
	defer stop(manager.Process, &err)
	r.synced = time.Since(begun)
	metrics, err := manager.metrics(ctx)
	if err != nil {
		return r, err
	}
	r.syncCPU = worked(metrics)
	steps := []func() error{
		func() error { return b.settle(ctx, client, manager, &r) },
		func() error { return r.weigh(ctx, manager) },
		func() error { return b.collect(ctx, rows, client, manager, f, &r) },
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return r, err
		}
	}
	return r, nil
}

func stop(p *process.Process, err *error) {
	if failed := p.Stop(); failed != nil && *err == nil {
		*err = failed
	}
}

// load writes the rows of a new fleet into an empty store.
func (b *bench) load(ctx context.Context, rows *store.Redis, size int) (fleet.Fleet, error) {
	if err := b.redis.FlushAll(ctx); err != nil {
		return fleet.Fleet{}, err
	}
	installation := uuid.NewString()
	if err := rows.SetInstallation(ctx, installation); err != nil {
		return fleet.Fleet{}, err
	}
	f := fleet.Fleet{Size: size, Created: time.Now().Add(-age).Truncate(time.Second), Installation: installation}
	return f, each(ctx, 0, size, func(ctx context.Context, i int) error {
		_, err := rows.Create(ctx, f.Session(i))
		return err
	})
}

// expire makes the last sessions of the fleet due at one moment.
func (b *bench) expire(ctx context.Context, rows *store.Redis, f fleet.Fleet, at time.Time) error {
	return each(ctx, f.Size-b.due, f.Size, func(ctx context.Context, i int) error {
		_, err := rows.Update(ctx, fleet.SessionID(i), func(s *session.Session) error {
			s.ExpiresAt = at
			return nil
		})
		return err
	})
}

// each calls do for every number from first up to, not including, last.
func each(ctx context.Context, first, last int, do func(context.Context, int) error) error {
	group, ctx := errgroup.WithContext(ctx)
	for w := range writers {
		group.Go(func() error {
			for i := first + w; i < last; i += writers {
				if err := do(ctx, i); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return group.Wait()
}

// calls is how often the store has run a command.
func calls(ctx context.Context, client goredis.UniversalClient, command string) (int64, error) {
	text, err := client.Info(ctx, "commandstats").Result()
	if err != nil {
		return 0, err
	}
	return parseCalls(text, command)
}
