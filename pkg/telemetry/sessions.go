package telemetry

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// sessionsTimeout bounds the count at a scrape, far below the time that
// Prometheus waits for one.
const sessionsTimeout = 500 * time.Millisecond

// Sessions is the gauge agentcube_sessions. It is read when it is scraped, and
// while the count fails there is none: a number of before would be a lie.
type Sessions struct {
	count       func(context.Context) (map[string]int, error)
	description *prometheus.Desc
}

// NewSessions returns the gauge of what count returns, sessions by state.
func NewSessions(count func(context.Context) (map[string]int, error)) *Sessions {
	return &Sessions{count: count, description: prometheus.NewDesc("agentcube_sessions",
		"Sessions in the store, by state. All replicas tell the same; absent while the store does not answer.",
		[]string{"state"}, nil)}
}

// Describe implements prometheus.Collector.
func (s *Sessions) Describe(descriptions chan<- *prometheus.Desc) { descriptions <- s.description }

// Collect implements prometheus.Collector.
func (s *Sessions) Collect(metrics chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), sessionsTimeout)
	defer cancel()
	counts, err := s.count(ctx)
	if err != nil {
		return
	}
	for state, n := range counts {
		metrics <- prometheus.MustNewConstMetric(s.description, prometheus.GaugeValue, float64(n), state)
	}
}
