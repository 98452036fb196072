package provision

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/agentcube/agentcube/pkg/sandbox"
	"github.com/agentcube/agentcube/pkg/session"
	"github.com/agentcube/agentcube/pkg/workload"
)

// Paths of a create.
const (
	pathDirect = "direct" // a Sandbox of the session's own
	pathClaim  = "claim"  // a SandboxClaim on a warm pool
)

func pathOf(r Request) string {
	if r.Warm {
		return pathClaim
	}
	return pathDirect
}

// results of a create; the first entry whose error is in the chain counts.
var results = []struct {
	is   func(error) bool
	name string
}{
	{func(err error) bool { return err == nil }, "ok"},
	{oneOf(ErrClientGone), "client_gone"},
	{typed[*TimeoutError], "timeout"},
	{func(err error) bool { e, ok := errors.AsType[*FailedError](err); return ok && e.Quota }, "quota"},
	{func(err error) bool {
		e, ok := errors.AsType[*sandbox.RejectedError](err)
		return ok && e.Kind == sandbox.RejectQuota
	}, "quota"},
	{typed[*sandbox.RejectedError], "rejected"},
	{typed[*FailedError], "sandbox_failed"},
	{typed[*UnreachableError], "sandbox_unreachable"},
	{oneOf(ErrDeleted), "deleted"},
	{oneOf(workload.ErrNotFound, workload.ErrInvalid, workload.ErrPool), "template"},
	{oneOf(session.ErrUnavailable), "store_unavailable"},
	{oneOf(sandbox.ErrUnavailable, sandbox.ErrNotServed), "cluster_unavailable"},
	{func(error) bool { return true }, "error"},
}

func oneOf(those ...error) func(error) bool {
	return func(err error) bool { return ignore(err, those...) == nil }
}

func typed[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}

func resultOf(err error) string {
	for _, r := range results {
		if r.is(err) {
			return r.name
		}
	}
	return ""
}

// Metrics of creates and deletions. Nil ones count nothing.
type Metrics struct {
	creates  *prometheus.CounterVec
	duration *prometheus.HistogramVec
	steps    *prometheus.HistogramVec
	undos    *prometheus.CounterVec
	deletes  *prometheus.CounterVec
	lag      *prometheus.HistogramVec
}

// NewMetrics registers them.
func NewMetrics(registry prometheus.Registerer) *Metrics {
	m := &Metrics{
		creates: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "agentcube_session_creates_total",
			Help: "Creates that are over, by the kind of workload, the path (direct, or by a claim on a warm pool) and the result.",
		}, []string{"kind", "path", "result"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "agentcube_session_create_duration_seconds",
			Help:    "Time of creates that succeeded, from the request that was read to the session that is ready.",
			Buckets: []float64{.01, .025, .05, .075, .1, .15, .25, .5, 1, 2.5, 5, 10, 30, 60, 110},
		}, []string{"path"}),
		steps: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "agentcube_session_create_step_duration_seconds",
			Help:    "Time that the steps of creates took, also of one that failed: the step that takes too long is seen while creates fail for it.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 15, 60, 110},
		}, []string{"path", "step"}),
		undos: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "agentcube_session_undos_total",
			Help: "Undos of creates that failed: done, or left to be tried again, by the process or the collector.",
		}, []string{"result"}),
		deletes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "agentcube_session_deletes_total",
			Help: "Deletions that were asked for, by result.",
		}, []string{"result"}),
		lag: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "agentcube_watch_lag_seconds",
			Help:    "Time from the API server's answer to a create until the watch showed the object, by the object's kind.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 3, 10, 30},
		}, []string{"kind"}),
	}
	m.begin()
	registry.MustRegister(m.creates, m.duration, m.steps, m.undos, m.deletes, m.lag)
	return m
}

// begin shows what has not happened yet as 0.
func (m *Metrics) begin() {
	for _, path := range []string{pathDirect, pathClaim} {
		for _, r := range results {
			m.creates.WithLabelValues(session.KindCodeInterpreter, path, r.name)
			if path == pathDirect {
				m.creates.WithLabelValues(session.KindAgentRuntime, path, r.name)
			}
		}
		m.duration.WithLabelValues(path)
		for _, s := range allSteps {
			m.steps.WithLabelValues(path, string(s))
		}
	}
	for _, result := range []string{undoDone, undoLeft} {
		m.undos.WithLabelValues(result)
	}
	for _, result := range []string{deleteOK, deleteNotFound, deleteFailed} {
		m.deletes.WithLabelValues(result)
	}
	for _, kind := range []string{session.KindSandbox, session.KindSandboxClaim} {
		m.lag.WithLabelValues(kind)
	}
}

// Results of undos and deletions.
const (
	undoDone       = "done"
	undoLeft       = "left"
	deleteOK       = "ok"
	deleteNotFound = "not_found"
	deleteFailed   = "failed"
)

// created counts a create that is over. One that found its key taken is none:
// the session of the key is waited for.
func (m *Metrics) created(r Request, took time.Duration, err error) {
	if m == nil || errors.Is(err, session.ErrKeyTaken) {
		return
	}
	m.creates.WithLabelValues(r.Workload.Kind, pathOf(r), resultOf(err)).Inc()
	if err == nil {
		m.duration.WithLabelValues(pathOf(r)).Observe(took.Seconds())
	}
}

func (m *Metrics) stepped(path string, s step, took time.Duration) {
	if m != nil {
		m.steps.WithLabelValues(path, string(s)).Observe(took.Seconds())
	}
}

func (m *Metrics) undone(left bool) {
	if m == nil {
		return
	}
	result := undoDone
	if left {
		result = undoLeft
	}
	m.undos.WithLabelValues(result).Inc()
}

func (m *Metrics) deleted(err error) {
	if m == nil {
		return
	}
	result := deleteOK
	switch {
	case errors.Is(err, session.ErrNotFound):
		result = deleteNotFound
	case err != nil:
		result = deleteFailed
	}
	m.deletes.WithLabelValues(result).Inc()
}

// shown counts how late the watch showed a new object.
func (m *Metrics) shown(kind string, after time.Duration) {
	if m != nil {
		m.lag.WithLabelValues(kind).Observe(after.Seconds())
	}
}
