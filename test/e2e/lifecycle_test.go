package e2e

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/agentcube/agentcube/pkg/workload"
)

// lifecycleBehaviours are about the two ends of a session's life, and about
// what is left when one of them goes wrong.
var lifecycleBehaviours = slices.Concat(refusalBehaviours, waitBehaviours, deleteBehaviours, manyBehaviours,
	hangUpBehaviours, awayBehaviours, watchBehaviours)

// slowLifecycleBehaviours are those of them that mostly wait.
var slowLifecycleBehaviours = []behaviour{
	{"a creator that is killed leaves nothing within a minute, whether another lives or it comes back", creatorKilled},
	{"a watch that is frozen without being closed is made anew within 90 s", watchFrozen},
	{"a watch that is muted while its connection answers is made anew within 90 s", watchMuted},
}

// lifecycleAlone are those of them that take a part of the system away.
var lifecycleAlone = slices.Concat(storeBehaviours, controllerBehaviours)

// createBound is the manager's bound on a create; see start.
const createBound = 20 * time.Second

// way is one of the two ways a session is made.
type way struct {
	route, kind string
	// template is a workload that makes sessions this way.
	template func(name string, annotations ...string) string
}

// cold makes a Sandbox, warm a SandboxClaim on a pool.
var (
	cold = way{agentRuntime, "Sandbox", runtimeTemplate}
	warm = way{codeInterpreter, "SandboxClaim", func(name string, annotations ...string) string {
		return interpreterTemplate(name, 1, annotations...)
	}}
	ways = []way{cold, warm}
)

// objects of the way's kind.
func (w way) objects(e *env) schema.GroupVersionResource {
	if w.kind == cold.kind {
		return e.api.Sandboxes()
	}
	return e.api.Claims()
}

// prepare applies the workload, and waits for its pool if it has one.
func (w way) prepare(t *testing.T, e *env, name string, annotations ...string) {
	t.Helper()
	e.apply(t, w.template(name, annotations...))
	if w.kind == warm.kind {
		e.pool(t, name)
	}
}

// pool waits until the pool of a CodeInterpreter is made, full or not.
func (e *env) pool(t *testing.T, name string) {
	t.Helper()
	made := []string{workload.ReasonWarmPoolFull, workload.ReasonWarmPoolFilling, workload.ReasonWarmPoolEmpty}
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		u, err := e.client.Resource(interpreters).Namespace(e.namespace).Get(t.Context(), name, metav1.GetOptions{})
		require.NoError(c, err)
		assert.Contains(c, made, conditionOf(u, workload.ConditionWarmPoolReady)["reason"], "status: %v", u.Object["status"])
	}, settle, probeInterval)
}

// bothWays runs a test for a Sandbox and for a SandboxClaim, each in a
// namespace of its own.
func bothWays(test func(*testing.T, *env, way)) func(*testing.T, *env) {
	return func(t *testing.T, e *env) {
		for _, w := range ways {
			t.Run(w.kind, func(t *testing.T) { test(t, newEnv(t, e.System), w) })
		}
	}
}
