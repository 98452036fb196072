// Package e2e shows the behaviour of the whole system: our programs with the
// shipped rights, a real API server, the real agent-sandbox controller of each
// supported version, a real Redis, and pods that really answer.
package e2e

import (
	"os"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentcube/agentcube/test/cluster"
	"github.com/agentcube/agentcube/test/system"
)

// behaviour is one statement about the system, and the test of it.
type behaviour struct {
	name string
	test func(*testing.T, *env)
}

// TestSystem runs every behaviour on each supported version of agent-sandbox.
// Those that share the system run side by side, each in a namespace of its
// own, and so do the slow ones, which are one test among them. Those that break
// a part of it run one after the other, afterwards.
func TestSystem(t *testing.T) {
	for _, version := range []string{"v0.5.6", "v0.4.6"} {
		t.Run(version, func(t *testing.T) {
			s := start(t, version)
			t.Run("shared", func(t *testing.T) {
				t.Run("slow", func(t *testing.T) {
					t.Parallel()
					sideBySide(t, s, slow())
				})
				for _, b := range shared() {
					t.Run(b.name, func(t *testing.T) {
						t.Parallel()
						b.test(t, newEnv(t, s))
					})
				}
			})
			t.Run("alone", func(t *testing.T) {
				for _, b := range alone() {
					t.Run(b.name, func(t *testing.T) { b.test(t, newEnv(t, s)) })
				}
			})
		})
	}
}

// sideBySide runs behaviours side by side, however few tests may run in
// parallel.
func sideBySide(t *testing.T, s *system.System, behaviours []behaviour) {
	t.Helper()
	var running sync.WaitGroup
	for _, b := range behaviours {
		running.Go(func() {
			t.Run(b.name, func(t *testing.T) { b.test(t, newEnv(t, s)) })
		})
	}
	running.Wait()
}

// managerArgs make the bounds shorter than the defaults, so that what waits for
// one is seen to do so within a test.
var managerArgs = []string{
	"--create-timeout=20s", "--probe-timeout=4s", "--undo-timeout=10s", "--delete-timeout=10s",
	"--unknown-timeout=10s", "--collect-interval=1s", "--cluster-timeout=3s",
	"--outage-pause=3s", "--resync-grace=2s",
}

func start(t *testing.T, version string) *system.System {
	t.Helper()
	s, err := system.Start(t.Context(), system.Options{
		AgentSandbox: version,
		Log:          os.Stderr,
		Redis:        cluster.RedisOptions{AppendOnly: true},
		ManagerArgs:  managerArgs,
	})
	require.NoError(t, err)
	t.Cleanup(func() {
		if t.Failed() {
			s.PrintLogs(os.Stderr)
		}
		require.NoError(t, s.Stop())
		require.Empty(t, s.Races())
	})
	return s
}
