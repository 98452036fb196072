package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"os"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentcube/agentcube/pkg/api"
	"github.com/agentcube/agentcube/test/system"
)

// statusClientGone stands in access logs where the caller went away.
const statusClientGone = 499

// caller has sent a request and may hang up before the answer.
type caller struct {
	requestID string
	hangUp    context.CancelFunc
}

// call sends a request to the workload-manager whose answer nobody reads.
func (e *env) call(t *testing.T, method, path, body string) *caller {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	c := &caller{requestID: uuid.NewString(), hangUp: cancel}
	url, header := e.Manager().URL+path, headers(api.HeaderRequestID, c.requestID)
	go func() { _, _ = send(ctx, method, url, header, body) }()
	return c
}

// letGo waits until the program has done with the request of a caller that hung
// up, and wants its access log to say so.
func (c *caller) letGo(t *testing.T, p *system.Program) {
	t.Helper()
	var record map[string]any
	require.Eventually(t, func() bool {
		for _, r := range logged(t, p, "request") {
			if r["requestId"] == c.requestID {
				record = r
			}
		}
		return record != nil
	}, settle, pollInterval, "the request is not over")
	assert.InDelta(t, statusClientGone, record["status"], 0)
	assert.Equal(t, api.CodeClientClosedRequest, record["code"])
}

// logged returns a program's log records with that message; all if it is empty.
func logged(t *testing.T, p *system.Program, message string) []map[string]any {
	t.Helper()
	text, err := os.ReadFile(p.Log())
	require.NoError(t, err)
	var found []map[string]any
	for line := range bytes.Lines(text) {
		var record map[string]any
		if json.Unmarshal(line, &record) == nil && (message == "" || record["msg"] == message) {
			found = append(found, record)
		}
	}
	return found
}

// loggedFor returns those that are about a session.
func loggedFor(t *testing.T, p *system.Program, message, id string) []map[string]any {
	t.Helper()
	var found []map[string]any
	for _, record := range logged(t, p, message) {
		if record["session"] == id {
			found = append(found, record)
		}
	}
	return found
}

// deletePath is where a session is ended.
func deletePath(id string) string { return agentRuntime + "/sessions/" + id }

// endsBy wants a DELETE by way of one workload-manager to be carried out.
func endsBy(t *testing.T, url, id string) {
	t.Helper()
	a := mustSend(t, http.MethodDelete, url+deletePath(id), nil, "")
	require.Equal(t, http.StatusOK, a.status, a)
}
