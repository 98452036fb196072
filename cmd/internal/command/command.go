// Package command is what the programs' main functions have in common: from the
// command line to the exit code. What a program does is its own.
package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/signal"
	"syscall"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/agentcube/agentcube/pkg/config"
	"github.com/agentcube/agentcube/pkg/store"
	"github.com/agentcube/agentcube/pkg/telemetry"
)

// Exit codes.
const (
	exitOK     = 0
	exitFailed = 1
	// exitUsage: the configuration is bad, and nothing was started.
	exitUsage = 2
)

// Settings of a program, as far as they matter here.
type Settings interface {
	Logging() config.Log
	// Admin is where the log level is set; empty: nowhere.
	Admin() string
}

// Program is one of ours. C is its configuration.
type Program[C Settings] struct {
	Name  string
	Parse func(args []string, getenv func(string) string) (C, error)
	// Run serves until its context ends, at SIGINT or SIGTERM.
	Run func(context.Context, C, *zap.Logger) error
}

// Main is the program from its arguments to its exit code. Answers to --help and
// --version go to stdout, everything else to stderr.
func (p Program[C]) Main(args []string, getenv func(string) string, stdout io.Writer, stderr zapcore.WriteSyncer) int {
	defer func() { _ = stderr.Sync() }() // which may not be syncable
	cfg, err := p.Parse(args, getenv)
	if help, ok := errors.AsType[*config.HelpError](err); ok {
		_, _ = fmt.Fprint(stdout, help.Usage)
		return exitOK
	}
	if errors.Is(err, config.ErrVersion) {
		_, _ = fmt.Fprintln(stdout, p.Name, telemetry.ReadBuild())
		return exitOK
	}
	if err != nil {
		_, _ = fmt.Fprintln(stderr, err)
		return exitUsage
	}
	log, level, err := telemetry.NewLogger(cfg.Logging().Format, cfg.Logging().Level, stderr)
	if err != nil {
		_, _ = fmt.Fprintln(stderr, err)
		return exitUsage
	}
	telemetry.BridgeKlog(log)
	store.LogTo(log)
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	admin, err := serveAdmin(ctx, cfg.Admin(), level, log)
	if err != nil {
		log.Error(p.Name+" does not start", zap.Error(err))
		return exitFailed
	}
	defer admin.close()
	if err := p.Run(ctx, cfg, log); err != nil {
		log.Error(p.Name+" ends", zap.Error(err))
		return exitFailed
	}
	return exitOK
}
