package resync

import "github.com/prometheus/client_golang/prometheus"

// How a pass came out, as the label of agentcube_resync_passes_total.
const (
	outcomeDone   = "done"
	outcomeHeld   = "held"
	outcomeFailed = "failed"
)

// Metrics of the resync.
type Metrics struct {
	passes        *prometheus.CounterVec
	seconds       prometheus.Histogram
	purged, swept prometheus.Counter
	brake         prometheus.Gauge
}

// NewMetrics registers them.
func NewMetrics(registry prometheus.Registerer) *Metrics {
	m := &Metrics{
		passes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "agentcube_resync_passes_total",
			Help: "Comparisons of the store with the cluster, by outcome: done, held by the brake, failed.",
		}, []string{"outcome"}),
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "agentcube_resync_duration_seconds",
			Help:    "Time that a pass worked, without the grace period that it waited.",
			Buckets: []float64{.1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300},
		}),
		purged: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "agentcube_resync_purged_total", Help: "Rows removed because their object was gone.",
		}),
		swept: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "agentcube_resync_swept_total", Help: "Objects deleted because no row named them.",
		}),
		brake: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "agentcube_resync_brake",
			Help: "1 while nothing is removed until an operator confirms it; the ConfigMap agentcube-workload-manager says why.",
		}),
	}
	for _, outcome := range []string{outcomeDone, outcomeHeld, outcomeFailed} {
		m.passes.WithLabelValues(outcome)
	}
	registry.MustRegister(m.passes, m.seconds, m.purged, m.swept, m.brake)
	return m
}
