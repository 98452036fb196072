package workloadmanager_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/agentcube/agentcube/pkg/api"
	"github.com/agentcube/agentcube/pkg/session"
	"github.com/agentcube/agentcube/pkg/session/sessiontest"
	"github.com/agentcube/agentcube/pkg/workloadmanager"
)

const listRoute = "/v1/sessions"

var listStart = time.Date(2026, 3, 4, 5, 6, 7, 890_123_456, time.UTC)

// withSessions is a Server over a store with sessions 0 to n-1, each made a
// second after the one before.
func withSessions(t testing.TB, n int) (*rig, *sessiontest.Faulty) {
	t.Helper()
	fake := sessiontest.NewFake(clocktesting.NewFakePassiveClock(listStart))
	for i := range n {
		_, err := fake.Create(t.Context(), sessiontest.Reserved(i, listStart.Add(time.Duration(i)*time.Second)))
		require.NoError(t, err)
	}
	store := sessiontest.NewFaulty(fake)
	return newRig(t, func(c *workloadmanager.Config) { c.Index = store }), store
}

func listIn(t testing.TB, answer *httptest.ResponseRecorder) api.SessionList {
	t.Helper()
	require.Equal(t, http.StatusOK, answer.Code, answer.Body)
	require.Equal(t, "application/json; charset=utf-8", answer.Header().Get("Content-Type"))
	var list api.SessionList
	require.NoError(t, json.Unmarshal(answer.Body.Bytes(), &list))
	return list
}

func TestAListWithoutSessionsIsEmptyAndNotNull(t *testing.T) {
	t.Parallel()
	r, _ := withSessions(t, 0)
	assert.JSONEq(t, `{"items":[]}`, r.do(t, http.MethodGet, listRoute, "").Body.String())
}

func TestASessionIsListedAsTheContractSays(t *testing.T) {
	t.Parallel()
	r, store := withSessions(t, 1)
	const creating = `{"sessionId":"00000000-0000-4000-8000-000000000000","state":"creating",
		"workload":{"kind":"AgentRuntime","namespace":"default","name":"echo"},
		"object":{"kind":"Sandbox","namespace":"default","name":"echo-00000000"},
		"entryPoints":[],"ownerId":"owner","metadata":{"n":12345678901234567890},
		"createdAt":"2026-03-04T05:06:07.890123456Z","expiresAt":"2026-03-04T13:06:07.890123456Z","idleTimeout":900,
		"lastActivityAt":"2026-03-04T05:06:07Z","idleDeadline":"2026-03-04T05:21:12Z","generation":0}`
	assert.JSONEq(t, `{"items":[`+creating+`]}`, r.do(t, http.MethodGet, listRoute, "").Body.String())

	row := sessiontest.Reserved(0, listStart)
	_, err := store.Update(t.Context(), row.ID, session.Commit(row.Creator.Token, sessiontest.Ready(row, "10.0.0.7")))
	require.NoError(t, err)
	item := listIn(t, r.do(t, http.MethodGet, listRoute, "")).Items[0]
	assert.Equal(t, "ready", item.State)
	assert.Equal(t, []api.EntryPoint{{Path: "/", Protocol: "HTTP", Endpoint: "10.0.0.7:8080"}}, item.EntryPoints)
	assert.Equal(t, api.SandboxRef{Name: "echo-00000000", UID: "uid-" + row.ID}, item.Sandbox)
	assert.Equal(t, int64(1), item.Generation)

	_, err = store.Update(t.Context(), row.ID, func(s *session.Session) error {
		s.ExpiresAt, s.IdleTimeout, s.Workload, s.OwnerID, s.Metadata = time.Time{}, 0, session.WorkloadRef{}, "", nil
		return nil
	})
	require.NoError(t, err)
	body := r.do(t, http.MethodGet, listRoute, "").Body.String()
	for _, field := range []string{"expiresAt", "idleTimeout", "idleDeadline", "workload", "ownerId", "metadata", "cursor"} {
		assert.NotContains(t, body, `"`+field+`"`, "what is not known is left out")
	}
}

func TestAListIsReadPageByPage(t *testing.T) {
	t.Parallel()
	r, _ := withSessions(t, 250)
	for limit, sizes := range map[string][]int{
		"":            {100, 100, 50},
		"&limit=1000": {250},
		"&limit=250":  {250},
		"&limit=249":  {249, 1},
		"&limit=125":  {125, 125},
	} {
		var got []int
		next, n := "", 0
		for {
			list := listIn(t, r.do(t, http.MethodGet, listRoute+"?cursor="+next+limit, ""))
			got = append(got, len(list.Items))
			for _, item := range list.Items {
				require.Equal(t, sessiontest.ID(n), item.SessionID)
				n++
			}
			if next = list.Cursor; next == "" {
				break
			}
			require.Equal(t, url.QueryEscape(next), next, "a cursor needs no escapes")
		}
		assert.Equal(t, sizes, got, limit)
	}
}

func TestFiltersReachTheStore(t *testing.T) {
	t.Parallel()
	r, _ := withSessions(t, 2)
	for query, want := range map[string]int{
		"namespace=default": 2, "namespace=other": 0, "kind=AgentRuntime": 2, "kind=CodeInterpreter": 0,
		"name=echo": 2, "name=other.name": 0, "state=creating": 2, "state=ready": 0, "owner=owner": 2, "owner=%00": 0,
		"namespace=default&kind=AgentRuntime&name=echo&state=creating&owner=owner&limit=2&cursor=": 2,
	} {
		assert.Len(t, listIn(t, r.do(t, http.MethodGet, listRoute+"?"+query, "")).Items, want, query)
	}
}

func TestAQueryThatIsNotMeantIsRefused(t *testing.T) {
	t.Parallel()
	const number = "limit must be a whole number from 1 to 1000"
	const label = "namespace must be a DNS label: at most 63 lower-case letters, digits and '-'"
	const foreign = "cursor is not made by a list"
	r, store := withSessions(t, 3)
	cursor := listIn(t, r.do(t, http.MethodGet, listRoute+"?limit=1", "")).Cursor
	flipped := []byte(cursor)
	flipped[0]++
	before := store.Calls("List")
	for query, message := range map[string]string{
		"ower=owner-a":                        `unknown query parameter "ower": there are namespace, kind, name, state, owner, limit, cursor`,
		"Namespace=default":                   `unknown query parameter "Namespace": there are namespace, kind, name, state, owner, limit, cursor`,
		"=x":                                  `unknown query parameter "": there are namespace, kind, name, state, owner, limit, cursor`,
		"namespace=":                          "namespace must not be empty",
		"owner":                               "owner must not be empty",
		"limit=":                              "limit must not be empty",
		"state=ready&state=x":                 "state is given more than once",
		"namespace=a;name=b":                  "query string is malformed",
		"namespace=%zz":                       "query string is malformed",
		"namespace=A":                         label,
		"namespace=a/b":                       label,
		"name=-":                              "name must be a DNS name: at most 253 lower-case letters, digits, '-' and '.'",
		"kind=Sandbox":                        "kind must be AgentRuntime or CodeInterpreter",
		"state=running":                       "state must be one of creating, ready, not-ready, suspended, deleting",
		"limit=0":                             number,
		"limit=-1":                            number,
		"limit=1001":                          number,
		"limit=1e2":                           number,
		"limit=%2B5":                          number,
		"limit=05":                            number,
		"limit=99999999999999":                number,
		"cursor=x":                            foreign,
		"cursor=" + cursor + "A":              foreign,
		"cursor=" + cursor + "%0A":            foreign,
		"cursor=" + cursor[1:]:                foreign,
		"cursor=" + string(flipped):           foreign,
		"cursor=" + cursor + "&state=ready":   "cursor is made by a list with other filters",
		"cursor=" + cursor + "&owner=owner-a": "cursor is made by a list with other filters",
		"cursor=" + strings.Repeat("A", 1e4):  foreign,
	} {
		answer := r.do(t, http.MethodGet, listRoute+"?"+query, "")
		require.Equal(t, http.StatusBadRequest, answer.Code, query)
		e := problemIn(t, answer)
		assert.Equal(t, api.CodeInvalidRequest, e.Code, query)
		assert.Equal(t, message, e.Message, query)
	}
	assert.Equal(t, before, store.Calls("List"), "the store is not asked")
}

func TestTheLimitMayChangeFromPageToPage(t *testing.T) {
	t.Parallel()
	r, _ := withSessions(t, 5)
	cursor := listIn(t, r.do(t, http.MethodGet, listRoute+"?limit=2", "")).Cursor
	assert.Len(t, listIn(t, r.do(t, http.MethodGet, listRoute+"?cursor="+cursor, "")).Items, 3)
}

func TestAListNeedsTheStoreAndAnIdentityThatHolds(t *testing.T) {
	t.Parallel()
	r, store := withSessions(t, 1)
	store.FailNext("List", fmt.Errorf("%w: %w", session.ErrUnavailable, errSecret))
	answer := r.do(t, http.MethodGet, listRoute, "")
	require.Equal(t, http.StatusServiceUnavailable, answer.Code)
	assert.Equal(t, "2", answer.Header().Get("Retry-After"))
	assert.Equal(t, api.CodeStoreUnavailable, problemIn(t, answer).Code)
	assert.NotContains(t, answer.Body.String(), "hunter2")

	answer = r.do(t, http.MethodGet, listRoute, "", api.HeaderUserIdentity, "forged")
	require.Equal(t, http.StatusUnauthorized, answer.Code)
	assert.Equal(t, api.CodeUnauthenticated, problemIn(t, answer).Code)

	r.verify = func(string) (string, error) { return "somebody", nil }
	list := listIn(t, r.do(t, http.MethodGet, listRoute, "", api.HeaderUserIdentity, "good"))
	assert.Len(t, list.Items, 1, "every caller sees all sessions")
}

func FuzzListQuery(f *testing.F) {
	r, _ := withSessions(f, 3)
	cursor := listIn(f, r.do(f, http.MethodGet, listRoute+"?limit=1", "")).Cursor
	for _, seed := range []string{
		"", "limit=1", "limit=1&cursor=" + cursor, "cursor=" + strings.Repeat("_", 44), "state=ready&owner=%ff", "a;b", "limit=1&limit=1",
		"cursor=" + base64.RawURLEncoding.EncodeToString(make([]byte, 33)),
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, query string) {
		request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, listRoute, http.NoBody)
		request.URL.RawQuery = query
		answer := httptest.NewRecorder()
		r.server.ServeHTTP(answer, request)
		if answer.Code != http.StatusOK {
			require.Equal(t, http.StatusBadRequest, answer.Code)
			assert.Equal(t, api.CodeInvalidRequest, problemIn(t, answer).Code)
			return
		}
		list := listIn(t, answer)
		assert.LessOrEqual(t, len(list.Items), 3)
		if list.Cursor != "" {
			assert.NotEmpty(t, list.Items)
		}
	})
}
