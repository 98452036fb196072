package main

import (
	"bytes"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentcube/agentcube/test/chaos/storm"
)

const (
	// fixedSeed always gives the same steps.
	fixedSeed = 20
	// shortSteps are one round.
	shortSteps = 60
)

// TestChaos passes a short storm over the system, with a seed that is always
// the same and with one that never was before, and shows that the checker finds
// what is wrong: each bug is planted and must be found, and what brings it to
// light must pass without the bug.
func TestChaos(t *testing.T) {
	// The races stand in the logs, which the folder keeps.
	w, err := storm.StartWorld(t.Context(), "", t.TempDir(), os.Stderr)
	require.NoError(t, err)
	t.Cleanup(func() {
		if t.Failed() {
			w.PrintLogs(os.Stderr)
		}
		require.NoError(t, w.Stop())
		require.Empty(t, w.Races())
	})
	t.Run("storm with a fixed seed", func(t *testing.T) { short(t, w, fixedSeed) })
	t.Run("storm with a fresh seed", func(t *testing.T) { short(t, w, rand.Uint64N(1<<32)) })
	for _, p := range storm.AllPlanted() {
		t.Run("without "+p.Bug, func(t *testing.T) {
			violations, err := w.Try(t.Context(), p, false)
			require.NoError(t, err)
			assert.Empty(t, violations)
		})
		t.Run("planted "+p.Bug, func(t *testing.T) {
			violations, err := w.Try(t.Context(), p, true)
			require.NoError(t, err)
			require.NotEmpty(t, violations, "the checker does not see it")
			t.Log(violations[0])
		})
	}
}

func short(t *testing.T, w *storm.World, seed uint64) {
	t.Logf("seed %d", seed)
	report, err := storm.Run(t.Context(), w, storm.Options{Seed: seed, Steps: shortSteps, Round: shortSteps})
	require.NoError(t, err)
	var text bytes.Buffer
	report.Print(&text)
	t.Log(text.String())
	require.Empty(t, report.Violations)
	require.Empty(t, report.Shortfalls())
}
