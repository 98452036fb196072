package gc

import (
	"context"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/agentcube/agentcube/pkg/session"
)

// causeCreatorGone is why a session ends that nobody creates any more. The other
// causes are the reasons of pkg/session.
const causeCreatorGone = "creator_gone"

// Metrics of the collector. Nil ones count nothing.
type Metrics struct {
	due, finished, failed prometheus.Counter
	ended                 *prometheus.CounterVec
	seconds               *prometheus.HistogramVec
}

// Results of a pass.
const (
	passOK     = "ok"
	passFailed = "failed"
)

// NewMetrics registers them.
func NewMetrics(registry prometheus.Registerer) *Metrics {
	m := &Metrics{
		due: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "agentcube_collector_due_total", Help: "Rows that came up: their recorded deadline had passed.",
		}),
		ended: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "agentcube_collector_ended_total",
			Help: "Sessions that the collector decided to end, by cause: idle, expired, creator_gone.",
		}, []string{"cause"}),
		finished: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "agentcube_collector_finished_total",
			Help: "Sessions that the collector saw to their end, object and row, whoever had ended them.",
		}),
		failed: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "agentcube_collector_failed_total", Help: "Rows that came up and could not be dealt with; each is tried again.",
		}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "agentcube_collector_pass_duration_seconds",
			Help:    "Time of the passes of the collector, by result.",
			Buckets: []float64{.001, .0025, .005, .01, .05, .1, .5, 1, 5, 15, 60, 300},
		}, []string{"result"}),
	}
	for _, cause := range []string{session.ReasonIdle, session.ReasonExpired, causeCreatorGone} {
		m.ended.WithLabelValues(cause)
	}
	m.seconds.WithLabelValues(passOK)
	m.seconds.WithLabelValues(passFailed)
	registry.MustRegister(m.due, m.ended, m.finished, m.failed, m.seconds)
	return m
}

func (m *Metrics) passed(stats Stats, took time.Duration, err error) {
	if m == nil || errors.Is(err, context.Canceled) {
		return
	}
	m.due.Add(float64(stats.Due))
	m.finished.Add(float64(stats.Ended))
	m.failed.Add(float64(stats.Failed))
	result := passOK
	if err != nil {
		result = passFailed
	}
	m.seconds.WithLabelValues(result).Observe(took.Seconds())
}

func (m *Metrics) endedFor(cause string) {
	if m != nil {
		m.ended.WithLabelValues(cause).Inc()
	}
}
