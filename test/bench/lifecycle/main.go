// Bench-lifecycle measures the workload-manager among many sessions: how soon
// after its start it has compared them all with the cluster, what one pass of
// the collector reads, whether that grows with the sessions that are not due,
// and how much memory the program holds.
//
// The sessions are rows in a real Redis, and objects behind a small API server
// in a process of its own; the workload-manager is the program as it is shipped.
// What is printed is what was seen, next to its bound; nothing fails for being
// slow or large.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/agentcube/agentcube/test/cluster"
)

// settings of a run.
type settings struct {
	sizes     []int
	due       int
	watchList bool
	program   string
	keep      string
}

func main() {
	s := settings{sizes: []int{1_000, 10_000, 100_000}}
	flag.Func("sessions", "`numbers` of sessions that are not due, separated by commas (default 1000,10000,100000)", func(text string) error {
		s.sizes = nil
		for _, word := range strings.Split(text, ",") {
			n, err := strconv.Atoi(word)
			if err != nil || n < 1 {
				return fmt.Errorf("%q is no number of sessions", word)
			}
			s.sizes = append(s.sizes, n)
		}
		return nil
	})
	flag.IntVar(&s.due, "due", 1000, "sessions that are ended by the pass that is measured")
	flag.BoolVar(&s.watchList, "watch-list", true, "the API server streams first lists; otherwise it refuses to, as older ones do")
	flag.StringVar(&s.program, "program", "", "workload-manager to measure; it is built from the source tree by default")
	flag.StringVar(&s.keep, "logs", "", "`folder` to write the logs to; they are thrown away by default")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := run(ctx, s)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench-lifecycle:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, s settings) (err error) {
	dir, err := os.MkdirTemp("", "agentcube-bench-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	redis, err := cluster.StartRedis(context.WithoutCancel(ctx), cluster.RedisOptions{})
	if err != nil {
		return err
	}
	defer redis.Close()
	if !redis.Real {
		return errors.New("this measures a real Redis; install redis-server")
	}
	b := &bench{settings: s, dir: dir, logs: s.keep, redis: redis}
	if b.logs == "" {
		b.logs = filepath.Join(dir, "logs")
	}
	if err := b.build(ctx); err != nil {
		return err
	}
	var results []result
	for _, size := range s.sizes {
		r, err := b.measure(ctx, size)
		if err != nil {
			return fmt.Errorf("with %d sessions: %w", size, err)
		}
		r.print(os.Stdout)
		results = append(results, r)
	}
	printPasses(os.Stdout, results)
	return nil
}
