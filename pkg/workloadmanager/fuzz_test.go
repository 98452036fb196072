package workloadmanager_test

import (
	"encoding/json"
	"net/http"
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
