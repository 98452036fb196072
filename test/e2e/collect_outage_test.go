package e2e

import (
	"context"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentcube/agentcube/pkg/api"
	"github.com/agentcube/agentcube/pkg/session"
)

// slowCollectBehaviours are those that wait for a timeout.
var slowCollectBehaviours = []behaviour{
	{"a router whose clock is ahead keeps its sessions for one timeout more at most", clockAhead},
	{"after an outage of the store that was longer than the idle timeout all who were active live on", outageOutlived},
}

// outageOutlived has three sessions that are in use in an outage, each in
// another way, and one that is not, whose end shows that collection goes on: it
// is looked at again session.RetryAfter(0) after the pause kept it, which is
// before the timeout of the others is over.
func outageOutlived(t *testing.T, e *env) {
	const timeout = 20 * time.Second
	s := e.site(t)
	s.addManager(t, "--outage-pause=5s")
	s.addRouter(t, "--max-staleness=1m") // longer than the outage
	s.apply(t, withTimeout(runtimeTemplate("echo"), timeout.String()))
	asks, streams, streamed := s.create(t, agentRuntime, "echo").SessionID,
		s.create(t, agentRuntime, "echo").SessionID, s.create(t, agentRuntime, "echo").SessionID
	idle := s.create(t, agentRuntime, "echo").SessionID
	s.stream(t, streams)
	end := s.stream(t, streamed)
	s.echoes(t, agentRuntime, "echo", asks) // from here on the router knows it

	require.NoError(t, s.Redis.Stop())
	away := time.Now()
	s.asksUntil(t, asks, func() bool { return time.Since(away) > timeout+session.IdleGrace+2*time.Second })
	ended := time.Now()
	end()
	require.NoError(t, s.Redis.Start(t.Context()))
	s.asksUntil(t, asks, func() bool { _, there := s.row(t, idle); return !there })
	for _, id := range []string{asks, streams, streamed} {
		row, ok := s.row(t, id)
		require.True(t, ok, "collected although it was in use")
		assert.Equal(t, "ready", row["status"])
		s.echoes(t, agentRuntime, "echo", id)
		assert.GreaterOrEqual(t, s.score(t, lastActivity, id).Unix(), ended.Unix()-1, "what the router held back was lost")
	}
}

// stream opens an endless stream and returns how to close it. It is open once
// the sandbox has begun to answer.
func (e *env) stream(t *testing.T, id string) (end func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, e.invocations(agentRuntime, "echo")+"/sse?n=0&d=100ms", nil)
	require.NoError(t, err)
	request.Header.Set(api.HeaderSessionID, id)
	response, err := http.DefaultClient.Do(request) //nolint:bodyclose // closed where it is read to its end
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, response.StatusCode)
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		_, _ = io.Copy(io.Discard, response.Body) // until it is ended
		_ = response.Body.Close()
	}()
	return func() { cancel(); <-closed }
}

// asksUntil sends a request every now and then until there is an end. Each is
// served, whether the store is there or away.
func (e *env) asksUntil(t *testing.T, id string, over func() bool) {
	t.Helper()
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		a := e.invoke(t, agentRuntime, "echo", id, "/x")
		require.Equal(t, http.StatusOK, a.status, a)
		assert.True(c, over())
	}, 2*settle, 10*pollInterval)
}
