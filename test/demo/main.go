// The demo tells the story of a session on a real control plane: created,
// reached through the router, deleted with kubectl behind AgentCube's back,
// and answered 404 from then on. With -dev the system stays up instead, with
// lines to try on it.
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

func main() {
	dev := flag.Bool("dev", false, "keep the system running until Ctrl-C")
	version := flag.String("agent-sandbox", "", "version of agent-sandbox: v0.5.6 (default) or v0.4.6")
	flag.Parse()
	if err := run(*dev, *version); err != nil {
		fmt.Fprintln(os.Stderr, "\nFAILED:", err)
		os.Exit(1)
	}
}

func run(dev bool, version string) (err error) {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	begun := time.Now()
	fmt.Println("Starting a Kubernetes control plane, agent-sandbox, a node, a store and AgentCube on loopback.")
	// The system outlives ctx, so that it is stopped in its own order.
	s, err := system.Start(context.WithoutCancel(ctx), system.Options{AgentSandbox: version, Log: os.Stdout})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Stop()) }()
	fmt.Printf("Everything is up after %s.\n", time.Since(begun).Round(100*time.Millisecond))
	t := &teller{system: s, out: os.Stdout}
	if err := t.prepare(ctx); err != nil {
		return err
	}
	if dev {
		t.help(ctx)
		<-ctx.Done()
		fmt.Println("\nStopping.")
		return nil
	}
	if err := t.story(ctx); err != nil {
		return err
	}
	fmt.Printf("\nThe demo went as it should, in %s.\n", time.Since(begun).Round(100*time.Millisecond))
	return nil
}
