package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/agentcube/agentcube/test/cluster/binaries"
	"github.com/agentcube/agentcube/test/cluster/node"
	"github.com/agentcube/agentcube/test/cluster/process"
)

// Cluster is a running development cluster. Its processes can be stopped,
// killed, frozen and started again one by one; they keep their ports.
type Cluster struct {
	// Kubeconfig is the path of the administrator's kubeconfig.
	Kubeconfig string
	// Dir holds certificates, kubeconfigs, logs and the data of etcd.
	Dir string
	// AgentSandbox is the version of agent-sandbox that is served.
	AgentSandbox string

	// The processes, in the order of their dependence.
	Etcd              *process.Process
	APIServer         *process.Process
	ControllerManager *process.Process
	Controller        *process.Process // agent-sandbox

	// Node is where the pods run.
	Node *node.Node

	// Phases tells how long each part of the start took.
	Phases []Phase

	options  Options
	builder  *binaries.Builder
	paths    paths
	ports    ports
	tokens   tokens
	etcdURL  string
	converts bool // the definitions convert by webhook
	ca       []byte
	config   *rest.Config
	applier  *applier
	stopNode func()

	phasesMu sync.Mutex // guards Phases during the start
	stopOnce sync.Once
	stopErr  error
	unhook   func() bool
}

// Phase is a part of the start.
type Phase struct {
	Name string
	Took time.Duration
}

// Start brings up a cluster and returns once it serves: the API server is ready,
// the custom resources of agent-sandbox are established and discovery shows them,
// both controllers and the node are ready. Binaries that are not in the cache are
// built first, which takes minutes. The cluster is stopped when ctx ends; call
// Stop to wait for that.
func Start(ctx context.Context, options Options) (*Cluster, error) {
	c := &Cluster{options: options.withDefaults()}
	c.AgentSandbox = c.options.AgentSandbox
	if err := c.start(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("starting the development cluster: %w", err), c.Stop())
	}
	c.unhook = context.AfterFunc(ctx, func() { _ = c.Stop() }) // Stop says it again
	return c, nil
}

func (c *Cluster) start(ctx context.Context) error {
	began := time.Now()
	if err := c.phase("binaries", func() error { return c.findBinaries(ctx) }); err != nil {
		return err
	}
	if err := c.prepare(); err != nil {
		return err
	}
	if err := c.startControlPlane(ctx); err != nil {
		return err
	}
	fmt.Fprintf(c.options.Log, "cluster ready in %s\n", round(time.Since(began)))
	return nil
}

// Stop ends everything and returns once every process is gone. It may be called
// more than once. The order: who writes goes before who is written to, so that
// nobody logs errors about a peer that went first.
func (c *Cluster) Stop() error {
	c.stopOnce.Do(func() {
		if c.unhook != nil {
			c.unhook()
		}
		// 1. The node: its pods close their connections.
		if c.stopNode != nil {
			c.stopNode()
		}
		// 2. The controllers, 3. the API server, 4. etcd.
		var errs []error
		errs = append(errs, inParallel(stopOf(c.Controller), stopOf(c.ControllerManager)))
		errs = append(errs, stopOf(c.APIServer)(), stopOf(c.Etcd)())
		// 5. Nobody uses the ports and the folder any more.
		c.ports.release()
		if c.options.Dir == "" && c.Dir != "" {
			errs = append(errs, os.RemoveAll(c.Dir))
		}
		if err := errors.Join(errs...); err != nil {
			c.stopErr = fmt.Errorf("stopping the development cluster: %w", err)
		}
	})
	return c.stopErr
}

// Config returns a configuration with the administrator's rights and without
// client-side rate limits. The caller may change it.
func (c *Cluster) Config() *rest.Config { return rest.CopyConfig(c.config) }

// Processes lists the processes in the order of their dependence.
func (c *Cluster) Processes() []*process.Process {
	return []*process.Process{c.Etcd, c.APIServer, c.ControllerManager, c.Controller}
}

// Kubectl returns the path of a kubectl: the one in PATH or, where there is none,
// one that is built on the first call.
func (c *Cluster) Kubectl(ctx context.Context) (string, error) { return c.builder.Kubectl(ctx) }

// phase runs a part of the start, measures it and says so.
func (c *Cluster) phase(name string, run func() error) error {
	began := time.Now()
	if err := run(); err != nil {
		return err
	}
	took := time.Since(began)
	c.phasesMu.Lock()
	defer c.phasesMu.Unlock()
	c.Phases = append(c.Phases, Phase{Name: name, Took: took})
	fmt.Fprintf(c.options.Log, "  %-28s %s\n", name, round(took))
	return nil
}

func (c *Cluster) findBinaries(ctx context.Context) error {
	var err error
	c.builder, err = binaries.New(ctx, clock.RealClock{}, c.options.CacheDir, c.options.Log)
	if err != nil {
		return err
	}
	c.paths, err = findPaths(ctx, c.builder, c.AgentSandbox)
	return err
}

// prepare makes the folder and reserves the ports.
func (c *Cluster) prepare() error {
	c.Dir = c.options.Dir
	if c.Dir == "" {
		dir, err := os.MkdirTemp("", "agentcube-cluster-")
		if err != nil {
			return err
		}
		c.Dir = dir
	}
	absolute, err := filepath.Abs(c.Dir)
	if err != nil {
		return err
	}
	c.Dir = absolute
	for _, dir := range []string{c.logDir(), c.certDir(), c.kubeconfigDir()} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
	}
	return nil
}

func (c *Cluster) logDir() string        { return filepath.Join(c.Dir, "logs") }
func (c *Cluster) certDir() string       { return filepath.Join(c.Dir, "certificates") }
func (c *Cluster) kubeconfigDir() string { return filepath.Join(c.Dir, "kubeconfigs") }

func stopOf(p *process.Process) func() error {
	if p == nil {
		return func() error { return nil }
	}
	return p.Stop
}

// inParallel runs all functions, waits for them and joins their errors.
func inParallel(runs ...func() error) error {
	errs := make([]error, len(runs))
	var wg sync.WaitGroup
	for i, run := range runs {
		wg.Go(func() { errs[i] = run() })
	}
	wg.Wait()
	return errors.Join(errs...)
}

func round(d time.Duration) time.Duration { return d.Round(10 * time.Millisecond) }
