package router

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentcube/agentcube/pkg/api"
	"github.com/agentcube/agentcube/pkg/session"
)

// watched is a rig whose waiting requests are looked at all the time.
func watched(t *testing.T) *rig {
	t.Helper()
	r := newRig(t, func(_ *Dependencies, o *Options) { o.DialTimeout = 20 * time.Millisecond })
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- r.router.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-done)
	})
	return r
}

func TestARequestDoesNotWaitForASandboxThatIsGone(t *testing.T) {
	t.Parallel()
	for sentence, c := range map[string]struct {
		change func(*rig)
		status int
		code   string
	}{
		"the session is gone":      {func(r *rig) { r.rows.Wipe() }, 404, api.CodeSessionNotFound},
		"it is being deleted":      {func(r *rig) { r.ready("10.0.0.7:80", state(session.StateDeleting)) }, 404, api.CodeSessionNotFound},
		"its pod lost its address": {func(r *rig) { r.ready("", state(session.StateNotReady), noEntry) }, 503, api.CodeSandboxNotReady},
		"it is elsewhere":          {func(r *rig) { r.ready("10.0.0.7:80") }, 502, api.CodeSandboxUnreachable},
	} {
		t.Run(sentence, func(t *testing.T) {
			t.Parallel()
			r := watched(t)
			s := newSandbox(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
			id := r.ready(s.endpoint())
			go func() {
				<-s.received
				c.change(r)
			}()
			res, body := r.get(echoPath+"/x", id)
			fails(t, res, body, c.status, c.code)
			assert.Equal(t, id, res.Header.Get(api.HeaderSessionID))
		})
	}
}

func noEntry(s *session.Session) { s.EntryPoints = nil }

func TestARequestWaitsForASandboxThatTakesItsTime(t *testing.T) {
	t.Parallel()
	r := watched(t)
	answer := make(chan struct{})
	s := newSandbox(t, func(http.ResponseWriter, *http.Request) { <-answer })
	id := r.ready(s.endpoint())
	looks := make(chan struct{}, 100)
	go func() {
		<-s.received
		// Busy with this request, a sandbox may fail its probe; and the store
		// may fail to answer. Neither proves anything.
		r.ready(s.endpoint(), state(session.StateNotReady))
		r.store.FailNext("Get", session.ErrUnavailable)
		for range 3 {
			r.store.Before("Get", func() { looks <- struct{}{} })
		}
		for range 3 {
			<-looks
		}
		close(answer)
	}()
	res, body := r.get(echoPath+"/x", id)
	require.Equal(t, http.StatusOK, res.StatusCode, body)
	assert.Empty(t, r.router.waiting.since(r.clock.Now()))
}
