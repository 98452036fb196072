package router

import (
	"bufio"
	"context"
	"crypto/sha256"
	"crypto/x509"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentcube/agentcube/pkg/api"
	"github.com/agentcube/agentcube/pkg/session"
)

func TestAnEventArrivesBeforeTheNextIsSent(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	next := make(chan struct{})
	s := newSandbox(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for i := range 3 {
			_, _ = fmt.Fprintf(w, "data: %d\n\n", i)
			_ = http.NewResponseController(w).Flush()
			select {
			case <-next:
			case <-r.Context().Done():
			}
		}
	})
	id := r.ready(s.endpoint())
	res, err := r.client().Do(r.request(http.MethodGet, echoPath+"/events", id, nil))
	require.NoError(t, err)
	defer func() { _ = res.Body.Close() }()
	assert.Equal(t, id, res.Header.Get(api.HeaderSessionID))
	lines := bufio.NewScanner(res.Body)
	for i := range 3 {
		require.True(t, lines.Scan())
		assert.Equal(t, fmt.Sprintf("data: %d", i), lines.Text())
		require.True(t, lines.Scan()) // the empty line
		next <- struct{}{}
	}
	require.False(t, lines.Scan())
	require.NoError(t, lines.Err())
}

func echoSocket(w http.ResponseWriter, r *http.Request) {
	conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{InsecureSkipVerify: true})
	if err != nil {
		return
	}
	defer func() { _ = conn.CloseNow() }()
	for {
		kind, message, err := conn.Read(r.Context())
		if err != nil {
			return
		}
		if conn.Write(r.Context(), kind, message) != nil {
			return
		}
	}
}

// socket opens a WebSocket through the router.
func (r *rig) socket(query string, h http.Header) (*websocket.Conn, reply, error) {
	r.t.Helper()
	//nolint:bodyclose // the library closes it
	conn, res, err := websocket.Dial(r.t.Context(), r.server.URL+echoPath+"/ws"+query,
		&websocket.DialOptions{HTTPHeader: h})
	require.NotNil(r.t, res)
	if conn != nil {
		r.t.Cleanup(func() { _ = conn.CloseNow() })
	}
	return conn, reply{StatusCode: res.StatusCode, Header: res.Header}, err
}

func TestWebSocketsAreCarried(t *testing.T) { //nolint:tparallel // the cases share a sandbox
	t.Parallel()
	r := newRig(t)
	s := newSandbox(t, echoSocket)
	id := r.ready(s.endpoint())
	const name = api.HeaderSessionID
	for sentence, c := range map[string]struct { //nolint:paralleltest // they share the sandbox
		query  string
		header http.Header
		want   string
	}{
		"named by the header": {"", header(name, id), "/ws"},
		"named by the query":  {"?a&" + name + "=" + id, nil, "/ws?a"},
		"named by the cookie": {"", header("Cookie", name+"="+id), "/ws"},
	} {
		t.Run(sentence, func(t *testing.T) {
			conn, res, err := r.socket(c.query, c.header)
			require.NoError(t, err)
			assert.Equal(t, id, res.Header.Get(name))
			assert.Equal(t, "1", res.Header.Get(api.HeaderSessionGeneration))
			assert.Equal(t, c.want, s.last(t).RequestURI)
			for _, message := range []string{"one", strings.Repeat("x", 20<<10)} {
				require.NoError(t, conn.Write(t.Context(), websocket.MessageText, []byte(message)))
				_, got, err := conn.Read(t.Context())
				require.NoError(t, err)
				assert.Equal(t, message, string(got))
			}
			assert.EqualValues(t, 1, r.router.limiter.upgraded.Load())
			assert.EqualValues(t, 0, r.router.limiter.inFlight.Load())
			require.NoError(t, conn.Close(websocket.StatusNormalClosure, ""))
			require.Eventually(t, func() bool { return r.router.limiter.upgraded.Load() == 0 }, deadline, time.Millisecond,
				"the next case counts from none")
		})
	}
}

func TestUpgradedConnectionsDoNotUseTheLimitUp(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(_ *Dependencies, o *Options) { o.MaxConcurrentRequests = 1 })
	s := newSandbox(t, echoSocket)
	id := r.ready(s.endpoint())
	for range 3 {
		_, _, err := r.socket("", header(api.HeaderSessionID, id))
		require.NoError(t, err)
	}
	res, body := r.get("/v1/namespaces/default/agent-runtimes/other/invocations/", id)
	fails(t, res, body, http.StatusConflict, api.CodeSessionTargetMismatch)
}

func TestARefusedUpgradePasses(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := newSandbox(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) })
	id := r.ready(s.endpoint())
	_, res, err := r.socket("", header(api.HeaderSessionID, id))
	require.Error(t, err)
	assert.Equal(t, http.StatusTeapot, res.StatusCode)
}

func TestTrailersPassBothWays(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := newSandbox(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Trailer", "X-Announced")
		_, _ = io.WriteString(w, "body")
		w.Header().Set("X-Announced", r.Trailer.Get("X-Sum"))
		w.Header().Set(http.TrailerPrefix+"X-Late", "late")
	})
	id := r.ready(s.endpoint())
	body, in := io.Pipe()
	req := r.request(http.MethodPost, echoPath+"/x", id, body)
	req.Trailer = http.Header{"X-Sum": nil}
	go func() {
		_, _ = io.WriteString(in, "data")
		req.Trailer.Set("X-Sum", "42")
		_ = in.Close()
	}()

	res, _ := r.do(req)

	assert.Equal(t, "42", res.Trailer.Get("X-Announced"))
	assert.Equal(t, "late", res.Trailer.Get("X-Late"))
}

func TestEarlyHintsPassAndTheAnswerKeepsItsSession(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := newSandbox(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Link", "</a.css>; rel=preload")
		w.WriteHeader(http.StatusEarlyHints)
		w.Header().Del("Link")
	})
	id := r.ready(s.endpoint())
	conn := r.dial()
	_, err := fmt.Fprintf(conn, "GET %s/x HTTP/1.1\r\nHost: h\r\n%s: %s\r\n\r\n", echoPath, api.HeaderSessionID, id)
	require.NoError(t, err)
	reader := bufio.NewReader(conn)

	hints := readFrom(t, reader)
	assert.Equal(t, http.StatusEarlyHints, hints.StatusCode)
	assert.Equal(t, "</a.css>; rel=preload", hints.Header.Get("Link"))
	final := readFrom(t, reader)
	assert.Equal(t, http.StatusOK, final.StatusCode)
	assert.Equal(t, id, final.Header.Get(api.HeaderSessionID))
}

func TestAHundredMegabytesPassWholeBothWays(t *testing.T) {
	t.Parallel()
	const size = 100 << 20
	r := newRig(t)
	s := newSandbox(t, func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).EnableFullDuplex()
		_, _ = io.Copy(w, r.Body)
	})
	id := r.ready(s.endpoint())
	sent, got := sha256.New(), sha256.New()
	source := io.TeeReader(io.LimitReader(rand.NewChaCha8([32]byte{}), size), sent)
	res, err := r.client().Do(r.request(http.MethodPost, echoPath+"/x", id, source))
	require.NoError(t, err)
	defer func() { _ = res.Body.Close() }()
	n, err := io.Copy(got, res.Body)
	require.NoError(t, err)
	assert.EqualValues(t, size, n)
	assert.Equal(t, sent.Sum(nil), got.Sum(nil))
}

func TestABodyWaitsForTheSandboxsConsent(t *testing.T) {
	t.Parallel()
	for sentence, c := range map[string]struct {
		consents bool
		status   int
	}{
		"it consents": {true, http.StatusOK},
		"it refuses":  {false, http.StatusRequestEntityTooLarge},
	} {
		t.Run(sentence, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			bodies := make(chan string, 1)
			s := newSandbox(t, func(w http.ResponseWriter, r *http.Request) {
				if !c.consents {
					w.WriteHeader(http.StatusRequestEntityTooLarge)
					return
				}
				body, _ := io.ReadAll(r.Body) // which consents
				bodies <- string(body)
			})
			id := r.ready(s.endpoint())
			conn := r.dial()
			_, err := fmt.Fprintf(conn, "POST %s/x HTTP/1.1\r\nHost: h\r\n%s: %s\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n",
				echoPath, api.HeaderSessionID, id)
			require.NoError(t, err)
			reader := bufio.NewReader(conn)
			assert.Equal(t, "100-continue", s.last(t).Header.Get("Expect"))
			if c.consents {
				require.Equal(t, http.StatusContinue, readFrom(t, reader).StatusCode)
				_, err = io.WriteString(conn, "body")
				require.NoError(t, err)
				assert.Equal(t, "body", <-bodies)
			}
			final := readFrom(t, reader)
			assert.Equal(t, c.status, final.StatusCode, final.body)
			assert.Equal(t, id, final.Header.Get(api.HeaderSessionID))
		})
	}
}

func TestAWebSocketStaysOpenForLongerThanEveryTimeout(t *testing.T) {
	t.Parallel()
	const timeout = 20 * time.Millisecond
	r := newRig(t, func(_ *Dependencies, o *Options) {
		o.ResponseTimeout, o.DialTimeout, o.RetryWindow = timeout, timeout, timeout
	})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- r.router.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-done)
	})
	s := newSandbox(t, echoSocket)
	conn, _, err := r.socket("", header(api.HeaderSessionID, r.ready(s.endpoint())))
	require.NoError(t, err)
	for range 3 {
		<-r.clock.After(5 * timeout)
		require.NoError(t, conn.Write(t.Context(), websocket.MessageText, []byte("still there")))
		_, got, err := conn.Read(t.Context())
		require.NoError(t, err)
		assert.Equal(t, "still there", string(got))
	}
}

func TestALongUploadReachesTheSandboxAsItComes(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	seen := make(chan string)
	s := newSandbox(t, func(_ http.ResponseWriter, r *http.Request) {
		buf := make([]byte, 4)
		for {
			if _, err := io.ReadFull(r.Body, buf); err != nil {
				return
			}
			seen <- string(buf)
		}
	})
	id := r.ready(s.endpoint())
	body, in := io.Pipe()
	go func() {
		for i := range 5 {
			piece := fmt.Sprintf("%04d", i)
			_, _ = io.WriteString(in, piece)
			assert.Equal(t, piece, <-seen)
		}
		_ = in.Close()
	}()
	res, text := r.do(r.request(http.MethodPost, echoPath+"/x", id, body))
	assert.Equal(t, http.StatusOK, res.StatusCode, text)
}

func TestABrokenAnswerIsNotTakenForAWholeOne(t *testing.T) {
	t.Parallel()
	for sentence, length := range map[string]string{"of known length": "100", "chunked": ""} {
		t.Run(sentence, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			s := newSandbox(t, func(w http.ResponseWriter, _ *http.Request) {
				if length != "" {
					w.Header().Set("Content-Length", length)
				}
				_, _ = io.WriteString(w, "part")
				_ = http.NewResponseController(w).Flush()
				panic(http.ErrAbortHandler)
			})
			id := r.ready(s.endpoint())
			res, err := r.client().Do(r.request(http.MethodGet, echoPath+"/x", id, nil))
			if err != nil {
				return // broken before the head was sent on
			}
			defer func() { _ = res.Body.Close() }()
			_, err = io.ReadAll(res.Body)
			require.Error(t, err)
		})
	}
}

func TestAClientThatLeavesEndsTheSandboxsRequest(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ended := make(chan struct{})
	s := newSandbox(t, func(_ http.ResponseWriter, r *http.Request) {
		<-r.Context().Done()
		close(ended)
	})
	id := r.ready(s.endpoint())
	ctx, leave := context.WithCancel(t.Context())
	req := r.request(http.MethodGet, echoPath+"/x", id, nil).WithContext(ctx)
	done := make(chan error, 1)
	go func() {
		_, err := r.client().Do(req) //nolint:bodyclose // it fails
		done <- err
	}()
	s.last(t)
	leave()
	require.ErrorIs(t, <-done, context.Canceled)
	<-ended
	r.server.Close()
	record := r.logs.FilterMessage("request").All()[0].ContextMap()
	assert.EqualValues(t, statusClientClosed, record["status"])
	assert.Equal(t, api.CodeClientClosedRequest, record["code"])
}

// h2 is a client that speaks HTTP/2 without TLS.
func h2(t *testing.T) *http.Client {
	t.Helper()
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	transport := &http.Transport{Protocols: &protocols}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

func TestHTTP2IsSpokenToTheSandboxForGRPCOnly(t *testing.T) { //nolint:tparallel // the cases share a sandbox
	t.Parallel()
	r := newRig(t)
	s := &sandbox{received: make(chan *http.Request, 10)}
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Trailer", "Grpc-Status")
		w.Header().Set("Grpc-Status", "0")
		s.received <- r
	}))
	s.Config.Protocols = new(http.Protocols)
	s.Config.Protocols.SetHTTP1(true)
	s.Config.Protocols.SetUnencryptedHTTP2(true)
	s.Start()
	t.Cleanup(s.Close)
	id := r.ready(s.endpoint())
	for sentence, c := range map[string]struct { //nolint:paralleltest // they share the sandbox
		client      *http.Client
		contentType string
		want        int
	}{
		"gRPC by HTTP/2":          {h2(t), "application/grpc", 2},
		"gRPC with a codec":       {h2(t), "application/grpc+proto", 2},
		"gRPC-Web by HTTP/2":      {h2(t), "application/grpc-web", 1},
		"anything else by HTTP/2": {h2(t), "application/json", 1},
		"gRPC by HTTP/1.1":        {r.client(), "application/grpc", 1},
	} {
		t.Run(sentence, func(t *testing.T) {
			req := r.request(http.MethodPost, echoPath+"/svc/Method?a%2F;", id, strings.NewReader("x"))
			req.Header.Set("Content-Type", c.contentType)
			req.Header.Set("Te", "trailers")
			res, err := c.client.Do(req)
			require.NoError(t, err)
			defer func() { _ = res.Body.Close() }()
			_, err = io.Copy(io.Discard, res.Body)
			require.NoError(t, err)
			require.Equal(t, http.StatusOK, res.StatusCode)
			assert.Equal(t, "0", res.Trailer.Get("Grpc-Status"))
			got := s.last(t)
			assert.Equal(t, c.want, got.ProtoMajor)
			assert.Equal(t, "trailers", got.Header.Get("Te"))
			assert.Equal(t, "/svc/Method?a%2F;", got.RequestURI)
			assert.Equal(t, s.endpoint(), got.Host)
		})
	}
}

func TestHTTPSEntryPointsAreVerifiedOnlyWithACA(t *testing.T) {
	t.Parallel()
	s := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(s.Close)
	s.Config.ErrorLog = nil
	own := x509.NewCertPool()
	own.AddCert(s.Certificate())
	for sentence, c := range map[string]struct {
		roots  *x509.CertPool
		status int
	}{
		"without a CA": {nil, http.StatusOK},
		"its CA":       {own, http.StatusOK},
		"another's CA": {x509.NewCertPool(), http.StatusBadGateway},
	} {
		t.Run(sentence, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, func(_ *Dependencies, o *Options) { o.SandboxCAs = c.roots })
			id := r.ready(s.Listener.Addr().String(), func(s *session.Session) {
				s.EntryPoints[0].Protocol = session.ProtocolHTTPS
			})
			res, body := r.get(echoPath+"/x", id)
			require.Equal(t, c.status, res.StatusCode, body)
		})
	}
}

func TestParallelRequestsKeepTheirSessionsApart(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	one := newSandbox(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "one") })
	two := newSandbox(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "two") })
	ids := map[string]string{
		r.ready(one.endpoint()): "one",
		r.ready(two.endpoint(), func(s *session.Session) { s.ID = "00000000-0000-4000-8000-00000000000f" }): "two",
	}
	client := r.client()
	var wg sync.WaitGroup
	for range 8 {
		for id, want := range ids {
			wg.Go(func() {
				for range 5 {
					res, err := client.Do(r.request(http.MethodGet, echoPath+"/x", id, nil))
					if err != nil {
						t.Error(err)
						return
					}
					body, _ := io.ReadAll(res.Body)
					_ = res.Body.Close()
					assert.Equal(t, want, string(body))
					assert.Equal(t, id, res.Header.Get(api.HeaderSessionID))
				}
			})
		}
	}
	wg.Wait()
}
