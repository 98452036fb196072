// chaos passes a storm of creates, deletions, crashes and outages over the whole
// system on the development cluster, and checks after each round that the store
// and the cluster agree and that every session has met its fate. The last line
// says the verdict; the status is 0 only for OK.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/agentcube/agentcube/test/chaos/storm"
)

// fullRun is from how many steps on a run must have met every crash point and
// every fault often enough.
const fullRun = 2000

var errVerdict = errors.New("the verdict is not OK")

func main() { os.Exit(run()) }

// run returns the status: 0 for OK, 1 for another verdict, 2 when there is none.
func run() int {
	var o storm.Options
	var version, dir string
	flag.Uint64Var(&o.Seed, "seed", 0, "of the steps; 0 draws one")
	flag.IntVar(&o.Steps, "steps", fullRun, "steps to take; 0 for no bound")
	flag.DurationVar(&o.Duration, "duration", 0, "time to take; 0 for no bound")
	flag.IntVar(&o.Round, "round", 0, "steps of a round; 100 if 0")
	flag.StringVar(&version, "agent-sandbox", "", "version of agent-sandbox: v0.5.6 (default) or v0.4.6")
	flag.StringVar(&dir, "dir", "", "keep the cluster's files and the logs here")
	flag.Parse()
	if o.Seed == 0 {
		o.Seed = rand.Uint64N(1 << 32)
	}
	o.Cover = o.Steps >= fullRun
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	begun := time.Now()
	err := pass(ctx, o, version, dir)
	if errors.Is(err, errVerdict) {
		return 1
	}
	if err != nil {
		fmt.Printf("%v\nchaos: ERROR seed=%d took=%s\n", err, o.Seed, time.Since(begun).Round(time.Second))
		return 2
	}
	return 0
}

// pass lets one storm pass and prints what came of it.
func pass(ctx context.Context, o storm.Options, version, dir string) (err error) {
	fmt.Printf("seed %d\n", o.Seed)
	w, err := storm.StartWorld(context.WithoutCancel(ctx), version, dir, os.Stdout)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.Stop()) }()
	report, err := storm.Run(ctx, w, o)
	if err != nil {
		return err
	}
	report.Print(os.Stdout)
	if !report.OK() {
		return errVerdict
	}
	return nil
}
