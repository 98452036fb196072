// The workload-manager is the control plane of AgentCube: it creates and
// deletes sessions, and keeps the store true to the cluster.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/agentcube/agentcube/pkg/config"
	"github.com/agentcube/agentcube/pkg/store"
	"github.com/agentcube/agentcube/pkg/telemetry"
)

func main() { os.Exit(run()) }

func run() int {
	cfg, err := config.ParseWorkloadManager(os.Args[1:], os.Getenv)
	if help, ok := errors.AsType[*config.HelpError](err); ok {
		fmt.Fprint(os.Stdout, help.Usage)
		return 0
	}
	if errors.Is(err, config.ErrVersion) {
		fmt.Fprintln(os.Stdout, "workload-manager", telemetry.ReadBuild())
		return 0
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	log, _, err := telemetry.NewLogger(cfg.Log.Format, cfg.Log.Level, zapcore.Lock(os.Stderr))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	defer func() { _ = log.Sync() }() // stderr may not be syncable
	telemetry.BridgeKlog(log)
	store.LogTo(log)
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := Run(ctx, cfg, log, nil); err != nil {
		log.Error("workload-manager ends", zap.Error(err))
		return 1
	}
	return 0
}
