package sandbox

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/agentcube/agentcube/pkg/session"
)

var eventTime = time.Unix(1796072044, 0)

func happening(kind string) Happening {
	return Happening{
		Object: session.ObjectRef{Kind: kind, Namespace: "team", Name: "echo-1", UID: "u"},
		Reason: "SessionEnded", Action: "Delete", Note: "why",
	}
}

// sent runs the events until n of them were tried.
func sent(t *testing.T, e *Events, n uint64) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- e.Run(ctx) }()
	require.Eventually(t, func() bool { return e.made.Load()+e.lost.Load() >= n }, 10*time.Second, time.Millisecond)
	cancel()
	require.NoError(t, <-done)
}

func TestAHappeningBecomesAnEventOfItsObject(t *testing.T) {
	t.Parallel()
	for kind, apiVersion := range map[string]string{
		session.KindSandbox: "agents.x-k8s.io/v1beta1", session.KindSandboxClaim: "extensions.agents.x-k8s.io/v1beta1", KindConfigMap: "v1",
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			c := fake.NewClientset()
			e := NewEvents(clocktesting.NewFakePassiveClock(eventTime), c.EventsV1(), API{Version: V1Beta1}, "host-1", ClientOptions{}, zap.NewNop())
			h := happening(kind)
			h.Warning, h.Note = true, strings.Repeat("é", 1000)
			e.Tell(h)
			e.Tell(h)
			sent(t, e, 2)
			list, err := c.EventsV1().Events("team").List(t.Context(), metav1.ListOptions{})
			require.NoError(t, err)
			require.Len(t, list.Items, 2, "two of one moment have names of their own")
			got := list.Items[0]
			assert.Equal(t, apiVersion, got.Regarding.APIVersion)
			assert.Equal(t, kind, got.Regarding.Kind)
			assert.Equal(t, "echo-1", got.Regarding.Name)
			assert.Equal(t, "u", string(got.Regarding.UID))
			assert.Equal(t, "Warning", got.Type)
			assert.Equal(t, "SessionEnded", got.Reason)
			assert.Equal(t, "Delete", got.Action)
			assert.Equal(t, "agentcube-workload-manager", got.ReportingController)
			assert.Equal(t, "host-1", got.ReportingInstance)
			assert.Equal(t, strings.Repeat("é", 512), got.Note, "a kilobyte, and no half character")
			assert.True(t, got.EventTime.Time.Equal(eventTime))
		})
	}
}

func TestTooManyEventsAreLostAndBlockNobody(t *testing.T) {
	t.Parallel()
	c := fake.NewClientset()
	clk := clocktesting.NewFakePassiveClock(eventTime)
	e := NewEvents(clk, c.EventsV1(), API{Version: V1Beta1}, "p", ClientOptions{}, zap.NewNop())
	for range 10_000 { // nothing runs that would take them
		e.Tell(happening(session.KindSandbox))
	}
	assert.Equal(t, uint64(9_900), e.lost.Load())
	clk.SetTime(eventTime.Add(time.Hour))
	e.Tell(happening(session.KindSandbox))
	assert.Equal(t, uint64(9_901), e.lost.Load(), "nobody has taken those that wait")
	sent(t, e, 10_001)
	clk.SetTime(eventTime.Add(time.Hour + time.Second))
	for range 1000 {
		e.Tell(happening(session.KindSandbox))
	}
	assert.Len(t, e.pending, 100)
	require.NoError(t, testutil.CollectAndCompare(e, strings.NewReader(`
# HELP agentcube_events_total Kubernetes Events: made, or lost since there were too many or the API server did not take them.
# TYPE agentcube_events_total counter
agentcube_events_total{result="lost"} 10801
agentcube_events_total{result="made"} 100
`)))
}

func TestAnEventThatIsNotTakenIsLost(t *testing.T) {
	t.Parallel()
	c := fake.NewClientset()
	c.PrependReactor("create", "events", func(a clienttesting.Action) (bool, runtime.Object, error) {
		event, ok := a.(clienttesting.CreateAction).GetObject().(*eventsv1.Event)
		return ok && event.Namespace == "terminating", nil, errors.New("namespace is terminating")
	})
	e := NewEvents(clocktesting.NewFakePassiveClock(eventTime), c.EventsV1(), API{Version: V1Beta1}, "p", ClientOptions{}, zap.NewNop())
	refused := happening(session.KindSandbox)
	refused.Object.Namespace = "terminating"
	e.Tell(refused)
	e.Tell(happening("Pod")) // carries no session
	e.Tell(happening(session.KindSandbox))
	sent(t, e, 3)
	assert.Equal(t, uint64(1), e.made.Load())
	assert.Equal(t, uint64(2), e.lost.Load())
	var none *Events
	none.Tell(refused)
}
