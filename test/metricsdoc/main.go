// Command metricsdoc writes docs/metrics.md from the metrics themselves: it makes
// the parts of both programs that have any, as their wiring does, and reads what
// they would show. It runs nothing.
//
// The programs' own tests compare the page that is served with the document.
package main

import (
	"bytes"
	"cmp"
	"context"
	_ "embed"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/template"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"go.uber.org/zap"
	"k8s.io/utils/clock"

	"github.com/agentcube/agentcube/pkg/httpserver"
	"github.com/agentcube/agentcube/pkg/router"
	"github.com/agentcube/agentcube/pkg/router/lookup"
	"github.com/agentcube/agentcube/pkg/sandbox"
	"github.com/agentcube/agentcube/pkg/session"
	"github.com/agentcube/agentcube/pkg/store"
	"github.com/agentcube/agentcube/pkg/telemetry"
	"github.com/agentcube/agentcube/pkg/workloadmanager"
	"github.com/agentcube/agentcube/pkg/workloadmanager/gc"
	"github.com/agentcube/agentcube/pkg/workloadmanager/provision"
	"github.com/agentcube/agentcube/pkg/workloadmanager/reconcile"
	"github.com/agentcube/agentcube/pkg/workloadmanager/resync"
	"github.com/agentcube/agentcube/test/system"
)

//go:generate go run .

// prefix of our own metrics.
const prefix = "agentcube_"

//go:embed metrics.md.tmpl
var page string

func main() {
	text, err := render()
	if err == nil {
		err = os.WriteFile(filepath.Join(system.Root(), "docs", "metrics.md"), text, 0o644) //nolint:gosec // a document
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func render() ([]byte, error) {
	manager, err := rows(workloadManager())
	if err != nil {
		return nil, err
	}
	routers, err := rows(routerProgram())
	if err != nil {
		return nil, err
	}
	parsed, err := template.New("metrics.md").Parse(page)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	err = parsed.Execute(&out, map[string]string{"WorkloadManager": manager, "Router": routers})
	return out.Bytes(), err
}

// healthOf is a health with the program's dependencies.
func healthOf(dependencies ...string) *httpserver.Health {
	h := httpserver.NewHealth(clock.RealClock{}, zap.NewNop())
	for _, name := range dependencies {
		h.Detail(name, func(context.Context) error { return nil })
	}
	return h
}

// workloadManager is what cmd/workload-manager registers.
func workloadManager() *prometheus.Registry {
	clk, log := clock.RealClock{}, zap.NewNop()
	r := telemetry.NewRegistry("workload-manager", telemetry.Build{})
	health := healthOf("cluster", "identity-key", "resync", "store")
	requests := httpserver.NewRequests(r)
	workloadmanager.New(workloadmanager.Config{
		Clock: clk, Log: log, Health: health, Requests: requests, Metrics: http.NotFoundHandler(),
	})
	store.NewMetrics(clk, r)
	provision.NewMetrics(r)
	reconcile.NewMetrics(r)
	gc.NewMetrics(r)
	resync.NewMetrics(r)
	sessions := telemetry.NewSessions(func(context.Context) (map[string]int, error) {
		return map[string]int{
			string(session.StateCreating): 0, string(session.StateReady): 0, string(session.StateNotReady): 0,
			string(session.StateSuspended): 0, string(session.StateDeleting): 0,
		}, nil
	})
	r.MustRegister(health, sessions, sandbox.NewEvents(clk, nil, sandbox.API{}, "", sandbox.ClientOptions{}, log))
	return r
}

// routerProgram is what cmd/router registers.
func routerProgram() *prometheus.Registry {
	clk, log := clock.RealClock{}, zap.NewNop()
	r := telemetry.NewRegistry("router", telemetry.Build{})
	health := healthOf("identity-key", "store")
	httpserver.NewRequests(r, router.Routes()...)
	store.NewMetrics(clk, r)
	rows := lookup.New(clk, nil, lookup.Options{}, log)
	r.MustRegister(health, rows, router.New(clk, router.Dependencies{Health: health}, router.Options{}, log))
	return r
}

// rows are the lines of a table of what the registry shows.
func rows(registry *prometheus.Registry) (string, error) {
	families, err := registry.Gather()
	if err != nil {
		return "", err
	}
	var out strings.Builder
	for _, family := range families {
		if strings.HasPrefix(family.GetName(), prefix) {
			fmt.Fprintf(&out, "| `%s` | %s | %s | %s |\n", family.GetName(), strings.ToLower(family.GetType().String()),
				labels(family), strings.ReplaceAll(family.GetHelp(), "|", "\\|"))
		}
	}
	return strings.TrimSuffix(out.String(), "\n"), nil
}

// open are labels whose values are not listed: they are explained in words, or
// follow from the routes and scripts.
var open = map[string]bool{
	"route": true, "call": true, "code": true, "program": true, "version": true, "commit": true, "go": true,
}

// labels of a metric, each with its values.
func labels(family *dto.MetricFamily) string {
	values := map[string][]string{}
	var names []string
	for _, metric := range family.GetMetric() {
		for _, label := range metric.GetLabel() {
			if _, known := values[label.GetName()]; !known {
				names = append(names, label.GetName())
			}
			if !slices.Contains(values[label.GetName()], label.GetValue()) {
				values[label.GetName()] = append(values[label.GetName()], label.GetValue())
			}
		}
	}
	slices.SortFunc(names, cmp.Compare[string])
	for i, name := range names {
		names[i] = "`" + name + "`"
		if !open[name] {
			slices.Sort(values[name])
			names[i] += ": " + strings.Join(values[name], ", ")
		}
	}
	return strings.Join(names, "; ")
}
