package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/agentcube/agentcube/pkg/api"
	"github.com/agentcube/agentcube/pkg/sandbox"
	"github.com/agentcube/agentcube/pkg/session"
)

// collectBehaviours are about the end of sessions that nobody uses.
var collectBehaviours = []behaviour{
	{"the idle timeout of each kind of workload decides when its sessions end", idleTimeouts},
	{"of two replicas that collect at once each session is ended by one, without an error", collectedByTwo},
}

// The indexes that the collector goes by.
const (
	lastActivity = "session:last_activity"
	due          = "agentcube:due"
)

// withTimeout is a template with an idle timeout.
func withTimeout(template, timeout string) string {
	return strings.Replace(template, "\nspec:\n", "\nspec:\n  sessionTimeout: "+timeout+"\n", 1)
}

// score of a session in an index, which it must have.
func (e *env) score(t *testing.T, key, id string) time.Time {
	t.Helper()
	score, err := e.redis.ZScore(t.Context(), key, id).Result()
	require.NoError(t, err, "%s has no entry for %s", key, id)
	return time.Unix(int64(score), 0)
}

// lastUsed makes the sessions ones whose last activity is so long ago, and has
// the collector look at them, all at the same moment.
func (e *env) lastUsed(t *testing.T, ago time.Duration, ids ...string) {
	t.Helper()
	now := time.Now()
	_, err := e.redis.TxPipelined(t.Context(), func(p redis.Pipeliner) error {
		for _, id := range ids {
			p.ZAddXX(t.Context(), lastActivity, redis.Z{Score: float64(now.Add(-ago).Unix()), Member: id})
			p.ZAddXX(t.Context(), due, redis.Z{Score: float64(now.Unix()), Member: id})
		}
		return nil
	})
	require.NoError(t, err)
}

func idleTimeouts(t *testing.T, e *env) {
	const short, long, idle = 5 * time.Minute, 2 * time.Hour, 6 * time.Minute
	made := map[time.Duration][]api.CreateResponse{}
	for _, timeout := range []time.Duration{short, long} {
		for _, w := range []struct {
			route, kind, name string
			template          func(name string) string
		}{
			{agentRuntime, "Sandbox", "runtime", func(name string) string { return runtimeTemplate(name) }},
			{codeInterpreter, "Sandbox", "cold", func(name string) string { return interpreterTemplate(name, 0) }},
			{codeInterpreter, "SandboxClaim", "warm", func(name string) string { return interpreterTemplate(name, 1) }},
		} {
			name := fmt.Sprintf("%s-%.0fm", w.name, timeout.Minutes())
			e.apply(t, withTimeout(w.template(name), timeout.String()))
			s := e.create(t, w.route, name)
			require.Equal(t, w.kind, s.Kind)
			e.carriesTimeout(t, s, timeout)
			made[timeout] = append(made[timeout], s)
		}
	}
	var all []string
	for _, s := range append(made[short], made[long]...) {
		all = append(all, s.SessionID)
	}
	e.lastUsed(t, idle, all...)
	for _, s := range made[short] {
		e.gone(t, s.SessionID)
		e.objectGone(t, s.SandboxName)
	}
	for _, s := range made[long] {
		require.EventuallyWithT(t, func(c *assert.CollectT) {
			assert.Equal(c, e.score(t, lastActivity, s.SessionID).Add(long+session.IdleGrace), e.score(t, due, s.SessionID))
		}, settle, pollInterval, "the collector has not put it back")
		row, ok := e.row(t, s.SessionID)
		require.True(t, ok)
		assert.Equal(t, "ready", row["status"])
	}
	assert.Len(t, e.objects(t), len(made[long]))
}

// carriesTimeout wants answer, row, object and index to say the same.
func (e *env) carriesTimeout(t *testing.T, s api.CreateResponse, timeout time.Duration) {
	t.Helper()
	assert.Equal(t, int64(timeout/time.Second), s.IdleTimeout)
	row, ok := e.row(t, s.SessionID)
	require.True(t, ok)
	assert.Equal(t, timeout.String(), row["idleTimeout"])
	resource := e.api.Sandboxes()
	if s.Kind == warm.kind {
		resource = e.api.Claims()
	}
	object, err := e.client.Resource(resource).Namespace(e.namespace).Get(t.Context(), s.SandboxName, metav1.GetOptions{})
	require.NoError(t, err)
	assert.Equal(t, timeout.String(), object.GetAnnotations()[sandbox.AnnotationIdle])
	// Deadlines are rounded up to a second and activity down.
	deadline := e.score(t, lastActivity, s.SessionID).Add(timeout + session.IdleGrace)
	assert.InDelta(t, deadline.Unix(), e.score(t, due, s.SessionID).Unix(), 1)
}

// collectedByTwo has two collectors on one store: each has the lease of a
// namespace of its own. The first deletions wait until both have begun.
func collectedByTwo(t *testing.T, e *env) {
	const sessions = 24 // more than one of them ends at a time
	first := e.site(t)
	second := newEnv(t, e.System).siteOn(t, first.Redis)
	for _, s := range []*site{first, second} {
		s.addManager(t, "--collect-interval=50ms", "--outage-pause=0s", "--cluster-timeout=20s", "--undo-timeout=20s")
	}
	ids := first.createMany(t, sessions)
	gate, begun := first.gate(t, first.api.Sandboxes(), "DELETE"), make(chan struct{})
	letPass := sync.OnceFunc(func() { close(begun) })
	t.Cleanup(letPass)
	gate.set(held(begun))
	first.lastUsed(t, time.Hour, ids...) // the timeout is a quarter of it

	const ending = "ending session"
	require.Eventually(t, func() bool {
		return len(logged(t, first.Manager(), ending)) > 0 && len(logged(t, second.Manager(), ending)) > 0
	}, settle, pollInterval, "only one of them collects")
	letPass()
	for _, id := range ids {
		first.gone(t, id)
		ended := len(loggedFor(t, first.Manager(), ending, id)) + len(loggedFor(t, second.Manager(), ending, id))
		assert.Equal(t, 1, ended, "times that session %s was ended", id)
	}
	first.clean(t)
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		assert.InDelta(c, sessions, collectedSum(t, first, "ended")+collectedSum(t, second, "ended"), 0)
	}, settle, pollInterval, "the passes do not agree with what there was to end")
	for _, s := range []*site{first, second} {
		assert.Zero(t, collectedSum(t, s, "failed"))
		for _, record := range logged(t, s.Manager(), "") {
			assert.NotEqual(t, "error", record["level"], record)
		}
	}
}

// collectedSum adds up what the passes of a site's collector say they did.
func collectedSum(t *testing.T, s *site, what string) (sum float64) {
	t.Helper()
	for _, record := range logged(t, s.Manager(), "collected") {
		n, ok := record[what].(float64)
		require.True(t, ok, record)
		sum += n
	}
	return sum
}

// createMany makes sessions of a new AgentRuntime, a few at a time.
func (e *env) createMany(t *testing.T, n int) []string {
	t.Helper()
	const atATime = 8
	e.apply(t, runtimeTemplate("echo"))
	var ids []string
	for len(ids) < n {
		var creates []*pending
		for range min(atATime, n-len(ids)) {
			creates = append(creates, e.begin(t, cold, "echo"))
		}
		for _, p := range creates {
			a := p.wait(t)
			require.Equal(t, http.StatusOK, a.status, a)
			var s api.CreateResponse
			a.decode(t, &s)
			ids = append(ids, s.SessionID)
		}
	}
	return ids
}

// clockAhead is a router whose clock is an hour ahead: it writes what such a
// one writes, in the way in which routers write it.
func clockAhead(t *testing.T, e *env) {
	const timeout, ahead = 3 * time.Second, time.Hour
	e.apply(t, withTimeout(runtimeTemplate("echo"), timeout.String()))
	id := e.create(t, agentRuntime, "echo").SessionID
	require.NoError(t, e.redis.ZAddArgs(t.Context(), lastActivity, redis.ZAddArgs{
		XX: true, GT: true, Members: []redis.Z{{Score: float64(time.Now().Add(ahead).Unix()), Member: id}},
	}).Err())
	require.Greater(t, time.Until(e.score(t, lastActivity, id)), ahead/2)
	looked := e.score(t, due, id) // when its timeout is over, as others count it
	// What was written counts as the moment of the first look.
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		_, there := e.row(t, id)
		require.True(t, there, "it was used, whenever that was")
		last := e.score(t, lastActivity, id)
		require.Less(c, time.Until(last), ahead/2)
		assert.GreaterOrEqual(c, last, looked)
		assert.InDelta(c, last.Add(timeout+session.IdleGrace).Unix(), e.score(t, due, id).Unix(), 0)
	}, settle, pollInterval)
	e.gone(t, id)
	e.clean(t)
}
