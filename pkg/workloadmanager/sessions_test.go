package workloadmanager_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentcube/agentcube/pkg/api"
	"github.com/agentcube/agentcube/pkg/session"
	"github.com/agentcube/agentcube/pkg/session/sessiontest"
)

const ofKnown = "/v1/sessions/" + knownID

// put writes a ready session of ann's that was made now, and its entries.
func (r *rig) put(t testing.TB, change ...func(*session.Session)) session.Session {
	t.Helper()
	s := sessiontest.Reserved(1, time.Now().UTC().Truncate(time.Millisecond))
	s.ID, s.OwnerID, s.State = knownID, "ann", session.StateReady
	s.Object.UID, s.Sandbox = "uid-1", session.SandboxRef{Name: s.Object.Name, UID: "uid-1"}
	s.EntryPoints, s.Generation = session.EntryPoints(s.Ports, "10.0.0.7"), 1
	for _, c := range change {
		c(&s)
	}
	s, err := r.rows.Create(t.Context(), s)
	require.NoError(t, err)
	return s
}

// end removes the session, marked for the reason first unless that is empty.
func (r *rig) end(t testing.TB, reason string) {
	t.Helper()
	if reason != "" {
		_, err := r.rows.Update(t.Context(), knownID, session.Delete(reason, time.Time{}))
		require.NoError(t, err)
	}
	require.NoError(t, r.rows.Remove(t.Context(), knownID, func(session.Session) error { return nil }))
}

// as has the identity header taken for the owner's name itself.
func (r *rig) as(owner string) []string {
	if owner == "" {
		return nil
	}
	r.verify = func(token string) (string, error) { return token, nil }
	return []string{api.HeaderUserIdentity, owner}
}

func TestReadASession(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := r.put(t, func(s *session.Session) {
		s.State, s.Reason, s.Message = session.StateNotReady, "SandboxNotReady", "pod is pending"
	})
	answer := r.do(t, http.MethodGet, ofKnown, "")
	require.Equal(t, 200, answer.Code, answer.Body)
	last := s.CreatedAt.Truncate(time.Second)
	assert.JSONEq(t, `{
		"sessionId":"`+knownID+`","state":"not-ready","reason":"SandboxNotReady","message":"pod is pending",
		"workload":{"kind":"AgentRuntime","namespace":"default","name":"echo"},
		"object":{"kind":"Sandbox","namespace":"default","name":"echo-00000001","uid":"uid-1"},
		"sandbox":{"name":"echo-00000001","uid":"uid-1"},
		"entryPoints":[{"path":"/","protocol":"HTTP","endpoint":"10.0.0.7:8080"}],
		"ownerId":"ann","metadata":{"n":12345678901234567890},
		"createdAt":"`+s.CreatedAt.Format(time.RFC3339Nano)+`",
		"expiresAt":"`+s.CreatedAt.Add(8*time.Hour).Format(time.RFC3339Nano)+`",
		"idleTimeout":900,
		"lastActivityAt":"`+last.Format(time.RFC3339)+`",
		"idleDeadline":"`+last.Add(15*time.Minute+5*time.Second).Format(time.RFC3339)+`",
		"generation":1}`, answer.Body.String())
	assert.Equal(t, knownID, r.logs.FilterMessage("request").All()[0].ContextMap()["session"])
	head := r.do(t, http.MethodHead, ofKnown, "")
	assert.Equal(t, 200, head.Code)
}

func TestWhatIsNotKnownOfASessionIsLeftOut(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	// As an existing installation writes it, unlimited.
	require.NoError(t, r.rows.Put(session.Session{
		ID: knownID, State: session.StateCreating,
		Object: session.ObjectRef{Kind: session.KindSandboxClaim, Namespace: "default", Name: "warm-7u5if1i1"},
	}))
	answer := r.do(t, http.MethodGet, ofKnown, "")
	require.Equal(t, 200, answer.Code, answer.Body)
	assert.JSONEq(t, `{"sessionId":"`+knownID+`","state":"creating",
		"object":{"kind":"SandboxClaim","namespace":"default","name":"warm-7u5if1i1"},
		"entryPoints":[],"generation":0}`, answer.Body.String())
}

// everyRoute of one session.
var everyRoute = map[string]struct{ method, path, body string }{
	"read":      {http.MethodGet, ofKnown, ""},
	"wait":      {http.MethodGet, ofKnown + "?wait=1s", ""},
	"patch":     {http.MethodPatch, ofKnown, `{"ttl":60}`},
	"keepalive": {http.MethodPost, ofKnown + "/keepalive", ""},
	"delete":    {http.MethodDelete, ofKnown, ""},
}

func TestAnIdentityIsCheckedAndRefusesNobody(t *testing.T) {
	t.Parallel()
	for name, route := range everyRoute {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, owner := range []string{"ann", "", "bob"} {
				synctest.Test(t, func(t *testing.T) {
					r := newRig(t)
					r.put(t)
					answer := r.do(t, route.method, route.path, route.body, r.as(owner)...)
					assert.Less(t, answer.Code, 300, answer.Body)
				})
			}
			r := newRig(t)
			r.put(t)
			answer := r.do(t, route.method, route.path, route.body, api.HeaderUserIdentity, "forged")
			assert.Equal(t, 401, answer.Code)
		})
	}
}

func TestWhyASessionEnded(t *testing.T) {
	t.Parallel()
	for name, route := range everyRoute {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for marked, want := range map[string]string{
				session.ReasonIdle: "idle", session.ReasonExpired: "expired", session.ReasonDeleted: "deleted",
				session.ReasonFailed: "failed", "": "deleted_in_cluster",
			} {
				for owner, visible := range map[string]bool{"ann": true, "": true, "bob": false} {
					r := newRig(t)
					r.put(t)
					r.end(t, marked)
					r.remove = nil
					if route.method == http.MethodDelete {
						r.remove = gone
					}
					answer := r.do(t, route.method, route.path, route.body, r.as(owner)...)
					require.Equal(t, 404, answer.Code, answer.Body)
					told := problemIn(t, answer)
					assert.Equal(t, api.CodeSessionNotFound, told.Code)
					assert.Equal(t, "Session ID "+knownID+" not found, maybe already deleted", told.Message)
					if !visible {
						assert.NotContains(t, answer.Body.String(), "reason")
						continue
					}
					assert.Equal(t, want, told.Reason)
				}
			}
		})
	}
}

func TestASessionThatNeverWasHasNoReason(t *testing.T) {
	t.Parallel()
	for name, route := range everyRoute {
		r := newRig(t)
		r.remove = gone
		answer := r.do(t, route.method, route.path, route.body)
		require.Equal(t, 404, answer.Code, name)
		assert.NotContains(t, answer.Body.String(), "reason", name)

		r = newRig(t)
		answer = r.do(t, route.method, strings.Replace(route.path, knownID, "expiry", 1), route.body)
		require.Equal(t, 404, answer.Code, name)
		assert.Equal(t, api.CodeSessionNotFound, problemIn(t, answer).Code)
		assert.Zero(t, r.store.Calls("Look")+r.store.Calls("Keep")+r.store.Calls("Ended"), name)
	}
}

func TestAnAbsenceIsToldWithoutItsReasonWhenThatCannotBeRead(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.put(t)
	r.end(t, session.ReasonIdle)
	r.store.FailNext("Ended", session.ErrUnavailable)
	answer := r.do(t, http.MethodGet, ofKnown, "")
	assert.Equal(t, 404, answer.Code)
	assert.NotContains(t, answer.Body.String(), "reason")
}

func TestWithoutTheStoreNothingIsSaidOfASession(t *testing.T) {
	t.Parallel()
	for name, route := range everyRoute {
		if name == "delete" {
			continue // does not look
		}
		r := newRig(t)
		r.put(t)
		r.store.FailNext("Look", session.ErrUnavailable)
		r.store.FailNext("Keep", session.ErrUnavailable)
		answer := r.do(t, route.method, route.path, route.body)
		require.Equal(t, 503, answer.Code, name)
		assert.Equal(t, api.CodeStoreUnavailable, problemIn(t, answer).Code, name)
		assert.NotEmpty(t, answer.Header().Get("Retry-After"))
	}
}

func TestKeepalive(t *testing.T) {
	t.Parallel()
	for state, want := range map[session.State]int{
		session.StateReady: 204, session.StateNotReady: 204, session.StateSuspended: 204, session.StateCreating: 204,
		session.StateDeleting: 404,
	} {
		t.Run(string(state), func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			long := time.Now().Add(-time.Hour).UTC()
			r.put(t, func(s *session.Session) { s.State, s.Reason, s.CreatedAt = state, session.ReasonIdle, long })
			answer := r.do(t, http.MethodPost, ofKnown+"/keepalive", "")
			require.Equal(t, want, answer.Code, answer.Body)
			last, err := r.rows.LastActivity(t.Context(), knownID)
			require.NoError(t, err)
			assert.Equal(t, want == 204, last.After(long.Add(time.Minute)))
			if want == 204 {
				assert.Empty(t, answer.Body.String())
			} else {
				assert.Equal(t, "idle", problemIn(t, answer).Reason)
			}
		})
	}
	r := newRig(t)
	r.put(t, func(s *session.Session) { s.ExpiresAt = time.Now() })
	answer := r.do(t, http.MethodPost, ofKnown+"/keepalive", "")
	require.Equal(t, 404, answer.Code, "an hour is over, collected or not")
	assert.Equal(t, "expired", problemIn(t, answer).Reason)
}

func sessionIn(t testing.TB, body []byte) api.Session {
	t.Helper()
	var s api.Session
	require.NoError(t, json.Unmarshal(body, &s))
	return s
}
