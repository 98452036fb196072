package cluster

import (
	"context"
	"path/filepath"

	"github.com/agentcube/agentcube/test/cluster/process"
)

// sandboxControllers is how many controllers run in the program: those of
// Sandbox, SandboxClaim, SandboxTemplate and SandboxWarmPool.
const sandboxControllers = 4

// reserveWebhook takes the port of agent-sandbox's conversion webhook, which the
// custom resource definitions name before the controller starts.
func (c *Cluster) reserveWebhook() (*process.Port, error) {
	taken, err := c.ports.reserve(1)
	if err != nil {
		return nil, err
	}
	return taken[0], nil
}

// startController starts agent-sandbox. When its webhook port was lost to a
// foreign program, the definitions are pointed at another one.
func (c *Cluster) startController(ctx context.Context, webhook *process.Port) error {
	kubeconfig, err := c.writeKubeconfig("agent-sandbox-controller", "", c.tokens.controller)
	if err != nil {
		return err
	}
	first := true
	return c.ports.onFreePorts(1, func(p []*process.Port) error {
		if !first {
			if webhook, err = c.reserveWebhook(); err != nil {
				return err
			}
			if err := c.installCRDs(ctx, webhook); err != nil {
				return err
			}
		}
		first = false
		c.Controller = process.New(c.controllerSpec(kubeconfig, webhook, p[0]))
		return c.Controller.Start(ctx)
	})
}

func (c *Cluster) controllerSpec(kubeconfig string, webhook, health *process.Port) process.Spec {
	spec := process.Spec{
		Name: "agent-sandbox-controller",
		Path: c.paths.controller,
		Log:  filepath.Join(c.logDir(), "agent-sandbox-controller.log"),
		Args: []string{
			"--kubeconfig=" + kubeconfig,
			"--extensions", "--leader-elect=false",
			"--metrics-bind-address=0",
			"--health-probe-bind-address=" + health.Address(),
		},
		Ready: allOf(
			probe("http://"+health.Address()+"/readyz", nil, ""),
			logged(&c.Controller, sandboxControllers, "Starting workers"),
		),
	}
	if !c.converts {
		return spec
	}
	spec.Args = append(spec.Args,
		"--manage-webhook-certs=false",
		"--webhook-cert-dir="+c.certDir(),
		"--webhook-port="+webhook.String(),
	)
	spec.Ready = allOf(spec.Ready, handshake(webhook.Address(), c.ca))
	return spec
}
