package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentcube/agentcube/test/system"
)

func programs() map[string]*prometheus.Registry {
	return map[string]*prometheus.Registry{"workload-manager": workloadManager(), "router": routerProgram()}
}

func TestTheDocumentIsWhatTheCodeSays(t *testing.T) {
	t.Parallel()
	want, err := render()
	require.NoError(t, err)
	have, err := os.ReadFile(filepath.Join(system.Root(), "docs", "metrics.md"))
	require.NoError(t, err)
	assert.Equal(t, string(want), string(have), "make generate writes it anew")
}

func TestNamesKeepTheConventionsOfPrometheus(t *testing.T) {
	t.Parallel()
	for name, registry := range programs() {
		families, err := registry.Gather()
		require.NoError(t, err)
		problems, err := promlint.NewWithMetricFamilies(families).Lint()
		require.NoError(t, err)
		for _, p := range problems {
			assert.Failf(t, "not by the conventions", "%s: %s: %s", name, p.Metric, p.Text)
		}
	}
}

// The labels that a metric may have. Whoever adds one says here why its values
// are bounded: each comes from a list in the code, and a stranger's becomes
// "other" or is not counted.
var bounded = map[string]string{
	"call":       "scripts and commands of pkg/store",
	"cause":      "constants of the package",
	"code":       "HTTP statuses below 600, or other",
	"commit":     "one for each build",
	"dependency": "named by the wiring of the program",
	"go":         "one for each build",
	"kind":       "kinds of templates, objects or errors; constants",
	"outcome":    "constants of the package",
	"path":       "direct or claim",
	"program":    "one",
	"result":     "constants of the package",
	"route":      "patterns of routes that were added before the first request, or other",
	"state":      "states of pkg/session",
	"step":       "constants of the package",
	"version":    "one for each build",
}

func TestNoLabelHasUnboundedValues(t *testing.T) {
	t.Parallel()
	for name, registry := range programs() {
		for _, d := range descriptions(registry) {
			for _, label := range d.labels {
				assert.Contains(t, bounded, label, "%s: %s: nothing says that the values of %s are bounded", name, d.metric, label)
			}
		}
	}
}

// description is what is known of a metric, whether it has values yet or not.
type description struct {
	metric string
	labels []string
}

// descriptions reads those of all that is registered of ours. A Desc tells what
// it holds in its text alone.
func descriptions(registry *prometheus.Registry) []description {
	found := make(chan *prometheus.Desc)
	go func() {
		defer close(found)
		registry.Describe(found)
	}()
	var all []description
	for d := range found {
		text := d.String()
		metric := between(text, `fqName: "`, `"`)
		if !strings.HasPrefix(metric, prefix) {
			continue
		}
		one := description{metric: metric}
		for _, label := range strings.Split(between(text, "variableLabels: {", "}"), ",") {
			if label != "" {
				one.labels = append(one.labels, label)
			}
		}
		for _, pair := range strings.Split(between(text, "constLabels: {", "}"), ",") {
			if label, _, ok := strings.Cut(pair, "="); ok {
				one.labels = append(one.labels, label)
			}
		}
		all = append(all, one)
	}
	return all
}

func between(text, before, after string) string {
	_, rest, _ := strings.Cut(text, before)
	found, _, _ := strings.Cut(rest, after)
	return found
}

func TestDescriptionsAreRead(t *testing.T) {
	t.Parallel()
	for _, registry := range programs() {
		all := descriptions(registry)
		i := slices.IndexFunc(all, func(d description) bool { return d.metric == "agentcube_http_requests_total" })
		require.GreaterOrEqual(t, i, 0)
		assert.Equal(t, []string{"route", "code"}, all[i].labels)
		i = slices.IndexFunc(all, func(d description) bool { return d.metric == "agentcube_build_info" })
		require.GreaterOrEqual(t, i, 0)
		assert.ElementsMatch(t, []string{"program", "version", "commit", "go"}, all[i].labels)
	}
}
