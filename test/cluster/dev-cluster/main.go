// Program dev-cluster runs a development cluster until it is interrupted. It
// prints how to reach it.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/pflag"

	"github.com/agentcube/agentcube/test/cluster"
)

func main() {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	err := run(ctx, os.Args[1:], os.Stdout)
	cancel()
	if err != nil && !errors.Is(err, pflag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "dev-cluster:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	options := cluster.Options{Log: out}
	flags := pflag.NewFlagSet("dev-cluster", pflag.ContinueOnError)
	flags.StringVar(&options.AgentSandbox, "agent-sandbox", cluster.DefaultAgentSandbox, "version of agent-sandbox to serve")
	flags.StringVar(&options.Dir, "dir", "", "folder for certificates, logs and data, kept at the end (default: a temporary one)")
	flags.StringArrayVar(&options.CRDs, "crds", nil, "file or folder of custom resource definitions to install first")
	redis := flags.Bool("redis", true, "run a Redis too")
	build := flags.Bool("build", false, "only build what is not in the cache, for all versions of agent-sandbox")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *build {
		return cluster.Build(ctx, options)
	}

	c, err := cluster.Start(ctx, options)
	if err != nil {
		return err
	}
	var store *cluster.Redis
	if *redis {
		if store, err = cluster.StartRedis(ctx, cluster.RedisOptions{}); err != nil {
			return fmt.Errorf("%w (stopping: %w)", err, c.Stop())
		}
		defer store.Close()
	}
	explain(out, c, store)
	<-ctx.Done()
	fmt.Fprintln(out, "stopping …")
	return c.Stop()
}

func explain(out io.Writer, c *cluster.Cluster, store *cluster.Redis) {
	fmt.Fprintf(out, "\nKubernetes with agent-sandbox %s is ready; state and logs are in %s.\n", c.AgentSandbox, c.Dir)
	if store != nil {
		kind := "redis-server"
		if !store.Real {
			kind = "embedded; nothing is kept"
		}
		fmt.Fprintf(out, "Redis: %s (%s)\n", store.Addr, kind)
	}
	version := "v1beta1"
	if c.AgentSandbox < "v0.5" {
		version = "v1alpha1"
	}
	fmt.Fprintf(out, `
Try, in another terminal:

  export KUBECONFIG=%s
  kubectl get nodes,crds
  kubectl apply -f - <<EOF
  apiVersion: agents.x-k8s.io/%s
  kind: Sandbox
  metadata: {name: hello}
  spec: {podTemplate: {spec: {containers: [{name: main, image: any, ports: [{containerPort: 8080}]}]}}}
  EOF
  kubectl wait --for=condition=Ready sandbox/hello
  curl "http://$(kubectl get sandbox hello -o jsonpath='{.status.podIPs[0]}'):8080/some/path"
  kubectl delete sandbox hello

Ctrl-C stops everything.
`, c.Kubeconfig, version)
}
