package cli

import (
	"context"
	"fmt"
	"net/url"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/agentcube/agentcube/cmd/internal/doctor"
	"github.com/agentcube/agentcube/cmd/internal/reach"
)

// marks of the verdicts.
var marks = map[doctor.Verdict]string{doctor.OK: "ok      ", doctor.Warning: "warning ", doctor.Broken: "BROKEN  "}

// doctorTimeout bounds one call of the doctor's to the API server.
const doctorTimeout = 10 * time.Second

func (t *Tool) doctor() *cobra.Command {
	c := &cobra.Command{
		Use:   "doctor",
		Short: "Find out what is wrong with an installation, and how to mend it",
		Long: `Check the API server, the custom resources and their versions, agent-sandbox's
controller, the rights of both services, their readiness, the store as they see
it, and the clocks. The exit code is 1 if anything is broken. It changes nothing.`,
		Args: args(cobra.NoArgs),
	}
	o := addOutput(c, formatJSON, formatYAML)
	c.RunE = func(c *cobra.Command, _ []string) error {
		d, err := t.newDoctor()
		if err != nil {
			return err
		}
		found := d.Examine(c.Context())
		if o.format == formatTable {
			err = t.printFindings(found)
		} else {
			err = o.encode(t.Out, map[string]any{"items": found})
		}
		if err == nil && !doctor.Healthy(found) {
			err = exitCode(exitFailed)
		}
		return err
	}
	return c
}

func (t *Tool) newDoctor() (*doctor.Doctor, error) {
	config, err := t.kube.ToRESTConfig()
	if err != nil {
		return nil, err
	}
	config.Timeout = doctorTimeout
	config.QPS, config.Burst = -1, 0 // it asks for some fifty rights at once
	typed, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	untyped, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	return &doctor.Doctor{
		Clock: t.Clock, Kubernetes: typed, Dynamic: untyped, Namespace: t.namespace,
		Service: func(ctx context.Context, name string) (*url.URL, error) { return t.ways.To(ctx, reach.Service(name)) },
	}, nil
}

func (t *Tool) printFindings(found []doctor.Finding) error {
	broken := 0
	for _, f := range found {
		if f.Verdict == doctor.Broken {
			broken++
		}
		if err := t.print("%s%s: %s", marks[f.Verdict], f.Check, f.Message); err != nil {
			return err
		}
		if f.Fix == "" {
			continue
		}
		if err := t.print("        -> %s", f.Fix); err != nil {
			return err
		}
	}
	last := "Nothing is broken."
	if broken > 0 {
		last = fmt.Sprintf("%d of %d checks found something broken.", broken, len(found))
	}
	return t.print("%s", last)
}
