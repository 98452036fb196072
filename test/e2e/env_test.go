package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"

	"github.com/agentcube/agentcube/pkg/api"
	"github.com/agentcube/agentcube/pkg/sandbox"
	"github.com/agentcube/agentcube/test/system"
)

// settle bounds every wait for something that is to happen soon; it is long
// because the machine may be busy, and says nothing about how fast it is.
const settle = 30 * time.Second

// env is what one test has: the system, a namespace of its own, and clients.
type env struct {
	*system.System
	namespace string
	client    dynamic.Interface
	api       sandbox.API
	redis     *redis.Client
}

func newEnv(t *testing.T, s *system.System) *env {
	t.Helper()
	client, err := dynamic.NewForConfig(s.Cluster.Config())
	require.NoError(t, err)
	discoverer, err := discovery.NewDiscoveryClientForConfig(s.Cluster.Config())
	require.NoError(t, err)
	served, err := sandbox.Discover(discoverer)
	require.NoError(t, err)
	e := &env{
		System: s, client: client, api: served,
		redis: redis.NewClient(&redis.Options{Addr: s.Redis.Addr, Password: s.StorePassword()}),
	}
	t.Cleanup(func() { _ = e.redis.Close() })
	namespace, err := client.Resource(namespaces).Create(t.Context(), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"generateName": "e2e-"},
	}}, metav1.CreateOptions{})
	require.NoError(t, err)
	e.namespace = namespace.GetName()
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		assert.NoError(t, client.Resource(namespaces).Delete(ctx, e.namespace, metav1.DeleteOptions{}))
	})
	return e
}

var namespaces = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}

// apply applies a manifest in the test's namespace: NAMESPACE stands for it.
func (e *env) apply(t *testing.T, manifest string) {
	t.Helper()
	manifest = strings.ReplaceAll(manifest, "NAMESPACE", e.namespace)
	require.NoError(t, e.Cluster.Apply(t.Context(), []byte(manifest)))
}

// answer of a request.
type answer struct {
	status int
	header http.Header
	body   string
}

func (a answer) String() string { return fmt.Sprintf("%d %s", a.status, a.body) }

// decode reads the body, which must be JSON.
func (a answer) decode(t *testing.T, into any) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(a.body), into), "body: %s", a.body)
}

// send sends a request and reads the whole answer, which has to be as the
// service's description says.
func send(ctx context.Context, method, url string, header http.Header, body string) (answer, error) {
	request, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	for k, v := range header {
		request.Header[k] = v
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return answer{}, err
	}
	defer response.Body.Close()
	received, err := io.ReadAll(response.Body)
	a := answer{status: response.StatusCode, header: response.Header, body: string(received)}
	if err == nil {
		err = described(request, a)
	}
	return a, err
}

// manager sends a request to the workload-manager.
func (e *env) manager(t *testing.T, method, path, body string) answer {
	t.Helper()
	a, err := send(t.Context(), method, e.Manager().URL+path, nil, body)
	require.NoError(t, err)
	return a
}

// Routes that create.
const (
	agentRuntime    = "/v1/agent-runtime"
	codeInterpreter = "/v1/code-interpreter"
)

// post asks for a session of the named workload in the test's namespace.
func (e *env) post(t *testing.T, route, name string) answer {
	t.Helper()
	return e.manager(t, http.MethodPost, route, fmt.Sprintf(`{"namespace":%q,"name":%q}`, e.namespace, name))
}

// create asks for a session and wants it.
func (e *env) create(t *testing.T, route, name string) api.CreateResponse {
	t.Helper()
	a := e.post(t, route, name)
	require.Equal(t, http.StatusOK, a.status, a)
	var created api.CreateResponse
	a.decode(t, &created)
	return created
}

// delete ends a session.
func (e *env) delete(t *testing.T, id string) answer {
	t.Helper()
	return e.manager(t, http.MethodDelete, agentRuntime+"/sessions/"+id, "")
}

// invoke sends a GET to the session through the router.
func (e *env) invoke(t *testing.T, route, name, id, path string) answer {
	t.Helper()
	a, err := send(t.Context(), http.MethodGet, e.invocations(route, name)+path,
		http.Header{http.CanonicalHeaderKey(api.HeaderSessionID): {id}}, "")
	require.NoError(t, err)
	return a
}

// invocations is the router's URL of a workload, up to and without the path
// that reaches the sandbox.
func (e *env) invocations(route, name string) string {
	kind := map[string]string{agentRuntime: "agent-runtimes", codeInterpreter: "code-interpreters"}[route]
	return fmt.Sprintf("%s/v1/namespaces/%s/%s/%s/invocations", e.Router.URL, e.namespace, kind, name)
}

// row is a session's row as it is stored; ok is false if there is none.
func (e *env) row(t *testing.T, id string) (row map[string]any, ok bool) {
	t.Helper()
	value, err := e.redis.Get(t.Context(), "session:"+id).Result()
	if errors.Is(err, redis.Nil) {
		return nil, false
	}
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal([]byte(value), &row))
	return row, true
}

// indexKeys are the sorted sets that hold an entry per session.
var indexKeys = []string{"session:expiry", "session:last_activity", "agentcube:due", "agentcube:creating"}

// indexed returns the keys other than the row that mention the session.
func (e *env) indexed(t *testing.T, id string) []string {
	t.Helper()
	var in []string
	for _, key := range indexKeys {
		_, err := e.redis.ZScore(t.Context(), key, id).Result()
		if errors.Is(err, redis.Nil) {
			continue
		}
		require.NoError(t, err)
		in = append(in, key)
	}
	return in
}

// rows returns the rows of the test's namespace.
func (e *env) rows(t *testing.T) []map[string]any {
	t.Helper()
	var mine []map[string]any
	keys := e.redis.Scan(t.Context(), 0, "session:*", 1000).Iterator()
	for keys.Next(t.Context()) {
		id := strings.TrimPrefix(keys.Val(), "session:")
		if id == "expiry" || id == "last_activity" {
			continue
		}
		if row, ok := e.row(t, id); ok && row["sandboxNamespace"] == e.namespace {
			mine = append(mine, row)
		}
	}
	require.NoError(t, keys.Err())
	return mine
}

// objects returns the Sandboxes and SandboxClaims of the namespace that carry
// a session. Those that only wait for their pods to go are not counted.
func (e *env) objects(t *testing.T) []unstructured.Unstructured {
	t.Helper()
	var found []unstructured.Unstructured
	for _, r := range []schema.GroupVersionResource{e.api.Sandboxes(), e.api.Claims()} {
		list, err := e.client.Resource(r).Namespace(e.namespace).List(t.Context(),
			metav1.ListOptions{LabelSelector: sandbox.LabelSessionID})
		require.NoError(t, err)
		for _, item := range list.Items {
			if item.GetDeletionTimestamp() == nil {
				found = append(found, item)
			}
		}
	}
	return found
}

// nothingLeft wants no row, no index entry and no object in the namespace, now
// or soon.
func (e *env) nothingLeft(t *testing.T) {
	t.Helper()
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		assert.Empty(c, e.rows(t), "rows")
		assert.Empty(c, e.objects(t), "objects")
	}, settle, 50*time.Millisecond)
}

// gone wants a session to have left no trace in the store.
func (e *env) gone(t *testing.T, id string) {
	t.Helper()
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		_, ok := e.row(t, id)
		assert.False(c, ok, "the row is there")
		assert.Empty(c, e.indexed(t, id), "index entries")
		assert.Empty(c, e.inLists(t, id), "lists")
	}, settle, 20*time.Millisecond)
}
