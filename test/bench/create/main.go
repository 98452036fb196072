// bench-create measures how fast sessions are created, next to the floor that
// the cluster itself sets: the time from sending a SandboxClaim or Sandbox until
// a watch shows it bound and ready. It also measures how soon a deletion in the
// cluster shows at the router, the start of the development cluster, and the
// memory of both programs with many sessions.
//
// Everything runs in one go, floor and ours in turns, and what is printed is
// what was seen; nothing fails for being slow.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/agentcube/agentcube/test/system"
)

// settings of a run.
type settings struct {
	version   string
	rounds    int
	deletions int
	sessions  int
}

func main() {
	var s settings
	flag.StringVar(&s.version, "agent-sandbox", "", "version of agent-sandbox: v0.5.6 (default) or v0.4.6")
	flag.IntVar(&s.rounds, "rounds", 5, "turns of floor and ours")
	flag.IntVar(&s.deletions, "deletions", 50, "deletions that are timed")
	flag.IntVar(&s.sessions, "sessions", 1000, "sessions at which memory is measured")
	flag.Parse()
	if err := run(s); err != nil {
		fmt.Fprintln(os.Stderr, "bench-create:", err)
		os.Exit(1)
	}
}

func run(o settings) (err error) {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	s, err := system.Start(context.WithoutCancel(ctx), system.Options{
		AgentSandbox: o.version, Log: os.Stderr,
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Stop()) }()
	printStart(s)
	b, err := newBench(ctx, s, o)
	if err != nil {
		return err
	}
	if err := b.creates(ctx); err != nil {
		return err
	}
	if err := b.timeDeletions(ctx); err != nil {
		return err
	}
	return b.memory(ctx)
}

func printStart(s *system.System) {
	var total time.Duration
	fmt.Printf("\n## Start of the development cluster (agent-sandbox %s, binaries built)\n\n", s.Cluster.AgentSandbox)
	for _, p := range s.Cluster.Phases {
		fmt.Printf("%-40s %8s\n", p.Name, p.Took.Round(time.Millisecond))
		total += p.Took
	}
	store := "embedded"
	if s.Redis.Real {
		store = "redis-server, without an append-only file"
	}
	fmt.Printf("%-40s %8s   (bound: 30 s)\nstore: %s\n", "all", total.Round(time.Millisecond), store)
}
