package workloadmanager_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentcube/agentcube/pkg/session"
)

func FuzzCreateBody(f *testing.F) {
	for _, seed := range []string{
		validBody, "", "[]", "nul", `{"name":"a","namespace":"b","ttl":1e30,"metadata":{"a":"\u0000"}}`,
		`{"name":"a","name":"b"}`, "{\"name\":\"\xff\"}", `{"name":"a","namespace":"b","idleTimeout":-0}`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, body string) {
		r := newRig(t)
		answer := r.do(t, http.MethodPost, createRuntime, body)
		require.True(t, json.Valid(answer.Body.Bytes()))
		if answer.Code != http.StatusOK {
			require.Contains(t, []int{http.StatusBadRequest, http.StatusRequestEntityTooLarge}, answer.Code)
			assert.Empty(t, r.created)
			return
		}
		require.Len(t, r.created, 1)
		got := r.created[0]
		assert.NotEmpty(t, got.Workload.Namespace)
		assert.NotEmpty(t, got.Workload.Name)
		assert.GreaterOrEqual(t, got.Lifetimes.TTL, time.Duration(0))
		if got.Metadata != nil {
			var object map[string]any
			require.NoError(t, json.Unmarshal(got.Metadata, &object))
		}
	})
}

func FuzzSessionID(f *testing.F) {
	for _, seed := range []string{knownID, "expiry", "*", "", "a/b", "a%2Fb", "\n", "../x"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, id string) {
		r := newRig(t)
		answer := r.do(t, http.MethodDelete, createRuntime+"/sessions/"+url.PathEscape(id), "")
		require.True(t, json.Valid(answer.Body.Bytes()))
		if session.ValidID(id) {
			require.Equal(t, http.StatusOK, answer.Code)
			return
		}
		require.Equal(t, http.StatusNotFound, answer.Code)
		assert.Empty(t, r.removed)
	})
}

func FuzzPatchBody(f *testing.F) {
	for _, seed := range []string{
		`{"ttl":60}`, `{"idleTimeout":1,"ttl":2147483647}`, "", "[]", "nul", "null", "{}", `{"ttl":1e30}`, `{"ttl":1,"ttl":1}`,
		"{\"ttl\":\"\xff\"}", `{"idleTimeout":-0}`, `{"ttl":null}`, `{"ttl":0x10}`, `{"ttl":1_000}`, `{"ttl":+1}`, `{"TTL":60}`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, body string) {
		r := newRig(t)
		s := r.put(t)
		answer := r.do(t, http.MethodPatch, ofKnown, body)
		require.True(t, json.Valid(answer.Body.Bytes()))
		if answer.Code != http.StatusOK {
			require.Contains(t, []int{http.StatusBadRequest, http.StatusRequestEntityTooLarge}, answer.Code)
			assert.Empty(t, r.changed)
			return
		}
		require.Len(t, r.changed, 1)
		got := r.changed[0]
		assert.True(t, got.Idle > 0 || got.ExpiresAt.After(s.CreatedAt))
		assert.GreaterOrEqual(t, got.Idle, time.Duration(0))
		assert.True(t, got.ExpiresAt.IsZero() || !got.ExpiresAt.Before(s.CreatedAt.Add(time.Second)))
	})
}

func FuzzReadQuery(f *testing.F) {
	for _, seed := range []string{"", "wait=30s", "wait=-1s", "wait=1h&from=x", "wait=%zz", "a;b", "wait=0s&wait=0s"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, query string) {
		r := newRig(t)
		r.put(t)
		r.hub.Close() // nobody waits
		request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, ofKnown, nil)
		request.URL.RawQuery = query
		answer := httptest.NewRecorder()
		r.server.ServeHTTP(answer, request)
		require.True(t, json.Valid(answer.Body.Bytes()))
		require.Contains(t, []int{http.StatusOK, http.StatusBadRequest}, answer.Code)
	})
}
