package main

import (
	"context"
	"fmt"
	"path/filepath"
)

// help prints lines that can be copied as they are.
func (t *teller) help(ctx context.Context) {
	kubectl, err := t.system.Cluster.Kubectl(ctx)
	if err != nil {
		kubectl = "kubectl"
	}
	fmt.Fprintf(t.out, `
The system runs until Ctrl-C. In another terminal:

  export KUBECONFIG=%[1]s
  %[2]s get agentruntimes,codeinterpreters,sandboxes,sandboxclaims,pods

  # the command line tool
  export AGENTCUBE_WORKLOAD_MANAGER_URL=%[3]s AGENTCUBE_ROUTER_URL=%[4]s
  export WORKLOAD_MANAGER=%[3]s ROUTER=%[4]s   # as the README calls them
  alias agentcube=%[8]s
  agentcube templates list
  agentcube sessions create codeinterpreter/python
  agentcube invoke agentruntime/echo /hello
  agentcube doctor

  # a session on a sandbox of its own, and one out of the warm pool
  curl -s %[3]s/v1/agent-runtime -d '{"namespace":"default","name":"echo"}'
  curl -s %[3]s/v1/code-interpreter -d '{"namespace":"default","name":"python"}'
  # the sessions there are
  curl -s '%[3]s/v1/sessions?namespace=default&state=ready'

  # a request to a session (SESSION is the sessionId of an answer above)
  curl -si %[4]s/v1/namespaces/default/agent-runtimes/echo/invocations/hello -H "x-agentcube-session-id: $SESSION"
  # without a session id the router makes one
  curl -si %[4]s/v1/namespaces/default/agent-runtimes/echo/invocations/hello

  # take a sandbox away, then ask again
  %[2]s delete sandbox NAME
  curl -s -X DELETE %[3]s/v1/agent-runtime/sessions/$SESSION

Store: %[5]s (password %[7]q). Logs: %[6]s/logs
`, t.system.Cluster.Kubeconfig, kubectl, t.system.Manager().URL, t.system.Router.URL,
		t.system.Redis.Addr, t.system.Cluster.Dir, t.system.StorePassword(), filepath.Join(t.system.Cluster.Dir, "bin", "agentcube"))
}
