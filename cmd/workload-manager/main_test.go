package main

import (
	"bufio"
	"bytes"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/agentcube/agentcube/pkg/telemetry"
)

// asMain, as the first argument, makes the test binary the program, for what
// only a process shows: exit codes, streams and signals.
const asMain = "as-main"

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == asMain {
		os.Args = append(os.Args[:1], os.Args[2:]...)
		main()
	}
	telemetry.BridgeKlog(zap.NewNop()) // leader elections tell much
	m.Run()                            // its code becomes the process's
}

// process is the program with these arguments and this environment, and none
// of the test's own.
func process(t *testing.T, env []string, args ...string) (cmd *exec.Cmd, stdout, stderr *bytes.Buffer) {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	cmd = exec.CommandContext(t.Context(), self, append([]string{asMain}, args...)...)
	cmd.Env = append([]string{}, env...) // not nil, which would be the test's own
	stdout, stderr = &bytes.Buffer{}, &bytes.Buffer{}
	cmd.Stdout, cmd.Stderr = stdout, stderr
	return cmd, stdout, stderr
}

func TestExitCodes(t *testing.T) {
	t.Parallel()
	redis := []string{"REDIS_ADDR=127.0.0.1:1", "REDIS_PASSWORD=p"}
	for name, c := range map[string]struct {
		env            []string
		args           []string
		code           int
		stdout, stderr []string
	}{
		"help is what was asked for":    {args: []string{"--help"}, stdout: []string{"--port", "--create-timeout"}},
		"the version too":               {args: []string{"--version"}, stdout: []string{"workload-manager"}},
		"every problem is told at once": {args: []string{"--port=-1", "--undo-timeout=0s"}, code: 2, stderr: []string{"port", "undo-timeout", "addr"}},
		"what cannot start":             {env: redis, args: []string{"--kubeconfig=/nonexistent"}, code: 1, stderr: []string{"workload-manager ends", "kubeconfig"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd, stdout, stderr := process(t, c.env, c.args...)
			err := cmd.Run()
			assert.Equal(t, c.code, cmd.ProcessState.ExitCode(), "%v: %s", err, stderr)
			for _, want := range c.stdout {
				assert.Contains(t, stdout.String(), want)
			}
			for _, want := range c.stderr {
				assert.Contains(t, stderr.String(), want)
			}
			if c.code == 0 {
				assert.Empty(t, stderr.String())
			} else {
				assert.Empty(t, stdout.String())
			}
		})
	}
}

func TestASignalEndsTheProcessWell(t *testing.T) {
	t.Parallel()
	for _, signal := range []os.Signal{syscall.SIGTERM, syscall.SIGINT} {
		t.Run(signal.String(), func(t *testing.T) {
			t.Parallel()
			p := world(t)
			cfg := p.config()
			cmd, _, _ := process(t, []string{"REDIS_ADDR=" + p.redis.Addr(), "REDIS_PASSWORD_REQUIRED=false"},
				"--port=0", "--kubeconfig="+cfg.Kubeconfig, "--drain-delay=0s")
			cmd.Stderr = nil
			logs, err := cmd.StderrPipe()
			require.NoError(t, err)
			require.NoError(t, cmd.Start())
			lines := bufio.NewScanner(logs)
			for lines.Scan() {
				if strings.Contains(lines.Text(), "agent-sandbox is served") {
					require.NoError(t, cmd.Process.Signal(signal))
				}
			}
			require.NoError(t, cmd.Wait())
		})
	}
}
