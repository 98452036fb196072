// Bench-api measures the API of the workload-manager among many sessions: a
// page of a list, without a filter and with each; the read of one session; the
// page of metrics; and what the entries of lists add to a create and a commit,
// side by side with another revision of the source tree.
//
// The rows are in a real Redis, which is a process of its own; the server is the
// one that is shipped, behind a real connection. What is printed is what was
// seen, next to its bound; nothing fails for being slow.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/agentcube/agentcube/test/cluster"
)

// settings of a run.
type settings struct {
	sessions, rounds, writes int
	base                     string
}

func main() {
	var s settings
	flag.IntVar(&s.sessions, "sessions", 100_000, "sessions in the store")
	flag.IntVar(&s.rounds, "rounds", 30, "times that each request is sent; turns of each revision are a tenth of that")
	flag.IntVar(&s.writes, "writes", 5_000, "sessions that are created and committed in a turn")
	flag.StringVar(&s.base, "base", "", "`revision` to write sessions with too, for comparison; none by default")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := run(ctx, s)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench-api:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, s settings) error {
	redis, err := cluster.StartRedis(context.WithoutCancel(ctx), cluster.RedisOptions{})
	if err != nil {
		return err
	}
	defer redis.Close()
	if !redis.Real {
		return errors.New("this measures a real Redis; install redis-server")
	}
	if err := measureWrites(ctx, s, redis); err != nil {
		return fmt.Errorf("writing sessions: %w", err)
	}
	if err := redis.FlushAll(ctx); err != nil {
		return err
	}
	return measureReads(ctx, s, redis)
}
