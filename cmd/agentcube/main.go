// agentcube is the command line tool of AgentCube. Called kubectl-agentcube and
// found in the PATH, it is `kubectl agentcube`.
package main

import (
	"context"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/utils/clock"

	"github.com/agentcube/agentcube/cmd/internal/cli"
	"github.com/agentcube/agentcube/pkg/config"
	"github.com/agentcube/agentcube/pkg/telemetry"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	name := "agentcube"
	if strings.HasPrefix(filepath.Base(os.Args[0]), "kubectl-") {
		name = "kubectl agentcube"
	}
	code := cli.Run(ctx, cli.Options{
		Name: name, Env: config.ReadCLI(os.Getenv), Version: telemetry.ReadBuild().String(), Clock: clock.RealClock{},
		IOStreams: genericiooptions.IOStreams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr},
	}, os.Args[1:])
	stop()
	os.Exit(code)
}
