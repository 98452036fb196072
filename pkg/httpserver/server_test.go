package httpserver

import (
	"bufio"
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
)

// running is a server whose stop the test controls.
type running struct {
	*Server
	clk    *clocktesting.FakeClock
	health *Health
	stop   context.CancelFunc
	done   chan error
}

const (
	delay = 5 * time.Second
	bound = 30 * time.Second
)

func start(t *testing.T, handler http.HandlerFunc, config *tls.Config) *running {
	t.Helper()
	clk := clocktesting.NewFakeClock(time.Unix(1796072051, 0))
	r := &running{clk: clk, health: NewHealth(clk, zap.NewNop()), done: make(chan error, 1)}
	server, err := Listen(t.Context(), clk, Options{
		Addr: "127.0.0.1:0", TLS: config, Handler: handler, Health: r.health, DrainDelay: delay, DrainTimeout: bound,
	}, zap.NewNop())
	require.NoError(t, err)
	r.Server = server
	ctx, stop := context.WithCancel(t.Context())
	r.stop = stop
	r.health.Ready()
	go func() { r.done <- server.Run(ctx) }()
	return r
}

// drain begins the stop and lets the delay pass.
func (r *running) drain(t *testing.T) {
	t.Helper()
	r.stop()
	r.waitTimer(t)
	r.clk.Step(delay)
}

// waitTimer returns once the server waits for time to pass.
func (r *running) waitTimer(t *testing.T) {
	t.Helper()
	require.Eventually(t, r.clk.HasWaiters, 10*time.Second, time.Millisecond)
}

func (r *running) url() string { return "http://" + r.Addr().String() + "/" }

func fetch(t *testing.T, client *http.Client, url string) (status, proto int, body string, err error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		return 0, 0, "", err
	}
	resp, err := client.Do(req)
	if err != nil {
		return 0, 0, "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return resp.StatusCode, resp.ProtoMajor, string(text), err
}

// client has connections of its own, of HTTP/1.1 or of cleartext HTTP/2.
func client(t *testing.T, http2 bool) *http.Client {
	t.Helper()
	protocols := new(http.Protocols)
	protocols.SetHTTP1(!http2)
	protocols.SetUnencryptedHTTP2(http2)
	transport := &http.Transport{Protocols: protocols}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

func TestATakenPortIsAnErrorBeforeAnythingRuns(t *testing.T) {
	t.Parallel()
	taken, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer taken.Close()
	_, err = Listen(t.Context(), clock.RealClock{}, Options{Addr: taken.Addr().String()}, zap.NewNop())
	require.ErrorContains(t, err, "listening")
}

func TestARequestInFlightIsFinished(t *testing.T) {
	t.Parallel()
	for name, http2 := range map[string]bool{"HTTP/1.1": false, "HTTP/2 in cleartext": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			arrived, finish := make(chan struct{}), make(chan struct{})
			r := start(t, func(w http.ResponseWriter, req *http.Request) {
				if req.URL.Path == "/slow" {
					close(arrived)
					<-finish
					assert.NoError(t, req.Context().Err(), "a stop does not end the requests")
				}
				_, _ = w.Write([]byte("done"))
			}, nil)
			c := client(t, http2)
			type answer struct {
				proto int
				body  string
				err   error
			}
			slow := make(chan answer, 1)
			go func() {
				_, proto, body, err := fetch(t, c, r.url()+"slow")
				slow <- answer{proto, body, err}
			}()
			<-arrived

			r.stop()
			r.waitTimer(t)
			code, _ := probe(t, r.health.Readyz)
			assert.Equal(t, http.StatusServiceUnavailable, code, "readiness fails first")
			_, _, body, err := fetch(t, client(t, http2), r.url())
			require.NoError(t, err, "traffic that still comes is served during the delay")
			assert.Equal(t, "done", body)

			r.clk.Step(delay)
			require.Eventually(t, func() bool {
				conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", r.Addr().String())
				if err == nil {
					_ = conn.Close()
				}
				return err != nil
			}, 10*time.Second, time.Millisecond, "then the listener closes")
			select {
			case <-r.done:
				require.Fail(t, "the request was not waited for")
			default:
			}
			close(finish)
			got := <-slow
			require.NoError(t, got.err)
			assert.Equal(t, "done", got.body)
			assert.Equal(t, map[bool]int{false: 1, true: 2}[http2], got.proto)
			require.NoError(t, <-r.done)
		})
	}
}

func TestARequestLongerThanTheBoundIsCut(t *testing.T) {
	t.Parallel()
	arrived, ended := make(chan struct{}), make(chan struct{})
	r := start(t, func(_ http.ResponseWriter, req *http.Request) {
		close(arrived)
		<-req.Context().Done()
		close(ended)
	}, nil)
	failed := make(chan error, 1)
	go func() {
		_, _, _, err := fetch(t, client(t, false), r.url())
		failed <- err
	}()
	<-arrived
	r.drain(t)
	r.waitTimer(t)
	r.clk.Step(bound)
	require.NoError(t, <-r.done)
	require.Error(t, <-failed)
	select {
	case <-ended:
	default:
		require.Fail(t, "the handler was still running")
	}
}

func TestAHandlerThatIgnoresItsContextHoldsNobodyForEver(t *testing.T) {
	t.Parallel()
	arrived, release := make(chan struct{}), make(chan struct{})
	t.Cleanup(func() { close(release) })
	r := start(t, func(http.ResponseWriter, *http.Request) {
		close(arrived)
		<-release
	}, nil)
	go func() { _, _, _, _ = fetch(t, client(t, false), r.url()) }()
	<-arrived
	r.drain(t)
	r.waitTimer(t)
	r.clk.Step(bound)
	for {
		select {
		case err := <-r.done:
			require.NoError(t, err)
			return
		default:
			r.clk.Step(cutGrace) // once the server has begun to wait for it
		}
	}
}

// upgraded opens a connection that the handler has taken over, and returned.
func upgraded(t *testing.T) (*running, net.Conn, *bufio.Reader) {
	t.Helper()
	r := start(t, func(w http.ResponseWriter, _ *http.Request) {
		conn, rw, err := http.NewResponseController(w).Hijack()
		if !assert.NoError(t, err) {
			return
		}
		go func() {
			defer conn.Close()
			_, _ = rw.WriteString("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
			_ = rw.Flush()
			_, _ = io.Copy(conn, rw)
		}()
	}, nil)
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", r.Addr().String())
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	_, err = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
	require.NoError(t, err)
	reader := bufio.NewReader(conn)
	req := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", http.NoBody)
	resp, err := http.ReadResponse(reader, req)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, http.StatusSwitchingProtocols, resp.StatusCode)
	return r, conn, reader
}

func TestAnUpgradedConnectionIsWaitedFor(t *testing.T) {
	t.Parallel()
	r, conn, reader := upgraded(t)
	r.drain(t)
	r.waitTimer(t)
	_, err := io.WriteString(conn, "still here\n")
	require.NoError(t, err)
	line, err := reader.ReadString('\n')
	require.NoError(t, err)
	assert.Equal(t, "still here\n", line)
	select {
	case <-r.done:
		require.Fail(t, "the connection was not waited for")
	default:
	}
	require.NoError(t, conn.Close())
	require.NoError(t, <-r.done)
}

func TestAnUpgradedConnectionIsCutAtTheBound(t *testing.T) {
	t.Parallel()
	r, _, reader := upgraded(t)
	r.drain(t)
	r.waitTimer(t)
	r.clk.Step(bound)
	require.NoError(t, <-r.done)
	_, err := reader.ReadByte()
	require.Error(t, err)
}

func TestTLSIsServedWithHTTP2(t *testing.T) {
	t.Parallel()
	certificates := httptest.NewTLSServer(http.NotFoundHandler())
	defer certificates.Close()
	r := start(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("hello")) },
		&tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			return &certificates.TLS.Certificates[0], nil
		}})
	transport, ok := certificates.Client().Transport.(*http.Transport)
	require.True(t, ok)
	transport = transport.Clone()
	transport.ForceAttemptHTTP2 = true
	defer transport.CloseIdleConnections()
	status, proto, body, err := fetch(t, &http.Client{Transport: transport}, "https://"+r.Addr().String()+"/")
	require.NoError(t, err)
	assert.Equal(t, http.StatusOK, status)
	assert.Equal(t, 2, proto)
	assert.Equal(t, "hello", body)
	r.drain(t)
	require.NoError(t, <-r.done)
}

func TestAServerThatCannotServeSaysSo(t *testing.T) {
	t.Parallel()
	clk := clocktesting.NewFakeClock(time.Unix(0, 0))
	health := NewHealth(clk, zap.NewNop())
	server, err := Listen(t.Context(), clk, Options{Addr: "127.0.0.1:0", Handler: http.NotFoundHandler(), Health: health}, zap.NewNop())
	require.NoError(t, err)
	require.NoError(t, server.listener.Close())
	require.ErrorContains(t, server.Run(t.Context()), "serving on")
}

func TestAListenerThatFailsLeavesTheRequestsThereAreTheirTime(t *testing.T) {
	t.Parallel()
	arrived, finish := make(chan struct{}), make(chan struct{})
	r := start(t, func(w http.ResponseWriter, _ *http.Request) {
		close(arrived)
		<-finish
		_, _ = w.Write([]byte("served"))
	}, nil)
	bodies := make(chan string, 1)
	go func() {
		_, _, body, err := fetch(t, client(t, false), r.url())
		assert.NoError(t, err)
		bodies <- body
	}()
	<-arrived
	require.NoError(t, r.listener.Close())
	r.waitTimer(t)
	require.Empty(t, r.done, "a handler runs")
	close(finish)
	require.Equal(t, "served", <-bodies)
	require.ErrorContains(t, <-r.done, "serving on")
}
