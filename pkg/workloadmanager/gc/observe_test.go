package gc_test

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentcube/agentcube/pkg/sandbox"
	"github.com/agentcube/agentcube/pkg/session"
	"github.com/agentcube/agentcube/pkg/workloadmanager/gc"
)

// told gathers happenings by the object's name.
type told struct {
	mu  sync.Mutex
	all map[string]sandbox.Happening
}

func (e *told) Tell(h sandbox.Happening) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.all[h.Object.Name] = h
}

func TestACollectorSaysWhatItEndsAndWhy(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, w *world) {
		registry, events, o := prometheus.NewRegistry(), &told{all: map[string]sandbox.Happening{}}, options()
		o.Metrics, o.Events = gc.NewMetrics(registry), events
		w.c = w.collector(o)
		idle := w.idle(time.Minute)
		expired := w.session(func(s *session.Session) { s.ExpiresAt = s.CreatedAt.Add(time.Minute) })
		abandoned := w.session(creating)
		w.session(nil) // lives
		w.runFor(3 * time.Minute)

		for s, reason := range map[string]string{
			idle.Object.Name: "SessionEnded", expired.Object.Name: "SessionEnded", abandoned.Object.Name: "SessionAbandoned",
		} {
			require.Contains(t, events.all, s)
			assert.Equal(t, reason, events.all[s].Reason)
			assert.Equal(t, reason == "SessionAbandoned", events.all[s].Warning)
		}
		assert.Contains(t, events.all[idle.Object.Name].Note, "idle for longer than 1m0s")
		assert.Equal(t, idle.Object, events.all[idle.Object.Name].Object)
		assert.Contains(t, events.all[expired.Object.Name].Note, "time")
		assert.Contains(t, events.all[abandoned.Object.Name].Note, "manager-1")
		assert.Len(t, events.all, 3)
		require.NoError(t, testutil.GatherAndCompare(registry, strings.NewReader(`
# HELP agentcube_collector_ended_total Sessions that the collector decided to end, by cause: idle, expired, creator_gone.
# TYPE agentcube_collector_ended_total counter
agentcube_collector_ended_total{cause="creator_gone"} 1
agentcube_collector_ended_total{cause="expired"} 1
agentcube_collector_ended_total{cause="idle"} 1
# HELP agentcube_collector_failed_total Rows that came up and could not be dealt with; each is tried again.
# TYPE agentcube_collector_failed_total counter
agentcube_collector_failed_total 0
`), "agentcube_collector_ended_total", "agentcube_collector_failed_total"))
		passes, err := testutil.GatherAndCount(registry, "agentcube_collector_pass_duration_seconds")
		require.NoError(t, err)
		assert.Equal(t, 2, passes, "by result")
	})
}
