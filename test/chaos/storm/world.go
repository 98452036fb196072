// Package storm runs AgentCube through everything that can go wrong, in rounds,
// and lets package check decide after each whether the store and the cluster
// agree and every session has met its fate.
//
// The steps follow from a seed. It does not judge (check), and knows nothing of
// how the programs work but their interfaces, their crash points and their
// planted bugs.
package storm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"

	"github.com/agentcube/agentcube/pkg/sandbox"
	"github.com/agentcube/agentcube/test/chaos/proxy"
	"github.com/agentcube/agentcube/test/cluster"
	"github.com/agentcube/agentcube/test/system"
)

// The bounds of the programs, shortened so that what waits for one is seen to do
// so within a round. unknown-timeout stays longer than any fault of the storm
// can hold a call back.
var managerArgs = []string{
	"--create-timeout=20s", "--probe-timeout=4s", "--undo-timeout=10s", "--delete-timeout=10s",
	"--unknown-timeout=12s", "--collect-interval=1s", "--cluster-timeout=3s", "--store-timeout=2s",
	"--outage-pause=5s", "--drain-timeout=5s", "--resync-interval=20s", "--resync-grace=5s",
}

var routerArgs = []string{"--create-timeout=25s", "--store-timeout=2s", "--dial-timeout=2s"}

// A connection that is silent for 5 s is asked for a sign of life, and given up
// 3 s later: client-go's own defaults are 30 s and 15 s.
var managerEnv = []string{"HTTP2_READ_IDLE_TIMEOUT_SECONDS=5", "HTTP2_PING_TIMEOUT_SECONDS=3"}

// Environment of the programs in a build with the tag chaos.
const (
	crashVariable   = "AGENTCUBE_CRASH_AT"
	plantedVariable = "AGENTCUBE_PLANTED_BUG"
)

// requestBound is longer than any answer of the programs takes.
const requestBound = 40 * time.Second

// World is the system that a storm passes over.
type World struct {
	*system.System
	client   dynamic.Interface
	api      sandbox.API
	redis    *redis.Client
	http     *http.Client
	managers []*manager
	points   []string
	log      io.Writer

	mu      sync.Mutex // guards proxies
	proxies map[string]*proxy.Proxy
}

// manager is one workload-manager.
type manager struct {
	*system.Program
	// mu is held while it is made to crash.
	mu sync.Mutex
	// restarts are when it was started again; guarded by restartsMu.
	restartsMu sync.Mutex
	restarts   []time.Time
}

// StartWorld starts the system: two workload-managers and a router, with crash
// points and behind proxies. An empty version is the cluster's default; with an empty dir
// its files go away at the end.
func StartWorld(ctx context.Context, version, dir string, log io.Writer) (*World, error) {
	w := &World{proxies: map[string]*proxy.Proxy{}, log: log, http: &http.Client{
		Timeout: requestBound, Transport: &http.Transport{DisableKeepAlives: true},
	}}
	if err := w.start(ctx, version, dir); err != nil {
		return nil, errors.Join(err, w.Stop())
	}
	return w, nil
}

func (w *World) start(ctx context.Context, version, dir string) (err error) {
	w.System, err = system.Start(ctx, system.Options{
		AgentSandbox: version, Dir: dir, Managers: 2, ManagerArgs: managerArgs, RouterArgs: routerArgs,
		ManagerEnv: managerEnv, Tags: []string{"chaos"}, Via: w.via, Log: w.log,
		Redis: cluster.RedisOptions{AppendOnly: true},
	})
	if err != nil {
		return err
	}
	if !w.Redis.Real {
		return cluster.ErrEmbedded
	}
	for _, p := range w.Managers {
		w.managers = append(w.managers, &manager{Program: p})
	}
	if w.client, err = dynamic.NewForConfig(w.Cluster.Config()); err != nil {
		return err
	}
	discoverer, err := discovery.NewDiscoveryClientForConfig(w.Cluster.Config())
	if err != nil {
		return err
	}
	if w.api, err = sandbox.Discover(discoverer); err != nil {
		return err
	}
	w.redis = redis.NewClient(&redis.Options{Addr: w.Redis.Addr, Password: w.StorePassword()})
	w.points, err = w.crashPoints(ctx)
	return err
}

// via puts a proxy between a program and what it depends on.
func (w *World) via(program, dependency, address string) (string, error) {
	p, err := proxy.Listen(address)
	if err != nil {
		return "", err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.proxies[program+" "+dependency] = p
	return p.Addr(), nil
}

// proxyOf is the proxy between a manager and what it depends on.
func (w *World) proxyOf(i int, dependency string) *proxy.Proxy {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.proxies[w.managers[i].Name()+" "+dependency]
}

// crashPoints asks the program for its points.
func (w *World) crashPoints(ctx context.Context) ([]string, error) {
	list := exec.CommandContext(ctx, filepath.Join(w.Cluster.Dir, "bin", "workload-manager"))
	list.Env = []string{crashVariable + "=list"}
	out, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("listing the crash points: %w", err)
	}
	return strings.Fields(string(out)), nil
}

// Stop ends everything.
func (w *World) Stop() error {
	var err error
	if w.System != nil {
		err = w.System.Stop()
	}
	if w.redis != nil {
		err = errors.Join(err, w.redis.Close())
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range w.proxies {
		p.Close()
	}
	return err
}

// sleep waits, unless ctx ends first.
func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
