package e2e

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/agentcube/agentcube/pkg/api"
)

// manyBehaviours are about several sessions of one workload.
var manyBehaviours = []behaviour{
	{"more creates at once than the pool has sandboxes each get their own, or fail cleanly", burst},
	{"the longest name of a workload makes legal names, each another", bothWays(longestName)},
}

func burst(t *testing.T, e *env) {
	const pool, callers = 3, 20
	e.apply(t, interpreterTemplate("echo", pool))
	e.pool(t, "echo")
	creates := make([]*pending, callers)
	for i := range creates {
		creates[i] = e.begin(t, warm, "echo")
	}
	pods := map[string]string{} // by session
	for _, p := range creates {
		a := p.wait(t)
		if a.status != http.StatusOK {
			fails(t, a, http.StatusGatewayTimeout, api.CodeCreateTimeout)
			t.Logf("one create failed: %s", a)
			continue
		}
		var s api.CreateResponse
		a.decode(t, &s)
		pods[s.SessionID] = e.echoes(t, codeInterpreter, "echo", s.SessionID).UID
	}
	assert.GreaterOrEqual(t, len(pods), pool, "those for which there is a sandbox")
	sessions := map[string]string{}
	for id, pod := range pods {
		assert.NotContains(t, sessions, pod, "two sessions share a pod")
		sessions[pod] = id
	}
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		assert.Len(c, e.rows(t), len(pods), "what failed left a row")
		assert.Len(c, e.objects(t), len(pods), "what failed left an object")
	}, settle, probeInterval)
	for id := range pods {
		a := e.delete(t, id)
		assert.Equal(t, http.StatusOK, a.status, a)
	}
	e.clean(t)
}

func longestName(t *testing.T, e *env, w way) {
	name := "a" + strings.Repeat("-long", 12) + "er"
	require.Len(t, name, validation.DNS1123LabelMaxLength)
	w.prepare(t, e, name)
	names := map[string]bool{}
	for range 3 {
		s := e.create(t, w.route, name)
		assert.Empty(t, validation.IsDNS1123Label(s.SandboxName), s.SandboxName)
		assert.False(t, names[s.SandboxName], "%s twice", s.SandboxName)
		names[s.SandboxName] = true
		e.echoes(t, w.route, name, s.SessionID)
	}
	for _, object := range e.objects(t) {
		assert.True(t, names[object.GetName()], object.GetName())
		a := e.delete(t, sessionID(&object))
		assert.Equal(t, http.StatusOK, a.status, a)
	}
	e.clean(t)
}
