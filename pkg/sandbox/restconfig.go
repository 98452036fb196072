package sandbox

import (
	"fmt"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/clock"
)

// Client-go's defaults (5 and 10) would take half an hour to clear a namespace
// of 10,000 sessions; the API server has its own priority and fairness.
const (
	clientQPS   = 200
	clientBurst = 400
)

// RESTConfig is how programs reach the API server: by the kubeconfig file at
// that path, or, when it is empty, as the pod they run in.
//
// It sets no overall timeout, which would also cut watches: a Client bounds
// each of its calls, HTTP/2 health checks find a dead connection, and a watch
// that says nothing for 75 s is made anew. A refusal for want of a right by an
// API server that has only started, and does not know all roles yet, becomes a
// 503.
func RESTConfig(clk clock.WithDelayedExecution, kubeconfig string) (*rest.Config, error) {
	config, err := loadConfig(kubeconfig)
	if err != nil {
		return nil, err
	}
	config.QPS, config.Burst = clientQPS, clientBurst
	config.Timeout = 0
	if err := wrapTransport(clk, config); err != nil {
		return nil, err
	}
	return rest.AddUserAgent(config, "agentcube"), nil
}

func loadConfig(kubeconfig string) (*rest.Config, error) {
	if kubeconfig == "" {
		config, err := rest.InClusterConfig()
		if err != nil {
			return nil, fmt.Errorf("no kubeconfig is given, and not in a cluster: %w", err)
		}
		return config, nil
	}
	rules := &clientcmd.ClientConfigLoadingRules{ExplicitPath: kubeconfig}
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("reading kubeconfig: %w", err)
	}
	return config, nil
}
