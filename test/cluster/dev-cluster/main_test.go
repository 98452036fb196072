package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentcube/agentcube/test/cluster"
)

func TestTheHintsFitWhatIsServed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		release string
		store   *cluster.Redis
		want    []string
		without string
	}{
		"the newest agent-sandbox, a real Redis": {
			"v0.5.6", &cluster.Redis{Addr: "127.0.0.1:1", Real: true},
			[]string{"export KUBECONFIG=/some/kubeconfig\n", "apiVersion: agents.x-k8s.io/v1beta1\n", "Redis: 127.0.0.1:1 (redis-server)\n"},
			"embedded",
		},
		"an older agent-sandbox, an embedded Redis": {
			"v0.4.6", &cluster.Redis{Addr: "127.0.0.1:2"},
			[]string{"apiVersion: agents.x-k8s.io/v1alpha1\n", "Redis: 127.0.0.1:2 (embedded; nothing is kept)\n"},
			"redis-server",
		},
		"no Redis": {"v0.5.6", nil, []string{"is ready"}, "Redis"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out strings.Builder
			explain(&out, &cluster.Cluster{AgentSandbox: c.release, Kubeconfig: "/some/kubeconfig"}, c.store)
			for _, want := range c.want {
				assert.Contains(t, out.String(), want)
			}
			assert.NotContains(t, out.String(), c.without)
		})
	}
}

func TestAWrongVersionIsSaidBeforeAnythingStarts(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	err := run(t.Context(), []string{"--agent-sandbox", "v9"}, &out)
	require.ErrorContains(t, err, `agent-sandbox "v9" is not one of`)
	assert.Empty(t, out.String())
}
