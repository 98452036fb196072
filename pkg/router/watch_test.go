package router

import (
	"context"
	"io"
	"net/http"
	"strings"
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
	return newRig(t, func(_ *Dependencies, o *Options) { o.DialTimeout = 20 * time.Millisecond })
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
	assert.Empty(t, r.router.waiting.set)
}

func TestARequestThatIsEndedJustAsItIsAnsweredIsEndedWhole(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	id := r.ready("10.0.0.7:80")
	body := &closeable{Reader: strings.NewReader("never told")}
	r.router.proxy.Transport = &redialer{router: r.router, wire: roundTrip(func(req *http.Request) (*http.Response, error) {
		for one := range r.router.waiting.set { // there is but this request
			r.router.waiting.end(one, errReplaced)
		}
		return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: body, Request: req}, nil
	})}
	res, text := r.get(echoPath+"/x", id)
	fails(t, res, text, http.StatusBadGateway, api.CodeSandboxUnreachable)
	assert.True(t, body.closed)
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

type closeable struct {
	io.Reader
	closed bool
}

func (c *closeable) Close() error {
	c.closed = true
	return nil
}

func TestADialThatHangsFollowsTheSessionAtOnce(t *testing.T) {
	t.Parallel()
	server := newRedisServer(t)
	r, _, writer := onRedis(t, server, time.Minute) // a dial may take 5 s
	endpoint := named(t, "sandbox")
	id := readyRow(t, writer, 1, silent(t))
	moved := make(chan time.Time, 1)
	go func() {
		assert.Eventually(t, func() bool { return r.openConns(id) == 1 }, deadline, time.Millisecond) // it is being dialled
		_, err := writer.Update(context.WithoutCancel(t.Context()), id, func(s *session.Session) error {
			s.EntryPoints[0].Endpoint = endpoint
			s.Generation++
			return nil
		})
		assert.NoError(t, err)
		moved <- time.Now()
	}()
	res, body := r.do(r.request(http.MethodPost, echoPath+"/x", id, strings.NewReader("payload")))
	require.Equal(t, http.StatusOK, res.StatusCode, body)
	assert.Equal(t, "sandbox", body)
	assert.Less(t, time.Since(<-moved), defaultDialTimeout, "it was not told")
}
