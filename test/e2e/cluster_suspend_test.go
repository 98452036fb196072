package e2e

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentcube/agentcube/pkg/api"
)

// suspendBehaviours are about a Sandbox that somebody suspends.
var suspendBehaviours = []behaviour{
	{"a session is suspended with its sandbox, and comes back with it in the next generation", bothWays(suspendedAndResumed)},
}

// suspendAloneBehaviours hold up the controller of the sandboxes.
var suspendAloneBehaviours = []behaviour{
	{"a sandbox resumed before its controller looked is ready no sooner than it has looked", resumedUnseen},
}

// suspended wants callers to be told that the session is suspended, and the row
// to say so.
func (m made) suspended(t *testing.T, e *env, w way) {
	t.Helper()
	e.inState(t, m.id, "suspended")
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		assert.Equal(c, http.StatusServiceUnavailable, m.ask(t, e, w).status)
	}, settle, pollInterval)
	a := m.ask(t, e, w)
	routerRefuses(t, a, http.StatusServiceUnavailable, api.CodeSessionSuspended)
	assert.NotEmpty(t, a.header.Get("Retry-After"))
	namesSession(t, a, m.id)
}

func suspendedAndResumed(t *testing.T, e *env, w way) {
	m := w.make(t, e, slowBoot...)
	old, endpoint := m.echo(t, e, w), m.endpoint(t, e)
	e.runs(t, m.pod, false)
	m.suspended(t, e, w)
	e.podGone(t, m.pod)
	m.suspended(t, e, w)
	e.runs(t, m.pod, true)
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		row, ok := e.row(t, m.id)
		require.True(t, ok, "the session ended")
		assert.Equal(c, "not-ready", row["status"], "of a pod that takes its time")
	}, settle, pollInterval)
	m.comesBack(t, e, w, old, endpoint)
}

// resumedUnseen: both changes of the switch are seen by us while the status
// still is the one from before: ready, at an address that may be about to go.
func resumedUnseen(t *testing.T, e *env) {
	w := cold
	m := w.make(t, e)
	require.NoError(t, e.Cluster.Controller.Pause())
	t.Cleanup(func() { require.NoError(t, e.Cluster.Controller.Resume()) })
	e.runs(t, m.pod, false)
	m.suspended(t, e, w)
	e.runs(t, m.pod, true)
	m.notReady(t, e, w)
	e.inState(t, m.id, "not-ready")
	require.NoError(t, e.Cluster.Controller.Resume())
	// For all that we know the pod is another one. The controller may see one
	// change before the other, and then it soon is.
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		a := m.ask(t, e, w)
		assert.Equal(c, http.StatusOK, a.status, a)
		assert.Contains(c, []string{"2", "3"}, a.header.Get(api.HeaderSessionGeneration))
	}, settle, pollInterval)
}
