package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/agentcube/agentcube/pkg/api"
)

// listBehaviours are about the list of sessions.
var listBehaviours = []behaviour{
	{"sessions are listed page by page and by every filter, and leave the list when they end", sessionsAreListed},
	{"a list that is asked for in a way that is not meant is refused", badLists},
}

const sessions = "/v1/sessions"

// page asks for one page of the test's namespace.
func (e *env) page(ctx context.Context, t require.TestingT, query string) api.SessionList {
	a, err := send(ctx, http.MethodGet, e.Manager().URL+sessions+"?namespace="+e.namespace+query, nil, "")
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, a.status, a)
	var list api.SessionList
	require.NoError(t, json.Unmarshal([]byte(a.body), &list), a.body)
	return list
}

// list reads all pages and returns the ids, in order.
func (e *env) list(ctx context.Context, t require.TestingT, query string) []string {
	ids, cursor := []string{}, ""
	for {
		page := e.page(ctx, t, query+"&cursor="+cursor)
		for _, item := range page.Items {
			ids = append(ids, item.SessionID)
		}
		if cursor = page.Cursor; cursor == "" {
			return ids
		}
	}
}

// inLists are the lists of the store that mention the session.
func (e *env) inLists(t *testing.T, id string) []string {
	t.Helper()
	var in []string
	keys := e.redis.Scan(t.Context(), 0, "agentcube:list*", 1000).Iterator()
	for keys.Next(t.Context()) {
		members := e.redis.ZScan(t.Context(), keys.Val(), 0, "*"+id, 1000).Iterator()
		for members.Next(t.Context()) {
			in = append(in, keys.Val())
			members.Next(t.Context()) // its score
		}
		require.NoError(t, members.Err())
	}
	require.NoError(t, keys.Err())
	return in
}

func sessionsAreListed(t *testing.T, e *env) {
	e.apply(t, runtimeTemplate("echo"))
	e.apply(t, runtimeTemplate("other"))
	e.apply(t, interpreterTemplate("echo", 0))
	assert.Equal(t, []string{}, e.list(t.Context(), t, ""))
	var made []api.CreateResponse
	for _, w := range [][2]string{{agentRuntime, "echo"}, {codeInterpreter, "echo"}, {agentRuntime, "other"}, {agentRuntime, "echo"}} {
		made = append(made, e.create(t, w[0], w[1]))
	}
	ids := func(numbers ...int) []string {
		some := []string{}
		for _, n := range numbers {
			some = append(some, made[n].SessionID)
		}
		return some
	}
	for query, want := range map[string][]string{
		"":                                       ids(0, 1, 2, 3),
		"&kind=AgentRuntime":                     ids(0, 2, 3),
		"&kind=CodeInterpreter":                  ids(1),
		"&name=echo":                             ids(0, 1, 3),
		"&name=echo&kind=AgentRuntime":           ids(0, 3),
		"&state=ready":                           ids(0, 1, 2, 3),
		"&state=creating":                        ids(),
		"&owner=nobody":                          ids(),
		"&owner=" + url.QueryEscape("a/b c\x00"): ids(),
	} {
		for _, limit := range []int{1, 2, 3, 4, 1000} {
			assert.Equal(t, want, e.list(t.Context(), t, fmt.Sprintf("%s&limit=%d", query, limit)), "%s, pages of %d", query, limit)
		}
	}
	e.tells(t, made[1])

	require.Equal(t, http.StatusOK, e.delete(t, made[0].SessionID).status)
	assert.Equal(t, ids(1, 2, 3), e.list(t.Context(), t, ""))
	assert.Empty(t, e.inLists(t, made[0].SessionID))
	require.NoError(t, e.client.Resource(e.api.Sandboxes()).Namespace(e.namespace).
		Delete(t.Context(), made[2].SandboxName, metav1.DeleteOptions{}))
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		assert.Equal(c, ids(1, 3), e.list(t.Context(), c, "&state=ready"))
	}, settle, pollInterval)
	assert.Empty(t, e.inLists(t, made[2].SessionID))
	assert.Len(t, e.inLists(t, made[3].SessionID), 5, "all, namespace, kind, name, state")
}

// tells wants the list to tell of a session what its create told.
func (e *env) tells(t *testing.T, s api.CreateResponse) {
	t.Helper()
	row, ok := e.row(t, s.SessionID)
	require.True(t, ok)
	items := e.page(t.Context(), t, "&kind=CodeInterpreter").Items
	require.Len(t, items, 1)
	got := items[0]
	assert.Equal(t, api.WorkloadRef{Kind: "CodeInterpreter", Namespace: e.namespace, Name: "echo"}, got.Workload)
	assert.Equal(t, api.ObjectRef{Kind: "Sandbox", Namespace: e.namespace, Name: s.SandboxName, UID: s.SandboxID}, got.Object)
	assert.Equal(t, api.SandboxRef{Name: s.SandboxName, UID: s.SandboxID}, got.Sandbox)
	assert.Equal(t, s.EntryPoints, got.EntryPoints)
	assert.Equal(t, "ready", got.State)
	assert.Equal(t, s.Generation, got.Generation)
	assert.Equal(t, s.IdleTimeout, got.IdleTimeout)
	assert.Equal(t, timeOf(t, row, "createdAt"), got.CreatedAt)
	assert.True(t, s.ExpiresAt.Equal(got.ExpiresAt))
	assert.Equal(t, e.score(t, "session:last_activity", s.SessionID).UTC(), got.LastActivityAt)
}

func badLists(t *testing.T, e *env) {
	for _, query := range []string{
		"ower=x", "namespace=", "namespace=A", "name=a/b", "kind=Sandbox", "state=running", "limit=0", "limit=1001", "limit=1.5",
		"state=ready&state=ready", "cursor=x", "a;b", "owner=%zz",
	} {
		a := e.manager(t, http.MethodGet, sessions+"?"+query, "")
		managerRefuses(t, a, http.StatusBadRequest, api.CodeInvalidRequest)
	}
}
