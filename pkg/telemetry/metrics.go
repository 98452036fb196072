package telemetry

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// NewRegistry holds what every program tells: the Go runtime, the process,
// and agentcube_build_info. Packages register their own metrics with it; the
// global registry of the library is not used.
func NewRegistry(program string, build Build) *prometheus.Registry {
	info := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "agentcube_build_info",
		Help: "Always 1; the labels say which build is running.",
		ConstLabels: prometheus.Labels{
			"program": program, "version": build.Version, "commit": build.Commit, "go": build.Go,
		},
	})
	info.Set(1)
	registry := prometheus.NewRegistry()
	registry.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		info,
	)
	return registry
}

// MetricsHandler answers GET /metrics.
func MetricsHandler(registry *prometheus.Registry) http.Handler {
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{Registry: registry})
}
