package e2e

import (
	"fmt"
	"math"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/agentcube/agentcube/pkg/api"
	"github.com/agentcube/agentcube/pkg/sandbox"
)

// sessionBehaviours are about a session that is known by its id.
var sessionBehaviours = []behaviour{
	{"a session that is read shows its row, its object and its lifetimes", bothWays(readSession)},
	{"a life is extended within the template's, and shortened, on both sides", bothWays(patchLife)},
	{"changes of different lifetimes at once both hold", bothWays(patchTogether)},
	{"a session that is kept alive is not idle", keepAlive},
	{"a read that waits is answered when the session ends, with the reason", bothWays(waitForEnd)},
	{"a read that waits is answered when another program changes the row", waitForAnother},
	{"a session that ended is told with why, by both programs", endReasons},
}

func ofSession(id string) string { return "/v1/sessions/" + id }

// reads wants the session to be there.
func (e *env) reads(t *testing.T, id string) api.Session {
	t.Helper()
	a := e.manager(t, http.MethodGet, ofSession(id), "")
	require.Equal(t, http.StatusOK, a.status, a)
	var s api.Session
	a.decode(t, &s)
	return s
}

// patches wants a change of lifetimes to work.
func (e *env) patches(t *testing.T, id, body string) api.Session {
	t.Helper()
	a := e.manager(t, http.MethodPatch, ofSession(id), body)
	require.Equal(t, http.StatusOK, a.status, a)
	var s api.Session
	a.decode(t, &s)
	return s
}

func readSession(t *testing.T, e *env, w way) {
	w.prepare(t, e, "echo")
	made := e.creates(t, w.route, `{"namespace":"NAMESPACE","name":"echo","ttl":600,"idleTimeout":60,"metadata":{"for":["a","b"]}}`)
	s := e.reads(t, made.SessionID)
	assert.Equal(t, made.SessionID, s.SessionID)
	assert.Equal(t, "ready", s.State)
	assert.Empty(t, s.Reason+s.Message)
	assert.Equal(t, "echo", s.Workload.Name)
	assert.Equal(t, e.namespace, s.Workload.Namespace)
	object, err := e.client.Resource(w.objects(e)).Namespace(e.namespace).Get(t.Context(), made.SandboxName, metav1.GetOptions{})
	require.NoError(t, err)
	assert.Equal(t, api.ObjectRef{Kind: w.kind, Namespace: e.namespace, Name: made.SandboxName, UID: string(object.GetUID())}, s.Object)
	assert.Equal(t, made.SandboxID, s.Sandbox.UID)
	assert.NotEmpty(t, s.Sandbox.Name)
	assert.Equal(t, made.EntryPoints, s.EntryPoints)
	assert.JSONEq(t, `{"for":["a","b"]}`, string(s.Metadata))
	assert.Equal(t, 10*time.Minute, s.ExpiresAt.Sub(s.CreatedAt))
	assert.Equal(t, int64(60), s.IdleTimeout)
	assert.Equal(t, s.LastActivityAt.Add(65*time.Second), s.IdleDeadline)
	assert.Equal(t, int64(1), s.Generation)
}

// agrees wants row, index and object to say what the session shows.
func (e *env) agrees(t *testing.T, made api.CreateResponse, s api.Session) {
	t.Helper()
	row, ok := e.row(t, made.SessionID)
	require.True(t, ok)
	assert.NotContains(t, row, "pending")
	expires := timeOf(t, row, "expiresAt")
	assert.True(t, expires.Equal(s.ExpiresAt), "the answer says %s, the row %s", s.ExpiresAt, expires)
	whole := time.Unix(int64(math.Ceil(float64(expires.UnixMilli())/1000)), 0)
	assert.Equal(t, whole, e.score(t, "session:expiry", made.SessionID))
	assert.Equal(t, whole.UTC().Format(time.RFC3339), e.shutdownTime(t, made))
	idle := (time.Duration(s.IdleTimeout) * time.Second).String()
	assert.Equal(t, idle, row["idleTimeout"])
	resource := e.api.Sandboxes()
	if made.Kind == warm.kind {
		resource = e.api.Claims()
	}
	object, err := e.client.Resource(resource).Namespace(e.namespace).Get(t.Context(), made.SandboxName, metav1.GetOptions{})
	require.NoError(t, err)
	assert.Equal(t, idle, object.GetAnnotations()[sandbox.AnnotationIdle])
}

func patchLife(t *testing.T, e *env, w way) {
	w.prepare(t, e, "echo") // its maximum is the default of 8 h
	made := e.creates(t, w.route, `{"namespace":"NAMESPACE","name":"echo","ttl":600}`)
	created := e.reads(t, made.SessionID)
	for ttl, most := range map[int]bool{3600: false, 60: false, 7200: false, 90_000: true} {
		before := time.Now()
		s := e.patches(t, made.SessionID, fmt.Sprintf(`{"ttl":%d}`, ttl))
		if most {
			assert.Equal(t, 8*time.Hour, s.ExpiresAt.Sub(s.CreatedAt))
		} else {
			assert.WithinRange(t, s.ExpiresAt, before.Add(time.Duration(ttl)*time.Second-time.Second), time.Now().Add(time.Duration(ttl)*time.Second+time.Second))
		}
		assert.Equal(t, created.IdleTimeout, s.IdleTimeout)
		e.agrees(t, made, s)
	}
	s := e.patches(t, made.SessionID, `{"idleTimeout":7}`)
	assert.Equal(t, int64(7), s.IdleTimeout)
	e.agrees(t, made, s)
	for _, body := range []string{"", "{}", `{"ttl":0}`, `{"ttl":1.5}`, `{"idleTimeout":"60"}`} {
		managerRefuses(t, e.manager(t, http.MethodPatch, ofSession(made.SessionID), body), http.StatusBadRequest, api.CodeInvalidRequest)
	}
	e.agrees(t, made, s)
	e.echoes(t, w.route, "echo", made.SessionID)
}

func patchTogether(t *testing.T, e *env, w way) {
	w.prepare(t, e, "echo")
	made := e.creates(t, w.route, `{"namespace":"NAMESPACE","name":"echo","ttl":600}`)
	for round := range 5 {
		life, idle := 3600*(round%2+1)+round, 1000+round
		var both sync.WaitGroup
		both.Go(func() { e.manager(t, http.MethodPatch, ofSession(made.SessionID), fmt.Sprintf(`{"ttl":%d}`, life)) })
		both.Go(func() {
			e.manager(t, http.MethodPatch, ofSession(made.SessionID), fmt.Sprintf(`{"idleTimeout":%d}`, idle))
		})
		both.Wait()
		s := e.reads(t, made.SessionID)
		assert.Equal(t, int64(idle), s.IdleTimeout)
		assert.WithinDuration(t, time.Now().Add(time.Duration(life)*time.Second), s.ExpiresAt, settle)
		e.agrees(t, made, s)
	}
}

func keepAlive(t *testing.T, e *env) {
	e.apply(t, runtimeTemplate("echo"))
	kept, left := e.create(t, agentRuntime, "echo"), e.create(t, agentRuntime, "echo")
	e.lastUsed(t, 14*time.Minute, kept.SessionID, left.SessionID)
	a := e.manager(t, http.MethodPost, ofSession(kept.SessionID)+"/keepalive", "")
	require.Equal(t, http.StatusNoContent, a.status, a)
	assert.Empty(t, a.body)
	assert.WithinDuration(t, time.Now(), e.reads(t, kept.SessionID).LastActivityAt, settle)
	for _, s := range []api.CreateResponse{kept, left} {
		e.patches(t, s.SessionID, `{"idleTimeout":60}`)
	}
	e.gone(t, left.SessionID)
	e.echoes(t, agentRuntime, "echo", kept.SessionID)
	a = e.manager(t, http.MethodPost, ofSession(left.SessionID)+"/keepalive", "")
	assert.Equal(t, "idle", managerRefuses(t, a, http.StatusNotFound, api.CodeSessionNotFound).Reason)
}

func waitForEnd(t *testing.T, e *env, w way) {
	m := w.make(t, e)
	answered := make(chan answer, 1)
	go func() {
		a, _ := send(t.Context(), http.MethodGet, e.Manager().URL+ofSession(m.id)+"?wait=2m", nil, "")
		answered <- a
	}()
	require.NoError(t, e.client.Resource(w.objects(e)).Namespace(e.namespace).Delete(t.Context(), m.object, metav1.DeleteOptions{}))
	select {
	case a := <-answered:
		told := managerRefuses(t, a, http.StatusNotFound, api.CodeSessionNotFound)
		assert.Equal(t, "deleted_in_cluster", told.Reason)
	case <-time.After(settle):
		t.Error("it waits on")
	}
}

func waitForAnother(t *testing.T, e *env) {
	e.apply(t, runtimeTemplate("echo"))
	s := e.create(t, agentRuntime, "echo")
	key := "session:" + s.SessionID
	row, err := e.redis.Get(t.Context(), key).Result()
	require.NoError(t, err)
	answered := make(chan answer, 1)
	go func() {
		a, _ := send(t.Context(), http.MethodGet, e.Manager().URL+ofSession(s.SessionID)+"?wait=2m&from=ready", nil, "")
		answered <- a
	}()
	changed := strings.Replace(row, `"status":"ready"`, `"status":"not-ready"`, 1)
	require.NotEqual(t, row, changed)
	require.NoError(t, e.redis.Set(t.Context(), key, changed, 0).Err())
	select {
	case a := <-answered:
		require.Equal(t, http.StatusOK, a.status, a)
		var seen api.Session
		a.decode(t, &seen)
		assert.Equal(t, "not-ready", seen.State)
	case <-time.After(settle):
		t.Error("it waits on")
	}
}

func endReasons(t *testing.T, e *env) {
	e.apply(t, runtimeTemplate("echo"))
	ends := map[string]func(s api.CreateResponse){
		"deleted": func(s api.CreateResponse) {
			assert.Equal(t, http.StatusOK, e.manager(t, http.MethodDelete, ofSession(s.SessionID), "").status)
		},
		"idle": func(s api.CreateResponse) { e.lastUsed(t, time.Hour, s.SessionID) },
		"expired": func(s api.CreateResponse) {
			e.patches(t, s.SessionID, `{"ttl":1}`)
		},
		"deleted_in_cluster": func(s api.CreateResponse) {
			require.NoError(t, e.client.Resource(e.api.Sandboxes()).Namespace(e.namespace).
				Delete(t.Context(), s.SandboxName, metav1.DeleteOptions{}))
		},
		"failed": func(s api.CreateResponse) {
			require.NoError(t, e.Cluster.Node.Fail(t.Context(), e.namespace, s.SandboxName, "out of memory"))
		},
	}
	made := map[string]api.CreateResponse{}
	for reason, end := range ends {
		made[reason] = e.create(t, agentRuntime, "echo")
		end(made[reason])
	}
	for reason, s := range made {
		e.gone(t, s.SessionID)
		a := e.manager(t, http.MethodGet, ofSession(s.SessionID), "")
		assert.Equal(t, reason, managerRefuses(t, a, http.StatusNotFound, api.CodeSessionNotFound).Reason)
		a = e.invoke(t, agentRuntime, "echo", s.SessionID, "/x")
		assert.Equal(t, reason, routerRefuses(t, a, http.StatusNotFound, api.CodeSessionNotFound).Reason)
	}
}
