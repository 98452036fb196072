package e2e

import (
	"context"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/agentcube/agentcube/pkg/api"
	"github.com/agentcube/agentcube/test/cluster/node"
)

// retryBehaviours are about creates that are sent again, or not waited for.
var retryBehaviours = []behaviour{
	{"fifty equal creates with one Idempotency-Key, over two replicas, make one session", bothWays(fiftyEqualCreates)},
	{"a caller that hangs up during a create with an Idempotency-Key finds its session by the same create", bothWays(hangsUpWithAKey)},
	{"a create that failed, or whose session has ended, is told apart by its Idempotency-Key", keyAfterwards},
	{"a create that is not waited for is answered before its session is ready", bothWays(notWaitedFor)},
	{"a create that is not waited for and fails leaves nothing but the reason", bothWays(failsLater)},
}

// slowRetryBehaviours are those of them that mostly wait.
var slowRetryBehaviours = []behaviour{
	{"a creator that is killed loses its Idempotency-Key to the same create on another replica, and nothing is left of it", creatorKilledWithAKey},
}

// again creates with an Idempotency-Key at one workload-manager.
func (e *env) again(t *testing.T, url string, w way, name, key string, more ...string) answer {
	t.Helper()
	return mustSend(t, http.MethodPost, url+w.route, headers(append([]string{api.HeaderIdempotencyKey, key}, more...)...), e.order(name))
}

// created is the session of a create that worked.
func created(t *testing.T, a answer) api.CreateResponse {
	t.Helper()
	require.Equal(t, http.StatusOK, a.status, a)
	var s api.CreateResponse
	a.decode(t, &s)
	return s
}

func fiftyEqualCreates(t *testing.T, e *env, w way) {
	w.prepare(t, e, "echo")
	another := e.start(t, launch{name: "workload-manager", args: managerArgs})
	serving(t, another.url)
	urls := []string{e.Manager().URL, another.url}
	answers := make([]answer, 50)
	failures := make([]error, len(answers))
	var all sync.WaitGroup
	for i := range answers {
		all.Go(func() {
			answers[i], failures[i] = send(t.Context(), http.MethodPost, urls[i%2]+w.route,
				headers(api.HeaderIdempotencyKey, e.namespace), e.order("echo"))
		})
	}
	all.Wait()
	for i, a := range answers {
		require.NoError(t, failures[i])
		assert.Equal(t, http.StatusOK, a.status, a)
		assert.Equal(t, answers[0].body, a.body)
	}
	s := created(t, answers[0])
	require.Len(t, e.objects(t), 1)
	require.Len(t, e.rows(t), 1)
	assert.Equal(t, s.SessionID, sessionID(&e.objects(t)[0]))
	e.echoes(t, w.route, "echo", s.SessionID)
	endsBy(t, another.url, s.SessionID)
	e.gone(t, s.SessionID)
	e.clean(t)
}

// hangsUpWithAKey keeps the object from being made until the caller is gone.
func hangsUpWithAKey(t *testing.T, e *env, w way) {
	w.prepare(t, e, "echo")
	gate, release := e.gate(t, w.objects(e)), make(chan struct{})
	letPass := sync.OnceFunc(func() { close(release) })
	t.Cleanup(letPass)
	creations := make(chan *unstructured.Unstructured, 100)
	gate.set(seen(creations, held(release)))
	ctx, hangUp := context.WithCancel(t.Context())
	over := make(chan error, 1)
	go func() {
		_, err := send(ctx, http.MethodPost, e.Manager().URL+w.route, headers(api.HeaderIdempotencyKey, e.namespace), e.order("echo"))
		over <- err
	}()
	id := sessionID(next(t, creations))
	hangUp()
	require.ErrorIs(t, <-over, context.Canceled)
	letPass()
	s := created(t, e.again(t, e.Manager().URL, w, "echo", e.namespace))
	assert.Equal(t, id, s.SessionID)
	assert.Len(t, e.objects(t), 1)
	e.echoes(t, w.route, "echo", s.SessionID)
	endsBy(t, e.Manager().URL, id)
	e.clean(t)
}

func keyAfterwards(t *testing.T, e *env) {
	cold.prepare(t, e, "echo")
	url := e.Manager().URL
	gate := e.gate(t, cold.objects(e))
	gate.set(refuse(http.StatusForbidden, "not today"))
	fails(t, e.again(t, url, cold, "echo", e.namespace), http.StatusUnprocessableEntity, api.CodeRejectedByCluster)
	e.clean(t)
	gate.set(allow)
	s := created(t, e.again(t, url, cold, "echo", e.namespace))
	assert.Equal(t, s, created(t, e.again(t, url, cold, "echo", e.namespace)))
	fails(t, e.again(t, url, cold, "other", e.namespace), http.StatusUnprocessableEntity, api.CodeIdempotencyKeyReused)
	endsBy(t, url, s.SessionID)
	e.gone(t, s.SessionID)
	fails(t, e.again(t, url, cold, "echo", e.namespace), http.StatusConflict, api.CodeSessionEnded)
	e.clean(t)
}

func notWaitedFor(t *testing.T, e *env, w way) {
	w.prepare(t, e, "echo")
	gate, release := e.gate(t, w.objects(e)), make(chan struct{})
	letPass := sync.OnceFunc(func() { close(release) })
	t.Cleanup(letPass)
	gate.set(held(release))
	a := e.again(t, e.Manager().URL, w, "echo", e.namespace, api.HeaderPrefer, api.PreferAsync)
	require.Equal(t, http.StatusAccepted, a.status, a)
	var s api.CreateResponse
	a.decode(t, &s)
	assert.Equal(t, "creating", s.State)
	assert.Equal(t, "/v1/sessions/"+s.SessionID, a.header.Get("Location"))
	assert.Equal(t, "creating", e.reads(t, s.SessionID).State)
	waits := make(chan answer, 1)
	go func() {
		ready, err := send(t.Context(), http.MethodGet, e.Manager().URL+a.header.Get("Location")+"?wait=30s&from=creating", nil, "")
		assert.NoError(t, err)
		waits <- ready
	}()
	letPass()
	var read api.Session
	(<-waits).decode(t, &read)
	assert.Equal(t, "ready", read.State)
	// The same create, but waited for.
	ready := created(t, e.again(t, e.Manager().URL, w, "echo", e.namespace))
	assert.Equal(t, s.SessionID, ready.SessionID)
	assert.Equal(t, "ready", ready.State)
	e.echoes(t, w.route, "echo", s.SessionID)
	endsBy(t, e.Manager().URL, s.SessionID)
	e.clean(t)
}

// failsLater: what goes wrong after the answer is found where the answer points.
func failsLater(t *testing.T, e *env, w way) {
	w.prepare(t, e, "echo")
	e.gate(t, w.objects(e)).set(refuse(http.StatusForbidden, "not today"))
	a := mustSend(t, http.MethodPost, e.Manager().URL+w.route, headers(api.HeaderPrefer, api.PreferAsync), e.order("echo"))
	require.Equal(t, http.StatusAccepted, a.status, a)
	var told struct{ Code, Reason string }
	require.Eventually(t, func() bool {
		read := e.manager(t, http.MethodGet, a.header.Get("Location"), "")
		read.decode(t, &told)
		return read.status == http.StatusNotFound
	}, settle, pollInterval)
	assert.Equal(t, api.CodeSessionNotFound, told.Code)
	assert.Equal(t, "failed", told.Reason)
	e.clean(t)
}

// creatorKilledWithAKey kills the creator while it waits for its sandbox, and
// the template is mended before the create is sent again.
func creatorKilledWithAKey(t *testing.T, e *env) {
	s := e.site(t)
	const bound = "--create-timeout=60s" // longer than a dead creator is taken for alive
	s.addManager(t, bound)
	s.addManager(t, bound)
	cold.prepare(t, s.env, "echo", node.NeverReady, "true")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	first := s.Managers[0]
	go func() {
		_, _ = send(ctx, http.MethodPost, first.URL+cold.route, headers(api.HeaderIdempotencyKey, "k"), s.order("echo"))
	}()
	lost := sessionID(s.waiting(t, cold))
	require.NoError(t, first.Kill())
	killed := time.Now()
	cold.prepare(t, s.env, "echo", node.NeverReady, "false")
	taken := created(t, s.again(t, s.Managers[1].URL, cold, "echo", "k"))
	t.Logf("taken over %s after the kill", time.Since(killed).Round(time.Second))
	assert.NotEqual(t, lost, taken.SessionID)
	assert.Equal(t, taken, created(t, s.again(t, s.Managers[1].URL, cold, "echo", "k")))
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		assert.Len(c, s.rows(t), 1, "rows")
		assert.Len(c, s.objects(t), 1, "objects")
		assert.Empty(c, s.indexed(t, lost), "index entries")
	}, crashBound-time.Since(killed), pollInterval)
	assert.Equal(t, taken.SessionID, sessionID(&s.objects(t)[0]))
	endsBy(t, s.Managers[1].URL, taken.SessionID)
	s.clean(t)
}
