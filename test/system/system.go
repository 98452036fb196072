// Package system is the whole of AgentCube on the development cluster: the
// cluster, a store, and our two programs as processes of their own, each with
// exactly the rights that the shipped manifests give its service account.
// Tests, benches and the demo run on it.
package system

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/agentcube/agentcube/test/cluster"
)

// Namespace is where the programs' service accounts, Secret and Lease are.
const Namespace = "agentcube"

// The dependencies that Options.Via is asked about.
const (
	APIServer = "api-server"
	Store     = "store"
)

// password of the store, since both programs refuse one without.
const password = "development"

// Options of a System. The zero value is a good one for a test.
type Options struct {
	// AgentSandbox is the version of agent-sandbox; the cluster's default if
	// empty.
	AgentSandbox string
	// Managers is the number of workload-managers; 1 by default.
	Managers int
	// ManagerArgs and RouterArgs are added to the programs' arguments.
	ManagerArgs, RouterArgs []string
	// ManagerEnv is added to the environment of the workload-managers.
	ManagerEnv []string
	// Tags are build tags of the programs.
	Tags []string
	// Via, if set, says by which address a program (its name as in its log)
	// reaches the API server or the store at address. It is asked once for each.
	Via func(program, dependency, address string) (string, error)
	// Redis of the store. Its password is set.
	Redis cluster.RedisOptions
	// Dir keeps the state of the cluster; see cluster.Options.
	Dir string
	// Log takes progress lines; nil for none.
	Log io.Writer
}

// System is a running system.
type System struct {
	Cluster *cluster.Cluster
	Redis   *cluster.Redis
	// Managers are the workload-managers.
	Managers []*Program
	Router   *Program

	via   func(program, dependency, address string) (string, error)
	ports []interface{ Release() }
	races []string
}

// Start brings everything up and returns once both programs are ready, the
// router's key included. It stops when ctx ends; Stop waits for that.
func Start(ctx context.Context, o Options) (*System, error) {
	s := &System{via: o.Via}
	if err := s.start(ctx, o); err != nil {
		return nil, errors.Join(err, s.Stop())
	}
	return s, nil
}

func (s *System) start(ctx context.Context, o Options) error {
	root := Root()
	var group errgroup.Group
	group.Go(func() (err error) {
		s.Cluster, err = cluster.Start(ctx, cluster.Options{
			AgentSandbox: o.AgentSandbox, Dir: o.Dir, Log: o.Log,
			CRDs: []string{filepath.Join(root, "manifests", "crds")},
		})
		return err
	})
	group.Go(func() (err error) {
		o.Redis.Password = password
		s.Redis, err = cluster.StartRedis(ctx, o.Redis)
		return err
	})
	if err := group.Wait(); err != nil {
		return fmt.Errorf("starting the development cluster: %w", err)
	}
	binDir, err := buildPrograms(ctx, root, s.Cluster.Dir, o.Tags, o.Log)
	if err != nil {
		return err
	}
	for _, name := range []string{"namespace.yaml", "workload-manager-rbac.yaml", "router-rbac.yaml"} {
		if err := s.Cluster.ApplyFile(ctx, filepath.Join(root, "manifests", "base", name)); err != nil {
			return fmt.Errorf("applying the shipped manifests: %w", err)
		}
	}
	return s.startPrograms(ctx, o, binDir)
}

func (s *System) startPrograms(ctx context.Context, o Options, binDir string) error {
	begun := time.Now()
	for i := range max(o.Managers, 1) {
		manager, err := s.newManager(ctx, binDir, i, o.ManagerArgs, o.ManagerEnv)
		if err != nil {
			return err
		}
		s.Managers = append(s.Managers, manager)
	}
	router, err := s.newRouter(ctx, binDir, o.RouterArgs)
	if err != nil {
		return err
	}
	s.Router = router
	var group errgroup.Group
	for _, p := range s.programs() {
		group.Go(func() error { return p.Start(ctx) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	say(o.Log, "workload-manager and router are ready (%s)", time.Since(begun).Round(time.Millisecond))
	return nil
}

// Races returns what the race detector had reported in the programs' logs when
// Stop ended them. It is always empty without it.
func (s *System) Races() []string { return s.races }

// readRaces is for when the programs have ended, and their logs are there yet.
func (s *System) readRaces() ([]string, error) {
	var found []string
	for _, p := range s.programs() {
		text, err := os.ReadFile(p.Log())
		if errors.Is(err, os.ErrNotExist) {
			continue // it was never started
		}
		if err != nil {
			return nil, err
		}
		if i := bytes.Index(text, []byte("WARNING: DATA RACE")); i >= 0 {
			found = append(found, p.Name()+": "+string(text[i:min(len(text), i+4000)]))
		}
	}
	return found, nil
}

func (s *System) programs() []*Program {
	programs := slices.Clone(s.Managers)
	if s.Router != nil {
		programs = append(programs, s.Router)
	}
	return programs
}

// Manager is the first workload-manager.
func (s *System) Manager() *Program { return s.Managers[0] }

// Stop ends everything, the programs before what they need.
func (s *System) Stop() error {
	var errs []error
	if s.Router != nil {
		errs = append(errs, s.Router.Stop())
	}
	for _, m := range s.Managers {
		errs = append(errs, m.Stop())
	}
	// Before the cluster takes the logs along.
	races, err := s.readRaces()
	s.races = append(s.races, races...)
	errs = append(errs, err)
	if s.Cluster != nil {
		errs = append(errs, s.Cluster.Stop())
	}
	if s.Redis != nil {
		s.Redis.Close()
	}
	for _, p := range s.ports {
		p.Release()
	}
	return errors.Join(errs...)
}

// Root is the folder of the source tree.
func Root() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Dir(filepath.Dir(filepath.Dir(file)))
}

func say(log io.Writer, format string, args ...any) {
	if log != nil {
		fmt.Fprintf(log, format+"\n", args...)
	}
}

// StorePassword is the password of the store.
func (s *System) StorePassword() string { return password }

// PrintLogs writes the end of both programs' logs, for a test that failed.
func (s *System) PrintLogs(to io.Writer) {
	const tail = 20_000
	for _, p := range s.programs() {
		text, err := os.ReadFile(p.Log())
		if err != nil {
			fmt.Fprintln(to, err)
			continue
		}
		fmt.Fprintf(to, "--- %s\n%s\n", p.Log(), text[max(0, len(text)-tail):])
	}
}
