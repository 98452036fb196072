package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/agentcube/agentcube/test/cluster/node"
)

// storedRow is a recorded row with its scores; a score that was not recorded
// is nil.
type storedRow struct {
	Name, Key, Value string
	Expiry           *float64 `json:"expiry,string"`
	LastActivity     *float64 `json:"last_activity,string"`
}

// The names of the recorded rows.
const (
	rowPlaceholder = "placeholder of a direct Sandbox"
	rowDirect      = "ready, direct Sandbox"
	rowClaim       = "ready, SandboxClaim"
)

// moved is what a recorded row stands for in this cluster, now.
type moved struct {
	id, object, sandboxUID, endpoint string
	// age of the session.
	age time.Duration
	// active is the age of its last activity.
	active time.Duration
	// extra is put at the end of the row's JSON.
	extra string
}

func recordedRow(t *testing.T, name string) storedRow {
	t.Helper()
	var rows []storedRow
	recorded(t, "rows.json", &rows)
	for _, r := range rows {
		if r.Name == name {
			return r
		}
	}
	require.Fail(t, "not recorded", name)
	return storedRow{}
}

// load stores a recorded row as it is, but for what names another cluster and
// another day, and with the index entries that were recorded, no others.
func (e *env) load(t *testing.T, name string, m moved) {
	t.Helper()
	r := recordedRow(t, name)
	var was existingRow
	require.NoError(t, json.Unmarshal([]byte(r.Value), &was))
	later := time.Since(was.CreatedAt).Truncate(time.Second) - m.age
	text := r.Value
	put := func(field, was, is string) {
		t.Helper()
		old := fmt.Sprintf("%q:%q", field, was)
		require.Equal(t, 1, strings.Count(text, old), "%s of %s", field, name)
		text = strings.Replace(text, old, fmt.Sprintf("%q:%q", field, is), 1)
	}
	put("sandboxId", was.SandboxID, m.sandboxUID)
	put("sandboxNamespace", "default", e.namespace)
	put("name", was.Name, m.object)
	put("sessionId", was.SessionID, m.id)
	put("createdAt", was.CreatedAt.Format(time.RFC3339Nano), was.CreatedAt.Add(later).Format(time.RFC3339Nano))
	put("expiresAt", was.ExpiresAt.Format(time.RFC3339Nano), was.ExpiresAt.Add(later).Format(time.RFC3339Nano))
	for _, point := range was.EntryPoints {
		put("endpoint", point.Endpoint, m.endpoint)
	}
	if m.extra != "" {
		text = strings.TrimSuffix(text, "}") + "," + m.extra + "}"
	}
	require.NoError(t, e.redis.Set(t.Context(), "session:"+m.id, text, 0).Err())
	if r.Expiry != nil {
		score := *r.Expiry + later.Seconds()
		require.NoError(t, e.redis.ZAdd(t.Context(), "session:expiry", redis.Z{Score: score, Member: m.id}).Err())
	}
	if r.LastActivity != nil {
		score := float64(time.Now().Add(-m.active).Unix())
		require.NoError(t, e.redis.ZAdd(t.Context(), "session:last_activity", redis.Z{Score: score, Member: m.id}).Err())
	}
}

// recordedRows is a roll-out: the workload-manager of the existing
// installation is gone, its sessions are there, and ours starts.
func recordedRows(t *testing.T, e *env) {
	e.apply(t, interpreterTemplate("warm", 2))
	e.poolReady(t, "warm", 2)
	require.NoError(t, e.Manager().Stop())
	t.Cleanup(func() {
		if e.Manager().PID() == 0 {
			assert.NoError(t, e.Manager().Start(t.Context()))
		}
	})
	served, idle, expired := e.existingSandbox(t, "echo-aaaaaaa1"), e.existingSandbox(t, "echo-aaaaaaa2"), e.existingSandbox(t, "echo-aaaaaaa3")
	unborn, halfBorn := moved{id: uuid.NewString(), object: "echo-aaaaaaa4"}, e.existingSandbox(t, "echo-aaaaaaa5")
	claimed := e.existingClaim(t, "warm-aaaaaaa6")

	e.load(t, rowDirect, served)
	claimed.extra = `"future":{"b": [1.0, 9007199254740993], "a": []}`
	e.load(t, rowClaim, claimed)
	idle.age, idle.active = time.Hour, 16*time.Minute // its timeout is 15 minutes
	e.load(t, rowDirect, idle)
	expired.age = 8*time.Hour + time.Minute // its life is 8 hours
	e.load(t, rowDirect, expired)
	// Nobody records who creates; after the create bound nobody does.
	unborn.age, halfBorn.age, halfBorn.sandboxUID = 10*time.Minute, 10*time.Minute, ""
	e.load(t, rowPlaceholder, unborn)
	e.load(t, rowPlaceholder, halfBorn)
	require.NoError(t, e.Manager().Start(t.Context()))

	for _, m := range []moved{served, claimed} {
		e.servedAsRecorded(t, m)
		require.EventuallyWithT(t, func(c *assert.CollectT) {
			assert.Contains(c, e.list(t.Context(), c, "&state=ready"), m.id)
		}, settle, pollInterval)
	}
	e.rewritten(t, claimed)
	e.followsPod(t, served)
	// What is over is not served, although it takes a while to collect.
	for _, m := range []moved{expired, unborn, halfBorn} {
		e.notFound(t, agentRuntime, "echo", m.id)
	}
	for what, m := range map[string]moved{"idle": idle, "expired": expired, "placeholder with an object": halfBorn} {
		t.Log("collected:", what)
		e.collected(t, m)
		e.objectGone(t, m.object)
	}
	e.collected(t, unborn)
	for _, m := range []moved{served, claimed} {
		require.Equal(t, http.StatusOK, e.delete(t, m.id).status)
		e.gone(t, m.id)
		e.objectGone(t, m.object)
	}
	e.nothingLeft(t)
}

// collected waits for the session to go. A collector that has just started
// takes nobody for idle for half a minute, and a placeholder without an object
// stays until the API server cannot apply its creator's call any more.
func (e *env) collected(t *testing.T, m moved) {
	t.Helper()
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		_, ok := e.row(t, m.id)
		assert.False(c, ok, "the row is there")
		assert.Empty(c, e.indexed(t, m.id), "index entries")
	}, 3*settle, pollInterval)
}

// servedAsRecorded wants the session served, on whatever URL since the row
// names no workload, with the router's token since it names no auth mode, and
// in every index.
func (e *env) servedAsRecorded(t *testing.T, m moved) {
	t.Helper()
	echo := e.invokeAs(t, agentRuntime, "echo", m.id)
	assert.Equal(t, m.endpoint, echo.Host)
	e.tokenFor(t, m.id, echo)
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		assert.Equal(c, []string{"session:expiry", "session:last_activity", "agentcube:due"}, e.indexed(t, m.id))
	}, settle, pollInterval)
}

// rewritten waits until our workload-manager has written the row, which it
// does when it learns the claim's UID and the sandbox's name, and wants
// everything that stood there to stand there still, in order.
func (e *env) rewritten(t *testing.T, m moved) {
	t.Helper()
	var text string
	require.Eventually(t, func() bool {
		var err error
		text, err = e.redis.Get(t.Context(), "session:"+m.id).Result()
		require.NoError(t, err)
		return strings.Contains(text, `"objectUid":`)
	}, settle, pollInterval, "the row is not written anew")
	was := keysInOrder(t, recordedRow(t, rowClaim).Value)
	is := keysInOrder(t, text)
	require.Greater(t, len(is), len(was))
	assert.Equal(t, was, is[:len(was)], "fields that existing programs know, in their order")
	assert.Contains(t, text, m.extra, "a field that this build does not know")

	var old, now existingRow
	require.NoError(t, json.Unmarshal([]byte(recordedRow(t, rowClaim).Value), &old))
	require.NoError(t, json.Unmarshal([]byte(text), &now))
	assert.Equal(t, old.CreatedAt.Nanosecond(), now.CreatedAt.Nanosecond(), "times lose nothing")
	assert.Equal(t, old.ExpiresAt.Nanosecond(), now.ExpiresAt.Nanosecond(), "times lose nothing")
	assert.Equal(t, old.ExpiresAt.Sub(old.CreatedAt), now.ExpiresAt.Sub(now.CreatedAt))
	assert.Equal(t, []string{"ready", m.object, "SandboxClaim", m.sandboxUID, "15m0s"},
		[]string{now.Status, now.Name, now.Kind, now.SandboxID, now.IdleTimeout})
	require.Len(t, now.EntryPoints, 1)
	assert.Equal(t, m.endpoint, now.EntryPoints[0].Endpoint)
}

// followsPod replaces the pod and wants the session to follow it: the ports
// that the row does not record are those of its entry points.
func (e *env) followsPod(t *testing.T, m moved) {
	t.Helper()
	first := e.invokeAs(t, agentRuntime, "echo", m.id)
	require.NoError(t, e.client.Resource(pods).Namespace(e.namespace).Delete(t.Context(), m.object, metav1.DeleteOptions{}))
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		a := e.invoke(t, agentRuntime, "echo", m.id, "/x")
		require.Equal(c, http.StatusOK, a.status, a)
		var second node.Echo
		a.decode(t, &second)
		assert.NotEqual(c, first.UID, second.UID)
		assert.Equal(c, m.object, second.Pod)
	}, settle, pollInterval)
	text, err := e.redis.Get(t.Context(), "session:"+m.id).Result()
	require.NoError(t, err)
	was := keysInOrder(t, recordedRow(t, rowDirect).Value)
	assert.Equal(t, was, keysInOrder(t, text)[:len(was)])
}

// keysInOrder are the names of an object's fields as they stand there.
func keysInOrder(t *testing.T, text string) []string {
	t.Helper()
	decoder := json.NewDecoder(strings.NewReader(text))
	_, err := decoder.Token() // {
	require.NoError(t, err)
	var keys []string
	for decoder.More() {
		key, err := decoder.Token()
		require.NoError(t, err)
		keys = append(keys, key.(string))
		var value json.RawMessage
		require.NoError(t, decoder.Decode(&value))
	}
	return keys
}

// existing makes a recorded object anew under a name and for a session of its
// own, as the existing installation made it.
func (e *env) existing(t *testing.T, kind, prefix, name string, change func(*unstructured.Unstructured)) moved {
	t.Helper()
	m := moved{id: uuid.NewString(), object: name}
	u := &unstructured.Unstructured{Object: worded(plain(t, recordedObject(t, kind, prefix), nil), map[string]string{
		"<name>": name, "<namespace>": e.namespace, "<session>": m.id,
		"<end>": time.Now().Add(8 * time.Hour).UTC().Format(time.RFC3339),
	}).(map[string]any)}
	change(u)
	resource := map[string]schema.GroupVersionResource{"Sandbox": alpha.sandboxes, "SandboxClaim": alpha.claims}[kind]
	_, err := e.client.Resource(resource).Namespace(e.namespace).Create(t.Context(), u, metav1.CreateOptions{})
	require.NoError(t, err)
	return m
}

func (e *env) existingSandbox(t *testing.T, name string) moved {
	t.Helper()
	m := e.existing(t, "Sandbox", "echo-", name, func(*unstructured.Unstructured) {})
	m.sandboxUID, m.endpoint = e.sandboxReady(t, name)
	return m
}

// existingClaim names the pool by its own name. The recorded one says
// "default", which v0.5.x converts into the name of a pool that does not
// exist; there is nothing to serve then, whoever made the claim.
func (e *env) existingClaim(t *testing.T, name string) moved {
	t.Helper()
	owner, err := e.client.Resource(interpreters).Namespace(e.namespace).Get(t.Context(), "warm", metav1.GetOptions{})
	require.NoError(t, err)
	m := e.existing(t, "SandboxClaim", "warm-", name, func(u *unstructured.Unstructured) {
		references := u.GetOwnerReferences()
		references[0].UID = owner.GetUID()
		u.SetOwnerReferences(references)
		require.NoError(t, unstructured.SetNestedField(u.Object, "warm", "spec", "warmpool"))
	})
	var adopted string
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		claim, err := e.client.Resource(e.api.Claims()).Namespace(e.namespace).Get(t.Context(), name, metav1.GetOptions{})
		require.NoError(c, err)
		adopted, _, _ = unstructured.NestedString(claim.Object, "status", "sandbox", "name")
		assert.NotEmpty(c, adopted)
	}, settle, pollInterval)
	m.sandboxUID, m.endpoint = e.sandboxReady(t, adopted)
	return m
}

// sandboxReady waits for a Sandbox to answer, and returns its UID and where.
func (e *env) sandboxReady(t *testing.T, name string) (uid, endpoint string) {
	t.Helper()
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		object, err := e.client.Resource(e.api.Sandboxes()).Namespace(e.namespace).Get(t.Context(), name, metav1.GetOptions{})
		require.NoError(c, err)
		seen, err := e.api.Parse(object)
		require.NoError(c, err)
		require.True(c, seen.Ready, "%s: %s", seen.Reason, seen.Message)
		require.NotEmpty(c, seen.Addresses)
		uid, endpoint = seen.Ref.UID, seen.Addresses[0]+":8080"
		_, err = send(t.Context(), http.MethodGet, "http://"+endpoint+"/x", nil, "")
		require.NoError(c, err)
	}, settle, pollInterval)
	return uid, endpoint
}

// poolReady waits for so many sandboxes that wait in a pool.
func (e *env) poolReady(t *testing.T, name string, size int64) {
	t.Helper()
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		pool, err := e.client.Resource(e.api.WarmPools()).Namespace(e.namespace).Get(t.Context(), name, metav1.GetOptions{})
		require.NoError(c, err)
		ready, _, _ := unstructured.NestedInt64(pool.Object, "status", "readyReplicas")
		assert.Equal(c, size, ready)
	}, settle, pollInterval)
}

// objectGone wants no live Sandbox or SandboxClaim of that name.
func (e *env) objectGone(t *testing.T, name string) {
	t.Helper()
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		for _, object := range e.objects(t) {
			assert.NotEqual(c, name, object.GetName())
		}
	}, settle, pollInterval)
}
