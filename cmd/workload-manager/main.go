// The workload-manager is the control plane of AgentCube: it creates and
// deletes sessions, and keeps the store true to the cluster.
package main

import (
	"context"
	"os"

	"go.uber.org/zap"

	"github.com/agentcube/agentcube/cmd/internal/command"
	"github.com/agentcube/agentcube/pkg/config"
)

func main() {
	p := command.Program[config.WorkloadManager]{
		Name:  "workload-manager",
		Parse: config.ParseWorkloadManager,
		Run: func(ctx context.Context, cfg config.WorkloadManager, log *zap.Logger) error {
			return Run(ctx, cfg, log, nil)
		},
	}
	os.Exit(p.Main(os.Args[1:], os.Getenv, os.Stdout, os.Stderr))
}
