package config

import "cmp"

// CLI is what the command line tool takes from the environment. Its flags come
// first, and are its own. What kubectl reads too, such as KUBECONFIG, is read
// where kubectl reads it.
type CLI struct {
	// WorkloadManagerURL and RouterURL are where the services are. Empty: they
	// are reached through the API server.
	WorkloadManagerURL, RouterURL string
	// Namespace is where AgentCube is installed.
	Namespace string
	// Token is the bearer token for the services.
	Token string
}

// ReadCLI reads the environment.
func ReadCLI(getenv func(string) string) CLI {
	return CLI{
		WorkloadManagerURL: cmp.Or(getenv(envPrefix+"WORKLOAD_MANAGER_URL"), getenv("WORKLOAD_MANAGER_URL")),
		RouterURL:          getenv(envPrefix + "ROUTER_URL"),
		Namespace:          cmp.Or(getenv(envPrefix+"NAMESPACE"), defaultSPIFFENamespace),
		Token:              getenv(envPrefix + "TOKEN"),
	}
}
