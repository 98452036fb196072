package cluster

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAnUnknownVersionOfAgentSandboxIsAnErrorAtOnce(t *testing.T) {
	t.Parallel()
	_, err := Start(t.Context(), Options{AgentSandbox: "v9.9.9", CacheDir: t.TempDir()})
	require.ErrorContains(t, err, `agent-sandbox "v9.9.9" is not one of v0.5.6, v0.4.6`)
}
