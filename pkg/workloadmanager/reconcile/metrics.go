package reconcile

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/agentcube/agentcube/pkg/session"
)

// Why sessions end without anybody asking us. The causes of sandboxes that are
// over are the reasons of pkg/session.
const causeObjectGone = "object_gone"

// How a sync came out.
const (
	syncOK     = "ok"
	syncWaits  = "waits" // looked at again soon: somebody else has to act first
	syncFailed = "failed"
)

// Metrics of the reconciler. Nil ones count nothing.
type Metrics struct {
	depth     atomic.Pointer[func() int]
	seconds   *prometheus.HistogramVec
	purges    *prometheus.CounterVec
	refreshes *prometheus.CounterVec
	relabels  prometheus.Counter
}

// NewMetrics registers them.
func NewMetrics(registry prometheus.Registerer) *Metrics {
	m := &Metrics{
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "agentcube_reconcile_sync_duration_seconds",
			Help:    "Time that it took to make a session agree with its object, by result: ok; waits for somebody else; failed, and tried again.",
			Buckets: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .5, 1, 5, 30},
		}, []string{"result"}),
		purges: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "agentcube_reconcile_purges_total",
			Help: "Sessions that ended since the cluster showed that they are over, by cause: object_gone, failed (its pod ended), expired.",
		}, []string{"cause"}),
		refreshes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "agentcube_reconcile_refreshes_total",
			Help: "Rows that were changed since their object had, by the state that they have now.",
		}, []string{"state"}),
		relabels: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "agentcube_reconcile_relabelled_total", Help: "Objects whose session label was put back.",
		}),
	}
	depth := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "agentcube_reconcile_queue_depth", Help: "Objects that changed and wait to be looked at.",
	}, m.waiting)
	for _, result := range []string{syncOK, syncWaits, syncFailed} {
		m.seconds.WithLabelValues(result)
	}
	for _, cause := range []string{causeObjectGone, session.ReasonFailed, session.ReasonExpired} {
		m.purges.WithLabelValues(cause)
	}
	for _, state := range []session.State{session.StateReady, session.StateNotReady, session.StateSuspended} {
		m.refreshes.WithLabelValues(string(state))
	}
	registry.MustRegister(depth, m.seconds, m.purges, m.refreshes, m.relabels)
	return m
}

func (m *Metrics) waiting() float64 {
	if depth := m.depth.Load(); depth != nil {
		return float64((*depth)())
	}
	return 0
}

// watch sets where the depth of the queue is read.
func (m *Metrics) watch(depth func() int) {
	if m != nil {
		m.depth.Store(&depth)
	}
}

func (m *Metrics) synced(took time.Duration, err error) {
	if m == nil || errors.Is(err, context.Canceled) {
		return
	}
	result := syncOK
	switch {
	case errors.Is(err, errCreating), errors.Is(err, errOutdated):
		result = syncWaits
	case err != nil:
		result = syncFailed
	}
	m.seconds.WithLabelValues(result).Observe(took.Seconds())
}

func (m *Metrics) purged(cause string) {
	if m != nil {
		m.purges.WithLabelValues(cause).Inc()
	}
}

func (m *Metrics) refreshed(state session.State) {
	if m != nil {
		m.refreshes.WithLabelValues(string(state)).Inc()
	}
}

func (m *Metrics) relabelled() {
	if m != nil {
		m.relabels.Inc()
	}
}
