package workloadmanager_test

import (
	"context"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentcube/agentcube/pkg/api"
	"github.com/agentcube/agentcube/pkg/session"
	"github.com/agentcube/agentcube/pkg/workload"
	"github.com/agentcube/agentcube/pkg/workloadmanager/provision"
)

// exchange was recorded from a running installation. Note says where we differ
// on purpose.
type exchange struct {
	Name    string `json:"name"`
	Note    string `json:"note"`
	Request struct {
		Method  string            `json:"method"`
		Path    string            `json:"path"`
		Headers map[string]string `json:"headers"`
		Body    string            `json:"body"`
	} `json:"request"`
	Response struct {
		Status  int               `json:"status"`
		Headers map[string]string `json:"headers"`
		Body    string            `json:"body"`
	} `json:"response"`
}

// recorded answers a create with the session that the recording tells of.
func recorded(t *testing.T, body string) func(context.Context, provision.Request) (session.Session, error) {
	t.Helper()
	return func(_ context.Context, r provision.Request) (session.Session, error) {
		var want api.CreateResponse
		require.NoError(t, json.Unmarshal([]byte(body), &want))
		assert.Equal(t, want.Kind == session.KindSandboxClaim, r.Warm)
		s := session.Session{
			ID: want.SessionID, State: session.StateReady, Generation: 1,
			Object:  session.ObjectRef{Kind: want.Kind, Namespace: "default", Name: want.SandboxName, UID: "uid-of-object"},
			Sandbox: session.SandboxRef{Name: "its-own-name", UID: want.SandboxID},
		}
		for _, e := range want.EntryPoints {
			s.EntryPoints = append(s.EntryPoints, session.EntryPoint(e))
		}
		return s, nil
	}
}

func TestRecordedRequestsAreAnsweredAsRecorded(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("testdata/transcripts.json")
	require.NoError(t, err)
	var exchanges []exchange
	require.NoError(t, json.Unmarshal(data, &exchanges))
	require.NotEmpty(t, exchanges)

	r := newRig(t)
	deleted := map[string]bool{"00000000-0000-4000-8000-000000000000": true}
	r.remove = func(_ context.Context, id, _ string) error {
		if deleted[id] {
			return session.ErrNotFound
		}
		deleted[id] = true
		return nil
	}
	r.find = func(_ context.Context, ref session.WorkloadRef) (workload.Workload, error) {
		if ref.Name == "nope" {
			return workload.Workload{}, workload.ErrNotFound
		}
		return template(ref), nil
	}
	for _, x := range exchanges { // in their order: sessions are made and deleted
		r.create = recorded(t, x.Response.Body)
		var headers []string
		for name, value := range x.Request.Headers {
			headers = append(headers, name, value)
		}
		answer := r.do(t, x.Request.Method, x.Request.Path, x.Request.Body, headers...)
		if x.Note != "" {
			assert.Equal(t, 405, answer.Code, x.Name)
			assert.Equal(t, api.CodeMethodNotAllowed, problemIn(t, answer).Code, x.Name)
			continue
		}
		assert.Equal(t, x.Response.Status, answer.Code, x.Name)
		assert.Equal(t, x.Response.Headers["content-type"], answer.Header().Get("Content-Type"), x.Name)
		// Our own fields come after the recorded ones.
		body := strings.TrimSpace(answer.Body.String())
		assert.True(t, strings.HasPrefix(body, strings.TrimSuffix(x.Response.Body, "}")), "%s: %s", x.Name, body)
		assert.True(t, json.Valid([]byte(body)), x.Name)
	}
}
