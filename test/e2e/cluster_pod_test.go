package e2e

import (
	"net"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/agentcube/agentcube/pkg/api"
	"github.com/agentcube/agentcube/test/cluster/node"
)

// podBehaviours are about what happens to the pod under a session whose object
// stays.
var podBehaviours = []behaviour{
	{"a session waits while its pod is not ready, and goes on in the same generation", bothWays(podNotReady)},
}

// podAloneBehaviours are bound by a time, which others may not take up.
var podAloneBehaviours = []behaviour{
	{"a session outlives its pod, whose address then refuses, in the next generation", bothWays(podReplaced(node.Refuse))},
	{"a session outlives its pod, whose address then is silent, in the next generation", bothWays(podReplaced(node.Silent))},
}

// noticed is how long after a change of the cluster a request may still meet
// what was there before.
const noticed = 100 * time.Millisecond

// slowBoot makes pods that take their time, so that the state between two of
// them is there to be seen.
var slowBoot = []string{node.BootTime, "1s"}

// ask is a GET to the session through the router.
func (m made) ask(t *testing.T, e *env, w way) answer {
	t.Helper()
	return e.invoke(t, w.route, "echo", m.id, "/x")
}

// echo is the answer of the pod that serves the session.
func (m made) echo(t *testing.T, e *env, w way) node.Echo {
	t.Helper()
	return e.echoes(t, w.route, "echo", m.id)
}

// comesBack asks the session until another pod than the old one answers, and
// wants that to be in the next generation. It begins when the router has had
// its time to notice: until there is another pod, callers are told to come
// again. It returns how often they were told so.
func (m made) comesBack(t *testing.T, e *env, w way, old node.Echo, oldEndpoint string) (waits int) {
	t.Helper()
	<-time.After(noticed)
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	deadline := time.Now().Add(settle)
	a := m.ask(t, e, w)
	for ; a.status != http.StatusOK; a = m.ask(t, e, w) {
		routerRefuses(t, a, http.StatusServiceUnavailable, api.CodeSandboxNotReady)
		assert.NotEmpty(t, a.header.Get("Retry-After"))
		namesSession(t, a, m.id)
		require.True(t, time.Now().Before(deadline), "no pod has come: %s", a)
		waits++
		<-ticker.C
	}
	var echo node.Echo
	a.decode(t, &echo)
	assert.NotEqual(t, old.UID, echo.UID, "the old pod answers")
	assert.Equal(t, m.id, a.header.Get(api.HeaderSessionID))
	assert.Equal(t, "2", a.header.Get(api.HeaderSessionGeneration))
	row, ok := e.row(t, m.id)
	require.True(t, ok)
	assert.Equal(t, "ready", row["status"])
	assert.EqualValues(t, 2, row["generation"])
	assert.NotEqual(t, oldEndpoint, endpointOf(t, row))
	host, _, err := net.SplitHostPort(endpointOf(t, row))
	require.NoError(t, err)
	assert.Equal(t, e.Cluster.Node.Address(e.namespace, m.pod), host)
	return waits
}

// endpointOf is the one endpoint of a row.
func endpointOf(t *testing.T, row map[string]any) string {
	t.Helper()
	points, _ := row["entryPoints"].([]any)
	require.Len(t, points, 1, "%v", row)
	point, _ := points[0].(map[string]any)
	endpoint, _ := point["endpoint"].(string)
	require.NotEmpty(t, endpoint)
	return endpoint
}

// endpoint of a session that is ready.
func (m made) endpoint(t *testing.T, e *env) string {
	t.Helper()
	row, ok := e.row(t, m.id)
	require.True(t, ok)
	return endpointOf(t, row)
}

func podReplaced(end node.End) func(*testing.T, *env, way) {
	return func(t *testing.T, e *env, w way) {
		m := w.make(t, e, append([]string{node.AtEnd, string(end)}, slowBoot...)...)
		old, endpoint := m.echo(t, e, w), m.endpoint(t, e)
		require.NoError(t, e.client.Resource(pods).Namespace(e.namespace).Delete(t.Context(), m.pod, metav1.DeleteOptions{}))
		waits := m.comesBack(t, e, w, old, endpoint)
		assert.Positive(t, waits, "nobody was told to wait for the new pod")
	}
}

// notReady wants callers to be told that the session's sandbox is not ready,
// now or soon, and the row to say so.
func (m made) notReady(t *testing.T, e *env, w way) {
	t.Helper()
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		row, ok := e.row(t, m.id)
		require.True(t, ok, "the session ended")
		assert.Equal(c, "not-ready", row["status"])
	}, settle, pollInterval)
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		assert.Equal(c, http.StatusServiceUnavailable, m.ask(t, e, w).status)
	}, settle, pollInterval)
	a := m.ask(t, e, w)
	routerRefuses(t, a, http.StatusServiceUnavailable, api.CodeSandboxNotReady)
	assert.NotEmpty(t, a.header.Get("Retry-After"))
	assert.Equal(t, m.id, a.header.Get(api.HeaderSessionID))
}

// podNotReady: the pod keeps its address, and so does the row; only callers
// have to wait.
func podNotReady(t *testing.T, e *env, w way) {
	m := w.make(t, e)
	before, endpoint := m.echo(t, e, w), m.endpoint(t, e)
	require.NoError(t, e.Cluster.Node.SetReady(t.Context(), e.namespace, m.pod, false))
	m.notReady(t, e, w)
	assert.Equal(t, endpoint, m.endpoint(t, e))
	require.NoError(t, e.Cluster.Node.SetReady(t.Context(), e.namespace, m.pod, true))
	m.serves(t, e, w, 1)
	assert.Equal(t, before.UID, m.echo(t, e, w).UID)
	assert.Equal(t, endpoint, m.endpoint(t, e))
}

// serves wants the session to be ready in a generation and answered, now or
// soon.
func (m made) serves(t *testing.T, e *env, w way, generation int) {
	t.Helper()
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		a := m.ask(t, e, w)
		assert.Equal(c, http.StatusOK, a.status, a)
		assert.Equal(c, strconv.Itoa(generation), a.header.Get(api.HeaderSessionGeneration))
	}, settle, pollInterval)
	e.inState(t, m.id, "ready")
}
