package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"

	"github.com/agentcube/agentcube/test/cluster"
	"github.com/agentcube/agentcube/test/cluster/process"
)

// bench is what the measurements share.
type bench struct {
	settings
	dir, logs string
	out       io.Writer
	redis     *cluster.Redis
	kube      *identity
	parties   parties
	charts    []chart
	// seed of the draws: one for each round, so that all parties of a round draw
	// the same sessions, and no two rounds do.
	seed    int
	release []func()
}

// parts in the order in which they are measured.
var parts = []struct {
	name    string
	measure func(*bench, context.Context) error
}{
	{"throughput", (*bench).throughput},
	{"alloc", (*bench).alloc},
	{"websocket", (*bench).websocket},
	{"sse", (*bench).sse},
	{"memory", (*bench).memory},
}

func partNames() []string {
	var names []string
	for _, p := range parts {
		names = append(names, p.name)
	}
	return names
}

func run(ctx context.Context, s settings) (err error) {
	if _, err := exec.LookPath("wrk"); err != nil {
		return errors.New("the load generator wrk is missing; on Debian: apt-get install wrk")
	}
	dir, err := os.MkdirTemp("", "agentcube-bench-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	b := &bench{settings: s, dir: dir, logs: s.keep, out: os.Stdout}
	if b.logs == "" {
		b.logs = filepath.Join(dir, "logs")
	}
	defer func() { err = errors.Join(err, b.stop()) }()
	if err := b.start(ctx); err != nil {
		return err
	}
	for _, part := range parts {
		if !slices.Contains(s.only, part.name) {
			continue
		}
		if err := part.measure(b, ctx); err != nil {
			return fmt.Errorf("measuring %s: %w", part.name, err)
		}
	}
	return b.plot(ctx)
}

// start runs everything but the load. Redis ends last of all: it is stopped by
// stop, not by the signal that ends ctx.
func (b *bench) start(ctx context.Context) (err error) {
	if b.redis, err = cluster.StartRedis(context.WithoutCancel(ctx), cluster.RedisOptions{}); err != nil {
		return err
	}
	b.release = append(b.release, b.redis.Close)
	if !b.redis.Real {
		return errors.New("this measures a real Redis; install redis-server")
	}
	if b.kube, err = serveIdentity(ctx); err != nil {
		return err
	}
	b.release = append(b.release, b.kube.close)
	if err := b.build(ctx); err != nil {
		return err
	}
	if err := b.startParties(ctx); err != nil {
		return err
	}
	return b.writeSessions(ctx)
}

// stop ends what start has started, in the reverse order.
func (b *bench) stop() error {
	err := b.parties.stop()
	for _, release := range slices.Backward(b.release) {
		release()
	}
	return err
}

// build compiles what runs as a process, the router as it is shipped.
func (b *bench) build(ctx context.Context) error {
	builds := map[string]string{
		b.binary("bare"): "./test/bench/router/bare", b.binary("sandbox"): "./test/bench/router/sandbox",
	}
	if b.program == "" {
		b.program = b.binary("router")
		builds[b.program] = "./cmd/router"
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

func (b *bench) binary(name string) string { return filepath.Join(b.dir, name) }

// port is reserved until the end of the run.
func (b *bench) port() (*process.Port, error) {
	port, err := process.ReservePort()
	if err != nil {
		return nil, err
	}
	b.release = append(b.release, port.Release)
	return port, nil
}

// say prints progress, beside the figures.
func (*bench) say(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }
