package provision_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.uber.org/zap"

	"github.com/agentcube/agentcube/pkg/sandbox"
	"github.com/agentcube/agentcube/pkg/session"
	"github.com/agentcube/agentcube/pkg/workloadmanager/provision"
)

// happenings gathers what is told.
type happenings struct{ all []sandbox.Happening }

func (e *happenings) Tell(h sandbox.Happening) { e.all = append(e.all, h) }

// observed is a world whose provisioner says what it does.
func (w *world) observed() (*prometheus.Registry, *happenings) {
	registry, events := prometheus.NewRegistry(), &happenings{}
	w.p = provision.New(w.clock, zap.NewNop(), w.store, w.cluster, w.cluster.Cache(), w.cluster, w.prober, provision.Options{
		Process: process, Installation: installation, Metrics: provision.NewMetrics(registry), Events: events,
	})
	return registry, events
}

// metric is the one with that name and these values of labels, in the order of
// the labels' names.
func metric(t *testing.T, registry *prometheus.Registry, name string, labels ...string) *dto.Metric {
	t.Helper()
	families, err := registry.Gather()
	require.NoError(t, err)
	for _, family := range families {
		for _, m := range family.GetMetric() {
			var have []string
			for _, l := range m.GetLabel() {
				have = append(have, l.GetValue())
			}
			if family.GetName() == name && assert.ObjectsAreEqual(labels, have) {
				return m
			}
		}
	}
	require.Failf(t, "no such metric", "%s %v", name, labels)
	return nil
}

const (
	createsName = "agentcube_session_creates_total"
	stepName    = "agentcube_session_create_step_duration_seconds"
)

func TestACreateIsCountedByPathAndStep(t *testing.T) {
	t.Parallel()
	for path, request := range map[string]func() provision.Request{"direct": direct, "claim": warm} {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			in(t, func(t *testing.T, w *world) {
				registry, events := w.observed()
				w.cluster.OnCreate(w.after(2*time.Second, ready))
				w.prober.probe = func(context.Context) error { w.pass(time.Second); return nil }
				r := request()
				_, err := w.p.Create(t.Context(), r)
				require.NoError(t, err)
				assert.InDelta(t, 1, metric(t, registry, createsName, r.Workload.Kind, path, "ok").GetCounter().GetValue(), 0)
				whole := metric(t, registry, "agentcube_session_create_duration_seconds", path).GetHistogram()
				assert.InDelta(t, 3, whole.GetSampleSum(), 0.001, "seconds, the whole")
				for step, seconds := range map[string]float64{"reserve": 0, "object": 0, "wait": 2, "probe": 1, "commit": 0} {
					h := metric(t, registry, stepName, path, step).GetHistogram()
					assert.Equal(t, uint64(1), h.GetSampleCount(), step)
					assert.InDelta(t, seconds, h.GetSampleSum(), 0.001, step)
				}
				assert.Empty(t, events.all, "nobody asks about what went well")
				kind := session.KindSandbox
				if path == "claim" {
					kind = session.KindSandboxClaim
				}
				assert.Equal(t, uint64(1), metric(t, registry, "agentcube_watch_lag_seconds", kind).GetHistogram().GetSampleCount())
			})
		})
	}
}

func TestACreateThatFailsSaysHow(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		arrange func(w *world)
		result  string
		note    string // of the event; empty: none
		left    bool   // the undo is to run again
	}{
		"a sandbox that is never ready": {
			arrange: func(w *world) { w.cluster.OnCreate(never) }, result: "timeout", note: "timed out waiting for the sandbox to become ready",
		},
		"one that fails for good": {arrange: func(w *world) {
			w.cluster.OnCreate(w.after(0, func(o *sandbox.Object) { o.Failure = &sandbox.Failure{Reason: "PodFailed", Message: "exit 1"} }))
		}, result: "sandbox_failed", note: "PodFailed: exit 1"},
		"a quota": {arrange: func(w *world) {
			w.cluster.OnCreate(w.after(0, func(o *sandbox.Object) {
				o.Failure = &sandbox.Failure{Reason: "ReconcilerError", Message: "exceeded quota", Quota: true}
			}))
		}, result: "quota", note: "exceeded quota"},
		"one that does not listen": {
			arrange: func(w *world) { w.prober.probe = func(context.Context) error { return errors.New("10.0.0.7 refuses") } },
			result:  "sandbox_unreachable", note: "does not listen",
		},
		"a cluster that refuses the object": {
			arrange: func(w *world) { w.cluster.FailNext("Create", &sandbox.RejectedError{Kind: sandbox.RejectPolicy}) }, result: "rejected",
		},
		"a store out of reach": {
			arrange: func(w *world) { w.store.FailNext("Create", session.ErrUnavailable) }, result: "store_unavailable", left: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in(t, func(t *testing.T, w *world) {
				registry, events := w.observed()
				c.arrange(w)
				_, err := w.p.Create(t.Context(), direct())
				require.Error(t, err)
				require.NoError(t, w.p.Wait(t.Context()))
				assert.InDelta(t, 1, metric(t, registry, createsName, session.KindAgentRuntime, "direct", c.result).GetCounter().GetValue(), 0)
				undo := map[bool]string{false: "done", true: "left"}[c.left]
				assert.InDelta(t, 1, metric(t, registry, "agentcube_session_undos_total", undo).GetCounter().GetValue(), 0)
				assert.Zero(t, metric(t, registry, "agentcube_session_create_duration_seconds", "direct").GetHistogram().GetSampleCount())
				if c.note == "" {
					assert.Empty(t, events.all)
					return
				}
				require.Len(t, events.all, 1)
				event := events.all[0]
				assert.Equal(t, "SessionCreateFailed", event.Reason)
				assert.True(t, event.Warning)
				assert.Contains(t, event.Note, c.note)
				assert.NotContains(t, event.Note, "10.0.0.7", "internal detail is not told")
			})
		})
	}
}

func TestEqualCallsThatGetOneSessionAreOneCreate(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, w *world) {
		defer w.beat(process)()
		registry, _ := w.observed()
		w.cluster.OnCreate(w.after(time.Second, ready))
		var calls sync.WaitGroup
		for range 10 {
			calls.Go(func() {
				_, err := w.p.Submit(t.Context(), ordered(key, nil))
				assert.NoError(t, err)
			})
		}
		calls.Wait()
		w.drained()
		for _, result := range []struct {
			name string
			want float64
		}{{"ok", 1}, {"error", 0}} {
			m := metric(t, registry, createsName, session.KindAgentRuntime, "direct", result.name)
			assert.InDelta(t, result.want, m.GetCounter().GetValue(), 0, result.name)
		}
	})
}

func TestDeletionsAreCounted(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, w *world) {
		registry, _ := w.observed()
		s, err := w.p.Create(t.Context(), direct())
		require.NoError(t, err)
		require.NoError(t, w.p.Delete(t.Context(), s.ID, session.ReasonDeleted))
		require.Error(t, w.p.Delete(t.Context(), s.ID, session.ReasonDeleted))
		for result, n := range map[string]float64{"ok": 1, "not_found": 1, "failed": 0} {
			assert.InDelta(t, n, metric(t, registry, "agentcube_session_deletes_total", result).GetCounter().GetValue(), 0, result)
		}
	})
}

func TestTheStepsAreSpansOfTheCallersTrace(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, w *world) {
		w.observed()
		spans := tracetest.NewSpanRecorder()
		provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans))
		ctx, parent := provider.Tracer("test").Start(t.Context(), "parent")
		_, err := w.p.Create(ctx, direct())
		require.NoError(t, err)
		w.prober.probe = func(context.Context) error { return errors.New("refused") }
		_, err = w.p.Create(ctx, direct())
		require.Error(t, err)
		require.NoError(t, w.p.Wait(t.Context()))
		var names []string
		for _, s := range spans.Ended() {
			names = append(names, s.Name())
			assert.Equal(t, parent.SpanContext().SpanID(), s.Parent().SpanID(), s.Name())
		}
		assert.Equal(t, []string{
			"create: reserve", "create: object", "create: wait", "create: probe", "create: commit",
			"create: reserve", "create: object", "create: wait", "create: probe", "create: undo",
		}, names)
	})
}
