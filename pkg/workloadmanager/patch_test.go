package workloadmanager_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentcube/agentcube/pkg/api"
	"github.com/agentcube/agentcube/pkg/sandbox"
	"github.com/agentcube/agentcube/pkg/session"
)

// gone is the answer to what is asked of a session that is not there.
func gone(context.Context, string, string) error { return session.ErrNotFound }

func TestAPatchNamesLifetimes(t *testing.T) {
	t.Parallel()
	const spaced = " \n{\"idleTimeout\" : 90 , \"ttl\":60}"
	for body, want := range map[string]session.Change{
		`{"ttl":60}`:                      {ExpiresAt: time.Unix(60, 0)},
		`{"ttl":2147483647}`:              {ExpiresAt: time.Unix(2147483647, 0)},
		`{"idleTimeout":1}`:               {Idle: time.Second},
		`{"ttl":60,"idleTimeout":90}`:     {ExpiresAt: time.Unix(60, 0), Idle: 90 * time.Second},
		`{"ttl":null,"idleTimeout":90}`:   {Idle: 90 * time.Second},
		`{"ttl":60,"more":[1],"TTL":"x"}`: {ExpiresAt: time.Unix(60, 0)},
		spaced:                            {ExpiresAt: time.Unix(60, 0), Idle: 90 * time.Second},
	} {
		t.Run(body, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { // time stands still
				r := newRig(t)
				r.put(t)
				now := time.Now().UTC()
				answer := r.do(t, http.MethodPatch, ofKnown, body)
				require.Equal(t, 200, answer.Code, answer.Body)
				require.Len(t, r.changed, 1)
				want.At = now
				if !want.ExpiresAt.IsZero() {
					want.ExpiresAt = now.Truncate(time.Millisecond).Add(time.Duration(want.ExpiresAt.Unix()) * time.Second)
				}
				assert.Equal(t, want, r.changed[0])
				got := sessionIn(t, answer.Body.Bytes())
				assert.Equal(t, knownID, got.SessionID)
				assert.Equal(t, "ready", got.State)
				assert.Equal(t, now.Truncate(time.Second), got.LastActivityAt, "a patch is no activity, and shows the last one")
			})
		})
	}
}

func TestAPatchThatMakesNoSenseIsRefused(t *testing.T) {
	t.Parallel()
	refused := map[string]string{
		"":                        "Invalid request body",
		"[]":                      "Invalid request body",
		"nul":                     "Invalid request body",
		`{"ttl":60`:               "Invalid request body",
		`{"ttl":60,"ttl":60}`:     "Invalid request body",
		"{\"ttl\":60,\"\xff\":1}": "Invalid request body",
		"{}":                      "ttl or idleTimeout is required",
		"null":                    "ttl or idleTimeout is required",
		`{"ttl":null}`:            "ttl or idleTimeout is required",
		`{"state":"ready"}`:       "ttl or idleTimeout is required",
	}
	for _, field := range []string{"ttl", "idleTimeout"} {
		for _, literal := range []string{"0", "-1", "1.5", `"60"`, "1e30", "1e2", "2147483648", "-0", "true", "{}", "[60]"} {
			refused[`{"`+field+`":`+literal+`}`] = field + " must be a whole number of seconds from 1 to 2147483647"
		}
	}
	for body, message := range refused {
		r := newRig(t)
		r.put(t)
		answer := r.do(t, http.MethodPatch, ofKnown, body)
		require.Equal(t, 400, answer.Code, body)
		told := problemIn(t, answer)
		assert.Equal(t, api.CodeInvalidRequest, told.Code, body)
		assert.Equal(t, message, told.Message, body)
		assert.Empty(t, r.changed, body)
	}
	r := newRig(t)
	answer := r.do(t, http.MethodPatch, ofKnown, `{"ttl":60,"x":"`+strings.Repeat("x", 2<<20)+`"}`)
	assert.Equal(t, 413, answer.Code)
}

func TestAPatchOfASessionThatIs(t *testing.T) {
	t.Parallel()
	for sentence, c := range map[string]struct {
		row    func(*session.Session)
		status int
		code   string
		reason string
	}{
		"ready":          {func(*session.Session) {}, 200, "", ""},
		"not ready":      {func(s *session.Session) { s.State = session.StateNotReady }, 200, "", ""},
		"suspended":      {func(s *session.Session) { s.State = session.StateSuspended }, 200, "", ""},
		"being created":  {creating, 503, api.CodeNotReady, ""},
		"being deleted":  {func(s *session.Session) { s.State, s.Reason = session.StateDeleting, session.ReasonIdle }, 404, api.CodeSessionNotFound, "idle"},
		"over its time":  {func(s *session.Session) { s.ExpiresAt = time.Now() }, 404, api.CodeSessionNotFound, "expired"},
		"without an end": {func(s *session.Session) { s.ExpiresAt = time.Time{} }, 200, "", ""},
	} {
		t.Run(sentence, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.put(t, c.row)
			answer := r.do(t, http.MethodPatch, ofKnown, `{"ttl":60}`)
			require.Equal(t, c.status, answer.Code, answer.Body)
			if c.code == "" {
				return
			}
			told := problemIn(t, answer)
			assert.Equal(t, c.code, told.Code)
			assert.Equal(t, c.reason, told.Reason)
			assert.Equal(t, c.status == 503, answer.Header().Get("Retry-After") != "")
			assert.Empty(t, r.changed)
		})
	}
}

func TestAPatchWhoseSessionEndsMeanwhile(t *testing.T) {
	t.Parallel()
	for sentence, end := range map[string]func(*testing.T, *rig){
		"is being deleted": func(t *testing.T, r *rig) {
			_, err := r.rows.Update(t.Context(), knownID, session.Delete(session.ReasonIdle, time.Time{}))
			require.NoError(t, err)
		},
		"is gone": func(t *testing.T, r *rig) { r.end(t, session.ReasonIdle) },
	} {
		t.Run(sentence, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.put(t)
			r.change = func(context.Context, string, session.Change) (session.Session, error) {
				end(t, r)
				return session.Session{}, session.ErrStale
			}
			answer := r.do(t, http.MethodPatch, ofKnown, `{"ttl":60}`)
			require.Equal(t, 404, answer.Code, answer.Body)
			assert.Equal(t, "idle", problemIn(t, answer).Reason)
		})
	}
}

func TestAPatchThatTheClusterStandsInTheWayOf(t *testing.T) {
	t.Parallel()
	for err, want := range map[error]string{
		sandbox.ErrUnavailable: api.CodeClusterUnavailable, session.ErrUnavailable: api.CodeStoreUnavailable, errSecret: api.CodeInternal,
	} {
		r := newRig(t)
		r.put(t)
		r.change = func(context.Context, string, session.Change) (session.Session, error) { return session.Session{}, err }
		told := problemIn(t, r.do(t, http.MethodPatch, ofKnown, `{"ttl":60}`))
		assert.Equal(t, want, told.Code)
		assert.NotContains(t, told.Message, "hunter2")
	}
}
