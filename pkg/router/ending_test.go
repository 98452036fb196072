package router

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentcube/agentcube/pkg/api"
	"github.com/agentcube/agentcube/pkg/auth"
	"github.com/agentcube/agentcube/pkg/session"
)

// told reads an error of the router's.
func told(t *testing.T, r reply) api.RouterError {
	t.Helper()
	var e api.RouterError
	require.NoError(t, json.Unmarshal([]byte(r.body), &e), r.body)
	return e
}

func TestAnAbsentSessionIsToldWithWhyItEnded(t *testing.T) {
	t.Parallel()
	remove := func(r *rig, id string) {
		require.NoError(r.t, r.rows.Remove(r.t.Context(), id, func(session.Session) error { return nil }))
	}
	mark := func(reason string) func(*rig, string) {
		return func(r *rig, id string) {
			_, err := r.rows.Update(r.t.Context(), id, session.Delete(reason, time.Time{}))
			require.NoError(r.t, err)
		}
	}
	markAndRemove := func(reason string) func(*rig, string) {
		return func(r *rig, id string) { mark(reason)(r, id); remove(r, id) }
	}
	cases := map[string]struct {
		end  func(*rig, string)
		want string
		// asks: the store is asked why.
		asks int
	}{
		"idle":                    {markAndRemove(session.ReasonIdle), "idle", 1},
		"expired":                 {markAndRemove(session.ReasonExpired), "expired", 1},
		"deleted":                 {markAndRemove(session.ReasonDeleted), "deleted", 1},
		"failed":                  {markAndRemove(session.ReasonFailed), "failed", 1},
		"deleted in the cluster":  {remove, "deleted_in_cluster", 1},
		"being deleted":           {mark(session.ReasonIdle), "idle", 0},
		"over its time":           {func(r *rig, id string) { setExpiry(r, id, r.clock.Now()) }, "expired", 0},
		"never there":             {func(r *rig, _ string) { r.rows.Wipe() }, "", 1},
		"the store cannot say so": {func(r *rig, id string) { remove(r, id); r.store.FailNext("Ended", session.ErrUnavailable) }, "", 1},
	}
	for sentence, c := range cases {
		t.Run(sentence, func(t *testing.T) {
			t.Parallel()
			for owner, visible := range map[string]bool{"ann": true, "": true, "bob": false} {
				r := newRig(t, func(d *Dependencies, _ *Options) {
					if owner != "" {
						d.Authenticator = fakeAuth{user: auth.Principal{Subject: owner}}
					}
				})
				id := r.ready("127.0.0.1:1", func(s *session.Session) { s.OwnerID = "ann" })
				c.end(r, id)
				res, _ := r.get(echoPath+"/", id)
				require.Equal(t, http.StatusNotFound, res.StatusCode, res.body)
				e := told(t, res)
				assert.Equal(t, api.CodeSessionNotFound, e.Code)
				assert.Equal(t, c.asks, r.store.Calls("Ended"))
				if visible {
					assert.Equal(t, c.want, e.Reason)
				} else {
					assert.NotContains(t, res.body, "reason")
				}
			}
		})
	}
}

func setExpiry(r *rig, id string, at time.Time) {
	r.t.Helper()
	_, err := r.rows.Update(r.t.Context(), id, func(s *session.Session) error { s.ExpiresAt = at; return nil })
	require.NoError(r.t, err)
}

func TestOnlyAnAbsenceIsAskedAbout(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	id := r.ready("127.0.0.1:1", func(s *session.Session) { s.State = session.StateNotReady })
	res, _ := r.get(echoPath+"/", id)
	require.Equal(t, http.StatusServiceUnavailable, res.StatusCode)
	res, _ = r.get("/v1/namespaces/default/agent-runtimes/another/invocations/", id)
	require.Equal(t, http.StatusConflict, res.StatusCode)
	res, _ = r.get(echoPath+"/", "expiry")
	require.Equal(t, http.StatusNotFound, res.StatusCode)
	assert.Zero(t, r.store.Calls("Ended"))
}
