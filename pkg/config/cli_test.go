package config_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/agentcube/agentcube/pkg/config"
)

func TestTheCommandLineToolReadsTheEnvironment(t *testing.T) {
	t.Parallel()
	for sentence, c := range map[string]struct {
		env  map[string]string
		want config.CLI
	}{
		"nothing is set": {nil, config.CLI{Namespace: "agentcube"}},
		"all is set": {
			map[string]string{
				"AGENTCUBE_WORKLOAD_MANAGER_URL": "http://a", "WORKLOAD_MANAGER_URL": "http://b",
				"AGENTCUBE_ROUTER_URL": "http://c", "AGENTCUBE_NAMESPACE": "d", "AGENTCUBE_TOKEN": "e",
			},
			config.CLI{WorkloadManagerURL: "http://a", RouterURL: "http://c", Namespace: "d", Token: "e"},
		},
		"the router's own name of the URL does": {
			map[string]string{"WORKLOAD_MANAGER_URL": "http://b"},
			config.CLI{WorkloadManagerURL: "http://b", Namespace: "agentcube"},
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, c.want, config.ReadCLI(func(name string) string { return c.env[name] }))
		})
	}
}
