// The router is the data plane of AgentCube: it takes requests that name a
// session to the session's sandbox.
package main

import (
	"context"
	"os"

	"go.uber.org/zap"

	"github.com/agentcube/agentcube/cmd/internal/command"
	"github.com/agentcube/agentcube/pkg/config"
	"github.com/agentcube/agentcube/pkg/telemetry"
)

func main() {
	p := command.Program[config.Router]{
		Name:  "router",
		Parse: config.ParseRouter,
		Run: func(ctx context.Context, cfg config.Router, log *zap.Logger) error {
			return Run(ctx, cfg, log, nil)
		},
	}
	os.Exit(p.Main(os.Args[1:], os.Getenv, os.Stdout, telemetry.Buffered(os.Stderr)))
}
