// Package cli is the command line tool: its commands, what they print, and how
// they put an error into words.
//
// It speaks to the services by pkg/client, and to the API server for templates,
// port-forwards and the doctor. It reads no environment of ours: config.CLI
// brings it.
package cli

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/agentcube/agentcube/cmd/internal/reach"
	"github.com/agentcube/agentcube/pkg/client"
	"github.com/agentcube/agentcube/pkg/config"
)

// Exit codes of the program.
const (
	exitOK     = 0
	exitFailed = 1
	// exitUsage: the command line is not valid, and nothing was done.
	exitUsage = 2
	// exitSandbox4xx and exitSandbox5xx: a sandbox answered with such a status.
	exitSandbox4xx = 4
	exitSandbox5xx = 5
)

// Options of a Tool.
type Options struct {
	// Name is how it was called: "agentcube" or "kubectl agentcube".
	Name string
	Env  config.CLI
	// Version is printed for --version.
	Version string
	Clock   clock.WithTicker
	genericiooptions.IOStreams
}

// Tool is the program. Make it with New for each command line.
type Tool struct {
	Options
	kube  *genericclioptions.ConfigFlags
	ways  *reach.Ways
	urls  map[reach.Service]*string
	token string
	// namespace of the installation
	namespace string
}

// New makes a tool and its root command.
func New(o Options) (*Tool, *cobra.Command) {
	t := &Tool{Options: o, kube: genericclioptions.NewConfigFlags(true), urls: map[reach.Service]*string{}}
	t.kube.CacheDir = nil // nothing is cached
	root := &cobra.Command{
		Use:   "agentcube",
		Short: "Work with the sessions of AgentCube",
		Long: `agentcube creates, finds, inspects, extends and ends sessions, sends requests to
their sandboxes, and finds out what is wrong with an installation.

The services are reached by their URLs, or, where none is given, by a
port-forward of the API server to one of their pods. A token for them is taken
from the variable AGENTCUBE_TOKEN.

Called kubectl-agentcube and found in the PATH, it is "kubectl agentcube". Its
completion is then a program called kubectl_complete-agentcube in the PATH:

    #!/bin/sh
    exec kubectl-agentcube __complete "$@"`,
		Annotations:       map[string]string{cobra.CommandDisplayNameAnnotation: o.Name},
		SilenceUsage:      true,
		SilenceErrors:     true,
		Version:           o.Version,
		DisableAutoGenTag: true,
	}
	root.SetIn(o.In)
	root.SetOut(o.Out)
	root.SetErr(o.ErrOut)
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return &usageError{err} })
	t.addFlags(root)
	root.AddCommand(t.sessions(), t.invoke(), t.templates(), t.doctor())
	return t, root
}

func (t *Tool) addFlags(root *cobra.Command) {
	f := root.PersistentFlags()
	t.kube.AddFlags(f)
	for service, value := range map[reach.Service]string{
		reach.WorkloadManager: t.Env.WorkloadManagerURL, reach.Router: t.Env.RouterURL,
	} {
		t.urls[service] = new(string)
		variable := "AGENTCUBE_" + strings.ToUpper(strings.ReplaceAll(string(service), "-", "_")) + "_URL"
		f.StringVar(t.urls[service], strings.TrimPrefix(service.URLFlag(), "--"), value,
			"`URL` of the "+string(service)+"; when empty, a port-forward [$"+variable+"]")
	}
	f.StringVar(&t.namespace, "agentcube-namespace", t.Env.Namespace, "`namespace` that AgentCube is installed in [$AGENTCUBE_NAMESPACE]")
	t.token = t.Env.Token
	t.findWays()
	root.PersistentPreRun = func(*cobra.Command, []string) { t.findWays() }
}

// findWays takes the flags as they are now.
func (t *Tool) findWays() {
	urls := map[reach.Service]string{}
	for service, text := range t.urls {
		urls[service] = *text
	}
	t.ways = reach.New(reach.Options{
		URLs: urls, Namespace: t.namespace,
		Config: t.clusterConfig,
	})
}

// Run is the program from its arguments to its exit code.
func Run(ctx context.Context, o Options, args []string) int {
	t, root := New(o) //nolint:contextcheck // completion gets its context from cobra
	root.SetArgs(args)
	called, err := root.ExecuteContextC(ctx)
	_ = t.ways.Close() // a port-forward that broke afterwards is no matter
	if err == nil {
		return exitOK
	}
	if code, ok := errors.AsType[exitCode](err); ok {
		return int(code) // what there is to say was said
	}
	fmt.Fprintln(o.ErrOut, "error: "+explain(err, o.Name, called.CommandPath()))
	if _, ok := errors.AsType[*usageError](err); ok || strings.HasPrefix(err.Error(), "unknown command") {
		return exitUsage
	}
	return exitFailed
}

// exitCode ends the program without further words.
type exitCode int

func (exitCode) Error() string { return "" }

// usageError: the command line is not valid.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

func usagef(format string, args ...any) error { return &usageError{fmt.Errorf(format, args...)} }

// group is a command that only holds others: what is none of them is an error, and
// no call for help.
func group(c *cobra.Command, commands ...*cobra.Command) *cobra.Command {
	var names []string
	for _, sub := range commands {
		names = append(names, sub.Name())
	}
	c.AddCommand(commands...)
	c.DisableFlagsInUseLine = true
	c.RunE = func(c *cobra.Command, args []string) error {
		if len(args) > 0 {
			return usagef("%q is no command of %q: give one of %s", args[0], c.CommandPath(), strings.Join(names, ", "))
		}
		return c.Help()
	}
	return c
}

// args makes usage errors of the errors of a check of arguments.
func args(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if err := check(c, args); err != nil {
			return &usageError{err}
		}
		return nil
	}
}

// client of a service.
func (t *Tool) client(ctx context.Context, s reach.Service) (*client.Client, error) {
	base, err := t.ways.To(ctx, s)
	if err != nil {
		return nil, err
	}
	o := client.Options{Clock: pace{t.Clock}, Header: http.Header{"User-Agent": {"agentcube-cli/" + t.Version}}}
	if t.token != "" {
		o.Authorize = client.BearerToken(func(context.Context) (string, error) { return t.token, nil })
	}
	*map[reach.Service]**url.URL{reach.WorkloadManager: &o.WorkloadManager, reach.Router: &o.Router}[s] = base
	return client.New(o), nil
}

// errNoCluster: neither a kubeconfig nor a flag says which cluster is meant.
var errNoCluster = errors.New("there is no kubeconfig")

// clusterConfig is how the API server is reached. Where nothing is configured and
// the program runs in no pod, client-go would take its own default, localhost.
func (t *Tool) clusterConfig() (*rest.Config, error) {
	given, err := t.kube.ToRawKubeConfigLoader().RawConfig()
	if err != nil {
		return nil, err
	}
	if len(given.Clusters) == 0 && *t.kube.APIServer == "" {
		if _, err := rest.InClusterConfig(); errors.Is(err, rest.ErrNotInCluster) {
			return nil, errNoCluster
		}
	}
	return t.kube.ToRESTConfig()
}

// templateNamespace is the namespace of the kubeconfig and the flags.
func (t *Tool) templateNamespace() (string, error) {
	namespace, _, err := t.kube.ToRawKubeConfigLoader().Namespace()
	return namespace, err
}
