package router

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentcube/agentcube/pkg/api"
	"github.com/agentcube/agentcube/pkg/session"
)

// silent is an address whose connections neither come about nor fail: its
// queue of connections to accept is full.
func silent(t *testing.T) string {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = syscall.Close(fd) })
	require.NoError(t, syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}))
	require.NoError(t, syscall.Listen(fd, 0))
	name, err := syscall.Getsockname(fd)
	require.NoError(t, err)
	address := fmt.Sprintf("127.0.0.1:%d", name.(*syscall.SockaddrInet4).Port)
	for {
		conn, err := (&net.Dialer{Timeout: 100 * time.Millisecond}).DialContext(t.Context(), "tcp", address)
		if err != nil {
			return address
		}
		t.Cleanup(func() { _ = conn.Close() })
	}
}

// quick shortens what only failing dials wait for.
func quick(_ *Dependencies, o *Options) {
	o.DialTimeout, o.RetryWindow = 200*time.Millisecond, 200*time.Millisecond
}

func TestAfterAFailedDialTheRowSaysWhatHappened(t *testing.T) {
	t.Parallel()
	for kind, address := range map[string]func(*testing.T) string{"refuses": refusing, "is silent": silent} {
		for sentence, c := range map[string]struct {
			change func(*rig)
			status int
			code   string
		}{
			"the session is gone":     {func(r *rig) { r.rows.Wipe() }, 404, api.CodeSessionNotFound},
			"it is being deleted":     {func(r *rig) { r.ready("10.0.0.7:80", state(session.StateDeleting)) }, 404, api.CodeSessionNotFound},
			"it is not ready":         {func(r *rig) { r.ready("10.0.0.7:80", state(session.StateNotReady)) }, 503, api.CodeSandboxNotReady},
			"it is suspended":         {func(r *rig) { r.ready("10.0.0.7:80", state(session.StateSuspended)) }, 503, api.CodeSessionSuspended},
			"the store does not tell": {func(r *rig) { r.store.FailNext("Get", session.ErrUnavailable) }, 503, api.CodeStoreUnavailable},
		} {
			t.Run("the sandbox "+kind+", "+sentence, func(t *testing.T) {
				t.Parallel()
				r := newRig(t, quick)
				id := r.ready(address(t))
				r.store.After("Get", func() { c.change(r) })
				res, body := r.do(r.request(http.MethodPost, echoPath+"/x", id, strings.NewReader("body")))
				fails(t, res, body, c.status, c.code)
				assert.Equal(t, id, res.Header.Get(api.HeaderSessionID))
				assert.NotEmpty(t, res.Header.Get(api.HeaderSessionGeneration))
			})
		}
	}
}

func state(s session.State) func(*session.Session) {
	return func(row *session.Session) { row.State = s }
}

func TestAFailedDialFollowsTheSessionToItsNewAddress(t *testing.T) {
	t.Parallel()
	for kind, address := range map[string]func(*testing.T) string{"refuses": refusing, "is silent": silent} {
		t.Run("the old one "+kind, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, quick)
			bodies := make(chan string, 10)
			s := newSandbox(t, func(_ http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				bodies <- string(body)
			})
			id := r.ready(address(t))
			r.store.After("Get", func() {
				r.ready(s.endpoint(), func(s *session.Session) { s.Generation, s.KeyID = 2, "new" })
			})

			res, text := r.do(r.request(http.MethodPost, echoPath+"/a%2Fb", id, strings.NewReader("payload")))

			require.Equal(t, http.StatusOK, res.StatusCode, text)
			assert.Equal(t, "2", res.Header.Get(api.HeaderSessionGeneration))
			assert.Equal(t, "payload", <-bodies)
			assert.Empty(t, bodies)
			got := s.last(t)
			assert.Equal(t, "/a%2Fb", got.RequestURI)
			assert.Equal(t, s.endpoint(), got.Host)
			assert.Equal(t, "Bearer token/"+id+"/new/", got.Header.Get("Authorization"))
		})
	}
}

func TestASandboxThatListensAMomentLaterIsReached(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	address := refusing(t)
	id := r.ready(address)
	var s *httptest.Server
	r.store.Before("Get", func() {}) // before the first dial
	r.store.Before("Get", func() {}) // after it
	r.store.Before("Get", func() {   // after the pause
		listener, err := net.Listen("tcp", address)
		if err != nil {
			return // and the test fails
		}
		s = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(w, r.Body)
		}))
		_ = s.Listener.Close()
		s.Listener = listener
		s.Start()
	})

	res, body := r.do(r.request(http.MethodPost, echoPath+"/x", id, strings.NewReader("payload")))

	require.NotNil(t, s)
	t.Cleanup(s.Close)
	require.Equal(t, http.StatusOK, res.StatusCode, body)
	assert.Equal(t, "payload", body)
}

func TestASandboxThatNeverAcceptsIsGivenUpInTime(t *testing.T) {
	t.Parallel()
	for sentence, c := range map[string]struct {
		address func(*testing.T) string
		status  int
		code    string
	}{
		"it refuses":   {refusing, http.StatusBadGateway, api.CodeSandboxUnreachable},
		"it is silent": {silent, http.StatusGatewayTimeout, api.CodeSandboxTimeout},
	} {
		t.Run(sentence, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, quick)
			id := r.ready(c.address(t))
			res, body := r.get(echoPath+"/x", id)
			fails(t, res, body, c.status, c.code)
			assert.Equal(t, id, res.Header.Get(api.HeaderSessionID))
			assert.Greater(t, r.store.Calls("Get"), 2, "the row is read again between dials")
		})
	}
}

func TestADialThatTheWindowCutsShortSaysNothingNew(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	id := r.ready(refusing(t))
	wire := &refusesThenHangs{}
	r.router.proxy.Transport = &redialer{router: r.router, wire: wire}
	res, body := r.get(echoPath+"/x", id)
	fails(t, res, body, http.StatusBadGateway, api.CodeSandboxUnreachable)
	assert.Greater(t, wire.dials, 1)
}

// refusesThenHangs refuses the first dial; the others time out.
type refusesThenHangs struct{ dials int }

func (w *refusesThenHangs) RoundTrip(*http.Request) (*http.Response, error) {
	w.dials++
	if w.dials == 1 {
		return nil, &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
	}
	return nil, &net.OpError{Op: "dial", Err: os.ErrDeadlineExceeded}
}

// readsAndIsRefused reads the body of each request, and puts it back, before it
// finds that it cannot be sent; the last one gets an answer.
type readsAndIsRefused struct{ bodies []string }

func (w *readsAndIsRefused) RoundTrip(r *http.Request) (*http.Response, error) {
	text, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	r.Body = io.NopCloser(strings.NewReader(string(text)))
	if w.bodies = append(w.bodies, string(text)); len(w.bodies) < 4 {
		return nil, &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	}
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: http.NoBody, Request: r}, nil
}

func TestEachDialThatIsRepeatedHasTheWholeBody(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	wire := &readsAndIsRefused{}
	r.router.proxy.Transport = &redialer{router: r.router, wire: wire}
	res, body := r.do(r.request(http.MethodPost, echoPath+"/x", r.ready("127.0.0.1:1"), strings.NewReader("body")))
	require.Equal(t, http.StatusOK, res.StatusCode, body)
	assert.Equal(t, []string{"body", "body", "body", "body"}, wire.bodies)
}

func TestANewAddressThatDoesNotAcceptEitherIsGivenUpInTime(t *testing.T) {
	t.Parallel()
	r := newRig(t, quick)
	id := r.ready(refusing(t))
	r.store.After("Get", func() {
		r.ready(refusing(t), func(s *session.Session) { s.Generation = 2 })
	})
	res, body := r.get(echoPath+"/x", id)
	fails(t, res, body, http.StatusBadGateway, api.CodeSandboxUnreachable)
	assert.Equal(t, "2", res.Header.Get(api.HeaderSessionGeneration))
}

// rawSandbox answers each request on a connection with what answer writes;
// false closes the connection.
func rawSandbox(t *testing.T, answer func(n int, w io.Writer) bool) (endpoint string, received *atomic.Int64) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	received = &atomic.Int64{}
	serve := func(conn net.Conn) {
		defer func() { _ = conn.Close() }()
		reader := bufio.NewReader(conn)
		for {
			req, err := http.ReadRequest(reader)
			if err != nil {
				return
			}
			if _, err := io.Copy(io.Discard, req.Body); err != nil {
				return
			}
			if !answer(int(received.Add(1)), conn) {
				return
			}
		}
	}
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go serve(conn)
		}
	}()
	return listener.Addr().String(), received
}

func TestAPostWhoseConnectionBreaksIsNotSentTwice(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	endpoint, received := rawSandbox(t, func(int, io.Writer) bool { return false })
	id := r.ready(endpoint)
	for _, body := range []string{"payload", ""} {
		before := received.Load()
		res, text := r.do(r.request(http.MethodPost, echoPath+"/x", id, strings.NewReader(body)))
		fails(t, res, text, http.StatusBadGateway, api.CodeSandboxUnreachable)
		assert.EqualValues(t, 1, received.Load()-before)
	}
}

func TestAPostThatBreaksOnAPooledConnectionIsNotSentTwice(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	endpoint, received := rawSandbox(t, func(n int, w io.Writer) bool {
		if n > 1 {
			return false // read, and then broken
		}
		_, err := io.WriteString(w, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
		return err == nil
	})
	id := r.ready(endpoint)
	res, text := r.get(echoPath+"/x", id)
	require.Equal(t, http.StatusOK, res.StatusCode, text)

	res, text = r.do(r.request(http.MethodPost, echoPath+"/x", id, strings.NewReader("payload")))

	fails(t, res, text, http.StatusBadGateway, api.CodeSandboxUnreachable)
	assert.EqualValues(t, 2, received.Load())
}

func TestAnswersThatAreNoneAreTold(t *testing.T) {
	t.Parallel()
	for sentence, answer := range map[string]string{
		"no HTTP":          "SSH-2.0-OpenSSH\r\n\r\n",
		"half a head":      "HTTP/1.1 200 OK\r\nContent-Le",
		"a bad length":     "HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
		"an odd switch":    "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: other\r\n\r\n",
		"nothing whatever": "",
	} {
		t.Run(sentence, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			endpoint, _ := rawSandbox(t, func(_ int, w io.Writer) bool {
				_, _ = io.WriteString(w, answer)
				return false
			})
			id := r.ready(endpoint)
			res, body := r.get(echoPath+"/x", id)
			fails(t, res, body, http.StatusBadGateway, api.CodeSandboxUnreachable)
			assert.Equal(t, []string{id}, res.Header.Values(api.HeaderSessionID))
		})
	}
}

func TestTheResponseDeadlineIsKept(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(_ *Dependencies, o *Options) { o.ResponseTimeout = 50 * time.Millisecond })
	s := newSandbox(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	id := r.ready(s.endpoint())
	res, body := r.get(echoPath+"/x", id)
	fails(t, res, body, http.StatusGatewayTimeout, api.CodeSandboxTimeout)
}

func TestABodyThatBreaksIsTheClientsFault(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := newSandbox(t, func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) })
	id := r.ready(s.endpoint())
	conn := r.dial()
	_, err := fmt.Fprintf(conn, "POST %s/x HTTP/1.1\r\nHost: h\r\n%s: %s\r\nTransfer-Encoding: chunked\r\n\r\nno chunk\r\n",
		echoPath, api.HeaderSessionID, id)
	require.NoError(t, err)
	res := readFrom(t, bufio.NewReader(conn))
	fails(t, res, res.body, http.StatusBadRequest, api.CodeInvalidRequest)
}

func TestASessionThatMovedIsNotServedByAPooledConnection(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	old := newSandbox(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "old") })
	fresh := newSandbox(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "new") })
	id := r.ready(old.endpoint())
	_, body := r.get(echoPath+"/x", id)
	require.Equal(t, "old", body)
	r.ready(fresh.endpoint(), func(s *session.Session) { s.Generation = 2 })
	for range 5 {
		res, body := r.get(echoPath+"/x", id)
		assert.Equal(t, "new", body)
		assert.Equal(t, "2", res.Header.Get(api.HeaderSessionGeneration))
	}
}

func TestActivityIsWhatReachedTheSandbox(t *testing.T) {
	t.Parallel()
	r := newRig(t, quick)
	s := newSandbox(t, nil)
	broken, _ := rawSandbox(t, func(int, io.Writer) bool { return false })
	for endpoint, active := range map[string]bool{s.endpoint(): true, refusing(t): false, silent(t): false, broken: false} {
		id := r.ready(endpoint)
		r.get(echoPath+"/x", id)
		r.activity.mu.Lock()
		_, marked := r.activity.pending[id]
		clear(r.activity.pending)
		assert.Empty(t, r.activity.flights)
		r.activity.mu.Unlock()
		assert.Equal(t, active, marked)
	}
}
