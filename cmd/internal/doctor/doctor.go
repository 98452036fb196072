// Package doctor examines an installation: the API server, the custom resources
// and their versions, the rights of both services, agent-sandbox, the clocks, and
// both services with what they depend on, the store among it. It says what is
// wrong and how to mend it.
//
// It changes nothing. The store is seen through the services alone, which are
// those that must reach it.
package doctor

import (
	"context"
	"net/http"
	"net/url"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"
)

// Verdict on one thing.
type Verdict string

// Verdicts. A Warning is no reason to fail.
const (
	OK      Verdict = "ok"
	Warning Verdict = "warning"
	Broken  Verdict = "broken"
)

// Finding is what was found of one thing.
type Finding struct {
	// Check is what was looked at.
	Check   string  `json:"check"`
	Verdict Verdict `json:"verdict"`
	// Message says what was found.
	Message string `json:"message"`
	// Fix says how to mend it. Empty: nothing is to be done.
	Fix string `json:"fix,omitempty"`
}

// Doctor examines one installation.
type Doctor struct {
	Clock      clock.PassiveClock
	Kubernetes kubernetes.Interface
	Dynamic    dynamic.Interface
	// Namespace is where AgentCube is installed.
	Namespace string
	// HTTP speaks to the services; http.DefaultClient if nil.
	HTTP *http.Client
	// Service is the base URL of a service.
	Service func(ctx context.Context, name string) (*url.URL, error)
}

// Services that are examined.
const (
	workloadManager = "workload-manager"
	router          = "router"
)

// Examine makes all checks, side by side, and returns their findings in a fixed
// order.
func (d *Doctor) Examine(ctx context.Context) []Finding {
	checks := []func(context.Context) []Finding{
		d.apiServer,
		d.agentCubeCRDs,
		d.agentSandboxCRDs,
		d.agentSandboxController,
		d.rightsOf(workloadManager, managerRights),
		d.rightsOf(router, routerRights),
		func(ctx context.Context) []Finding { return d.service(ctx, workloadManager) },
		func(ctx context.Context) []Finding { return d.service(ctx, router) },
	}
	found := make([][]Finding, len(checks))
	var group errgroup.Group
	for i, check := range checks {
		group.Go(func() error {
			found[i] = check(ctx)
			return nil
		})
	}
	_ = group.Wait() // checks do not fail, they find
	var all []Finding
	for _, f := range found {
		all = append(all, f...)
	}
	return all
}

// Healthy reports whether nothing is broken.
func Healthy(findings []Finding) bool {
	for _, f := range findings {
		if f.Verdict == Broken {
			return false
		}
	}
	return true
}

func one(check string, v Verdict, message, fix string) []Finding {
	return []Finding{{Check: check, Verdict: v, Message: message, Fix: fix}}
}
