package reconcile_test

import (
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentcube/agentcube/pkg/sandbox"
	"github.com/agentcube/agentcube/pkg/session"
	"github.com/agentcube/agentcube/pkg/workloadmanager/reconcile"
)

// told gathers happenings.
type told struct {
	mu  sync.Mutex
	all []sandbox.Happening
}

func (e *told) Tell(h sandbox.Happening) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.all = append(e.all, h)
}

// take returns what was told since the last time.
func (e *told) take() []sandbox.Happening {
	e.mu.Lock()
	defer e.mu.Unlock()
	all := e.all
	e.all = nil
	return all
}

func TestAReconcilerSaysWhatItDoes(t *testing.T) {
	t.Parallel()
	registry, events := prometheus.NewRegistry(), &told{}
	observed := func(o *reconcile.Options) { o.Metrics, o.Events = reconcile.NewMetrics(registry), events }
	in(t, func(t *testing.T, w *world) {
		one := func(s session.Session, reason string, warning bool, note string) {
			t.Helper()
			w.settle()
			all := events.take()
			require.Len(t, all, 1)
			assert.Equal(t, reason, all[0].Reason)
			assert.Equal(t, warning, all[0].Warning)
			assert.Equal(t, s.Object, all[0].Object)
			assert.Contains(t, all[0].Note, note)
			assert.Contains(t, all[0].Note, s.ID)
		}
		s := w.session(session.KindSandbox)
		w.cluster.Edit(s.Object, func(o *sandbox.Object) { o.SessionID = "" })
		one(s, "SessionLabelRestored", true, "label")
		w.cluster.Edit(s.Object, func(o *sandbox.Object) {
			o.Ready, o.Reason, o.Message = false, "DependenciesNotReady", "pod is not ready"
		})
		one(s, "SessionNotReady", true, "DependenciesNotReady: pod is not ready")
		w.cluster.Edit(s.Object, func(o *sandbox.Object) { o.Message = "still" })
		w.settle()
		assert.Empty(t, events.take(), "once, until it was ready again")
		w.cluster.Edit(s.Object, func(o *sandbox.Object) {
			o.Failure = &sandbox.Failure{Reason: "PodFailed", Message: "exit 1", Ended: true}
		})
		one(s, "SessionEnded", false, "PodFailed: exit 1")
		other := w.session(session.KindSandboxClaim)
		w.cluster.Kill(other.Object)
		w.settle()
		w.purged(other)
		assert.Empty(t, events.take(), "an object that is gone has no events")
		require.NoError(t, testutil.GatherAndCompare(registry, strings.NewReader(`
# HELP agentcube_reconcile_purges_total Sessions that ended since the cluster showed that they are over, by cause: object_gone, failed (its pod ended), expired.
# TYPE agentcube_reconcile_purges_total counter
agentcube_reconcile_purges_total{cause="expired"} 0
agentcube_reconcile_purges_total{cause="failed"} 1
agentcube_reconcile_purges_total{cause="object_gone"} 1
# HELP agentcube_reconcile_queue_depth Objects that changed and wait to be looked at.
# TYPE agentcube_reconcile_queue_depth gauge
agentcube_reconcile_queue_depth 0
# HELP agentcube_reconcile_relabelled_total Objects whose session label was put back.
# TYPE agentcube_reconcile_relabelled_total counter
agentcube_reconcile_relabelled_total 1
`), "agentcube_reconcile_purges_total", "agentcube_reconcile_queue_depth", "agentcube_reconcile_relabelled_total"))
	}, observed)
}
