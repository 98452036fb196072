package router

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentcube/agentcube/pkg/api"
	"github.com/agentcube/agentcube/pkg/httpserver"
	"github.com/agentcube/agentcube/pkg/session"
)

// openConns is how many connections of the session are open.
func (r *rig) openConns(id string) int {
	r.router.conns.mu.Lock()
	defer r.router.conns.mu.Unlock()
	return len(r.router.conns.set[id])
}

func TestConnectionsToAnAddressThatWasLeftAreClosed(t *testing.T) {
	t.Parallel()
	for protocol, start := range map[string]func(*httptest.Server){
		session.ProtocolHTTP: (*httptest.Server).Start, session.ProtocolHTTPS: (*httptest.Server).StartTLS,
	} {
		t.Run(protocol, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			release := make(chan struct{})
			s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/slow" {
					_ = http.NewResponseController(w).Flush()
					<-release
				}
				_, _ = io.WriteString(w, "whole")
			}))
			closed := make(chan net.Conn, 10)
			s.Config.ConnState = func(c net.Conn, state http.ConnState) {
				if state == http.StateClosed {
					closed <- c
				}
			}
			start(s)
			t.Cleanup(s.Close)
			id := r.ready(s.Listener.Addr().String(), func(s *session.Session) { s.EntryPoints[0].Protocol = protocol })
			res, err := r.client().Do(r.request(http.MethodGet, echoPath+"/slow", id, nil))
			require.NoError(t, err)
			defer func() { _ = res.Body.Close() }()
			_, _ = r.get(echoPath+"/x", id) // the second connection, idle
			require.Eventually(t, func() bool { return r.openConns(id) == 2 }, deadline, time.Millisecond)
			r.router.conns.mu.Lock()
			for c := range r.router.conns.set[id] {
				assert.LessOrEqual(t, c.uses.Load(), int32(1))
			}
			r.router.conns.mu.Unlock()

			r.ready("10.0.0.7:80")
			require.Eventually(t, func() bool { // the handler may not have returned yet
				r.router.Leave(id)
				return r.openConns(id) == 1
			}, deadline, time.Millisecond)
			<-closed
			assert.Empty(t, closed, "a connection in use is left alone")
			close(release)
			body, err := io.ReadAll(res.Body)
			require.NoError(t, err)
			assert.Equal(t, "whole", string(body))
			<-closed
			assert.Zero(t, r.openConns(id))
		})
	}
}

func TestConnectionsToWhereASessionStillIsAreKept(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := newSandbox(t, nil)
	id := r.ready(s.endpoint())
	_, _ = r.get(echoPath+"/x", id)
	require.Equal(t, 1, r.openConns(id))
	for _, row := range []func(*session.Session){state(session.StateNotReady), state(session.StateReady)} {
		looked := make(chan struct{})
		r.ready(s.endpoint(), row)
		r.store.After("Get", func() { close(looked) })
		r.router.Leave(id)
		<-looked
	}
	r.router.conns.mu.Lock()
	for c := range r.router.conns.set[id] {
		assert.False(t, c.left.Load())
	}
	r.router.conns.mu.Unlock()
	assert.Equal(t, 1, r.openConns(id))
	for sentence, leave := range map[string]func(){
		"its address is another pod's": func() {
			r.ready(s.endpoint(), func(s *session.Session) { s.Generation = 2 })
			r.router.Leave(id)
		},
		"it went while nobody could tell": func() {
			r.rows.Wipe()
			r.router.LeaveAll()
		},
	} {
		r.ready(s.endpoint())
		_, _ = r.get(echoPath+"/x", id)
		leave()
		require.Eventually(t, func() bool { return r.openConns(id) == 0 }, deadline, time.Millisecond, sentence)
	}
}

func TestADialThatEndsAfterItsSessionLeftIsNoConnection(t *testing.T) {
	t.Parallel()
	s := newSandbox(t, nil)
	c := newConnections()
	x := &exchange{id: "id"}
	dial := c.dialer(func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, addr)
		c.leave(x.id, &session.Route{EntryPoints: []session.EntryPoint{{Endpoint: "10.0.0.7:80"}}})
		return conn, err
	})
	var err error
	httpserver.RequestID(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		httpserver.RecordFrom(r.Context()).Carry(x)
		_, err = dial(r.Context(), "tcp", s.endpoint())
	})).ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", http.NoBody))
	require.ErrorIs(t, err, errLeft)
	assert.True(t, isDial(err))
	assert.Empty(t, c.set)
}

func TestAnAddressThatWasGivenAwayIsDialledAnew(t *testing.T) {
	t.Parallel()
	server := newRedisServer(t)
	r, _, writer := onRedis(t, server, time.Minute)
	endpoint, received := rawSandbox(t, func(_ int, w io.Writer) bool {
		_, err := io.WriteString(w, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
		return err == nil
	})
	id := readyRow(t, writer, 1, endpoint)
	res, body := r.get(echoPath+"/x", id)
	require.Equal(t, http.StatusOK, res.StatusCode, body)
	require.Equal(t, 1, r.openConns(id))
	require.NoError(t, writer.Remove(t.Context(), id, func(session.Session) error { return nil }))
	require.Eventually(t, func() bool { return r.openConns(id) == 0 }, time.Second, time.Millisecond)

	other := readyRow(t, writer, 2, endpoint)
	res, body = r.do(r.request(http.MethodPost, echoPath+"/x", other, strings.NewReader("x")))
	require.Equal(t, http.StatusOK, res.StatusCode, body)
	assert.EqualValues(t, 2, received.Load())
}

func TestAConnectionThatSwitchedWithoutBeingAskedIsClosed(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	endpoint, _ := rawSandbox(t, func(_ int, w io.Writer) bool {
		_, err := io.WriteString(w, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: other\r\n\r\n")
		return err == nil
	})
	id := r.ready(endpoint)
	for range 3 {
		res, body := r.get(echoPath+"/x", id)
		fails(t, res, body, http.StatusBadGateway, api.CodeSandboxUnreachable)
	}
	require.Eventually(t, func() bool { return r.openConns(id) == 0 }, deadline, time.Millisecond) // the handler may not have returned yet
}

func TestTheHeadOfAnAnswerIsBounded(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	endpoint, _ := rawSandbox(t, func(_ int, w io.Writer) bool {
		_, _ = io.WriteString(w, "HTTP/1.1 200 OK\r\nX-Large: "+strings.Repeat("x", maxResponseHeader)+"\r\n\r\n")
		return false
	})
	res, body := r.get(echoPath+"/x", r.ready(endpoint))
	fails(t, res, body, http.StatusBadGateway, api.CodeSandboxUnreachable)
}

func TestARequestThatWaitsLearnsAtOnceThatItsSessionIsGone(t *testing.T) {
	t.Parallel()
	server := newRedisServer(t)
	r, _, writer := onRedis(t, server, time.Minute) // looks by itself every 5 s
	s := newSandbox(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	id := readyRow(t, writer, 1, s.endpoint())
	removed := make(chan time.Time, 1)
	go func() {
		<-s.received
		err := writer.Remove(context.WithoutCancel(t.Context()), id, func(session.Session) error { return nil })
		assert.NoError(t, err)
		removed <- time.Now()
	}()
	res, body := r.get(echoPath+"/x", id)
	fails(t, res, body, http.StatusNotFound, api.CodeSessionNotFound)
	assert.Less(t, time.Since(<-removed), defaultDialTimeout, "it was not told")
}
