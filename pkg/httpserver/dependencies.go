package httpserver

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"
)

var dependencyUp = prometheus.NewDesc("agentcube_dependency_up",
	"1 if what this process depends on was in order when the metrics were read, else 0.", []string{"dependency"}, nil)

// Describe implements prometheus.Collector.
func (h *Health) Describe(out chan<- *prometheus.Desc) { out <- dependencyUp }

// Collect implements prometheus.Collector. It asks all dependencies, as the
// readiness does, which takes half a second at most.
func (h *Health) Collect(out chan<- prometheus.Metric) {
	for name, state := range h.check(context.Background()) {
		value := 0.0
		if state == detailOK {
			value = 1
		}
		out <- prometheus.MustNewConstMetric(dependencyUp, prometheus.GaugeValue, value, name)
	}
}
