package router

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"k8s.io/utils/clock"

	"github.com/agentcube/agentcube/pkg/api"
	"github.com/agentcube/agentcube/pkg/auth"
	"github.com/agentcube/agentcube/pkg/httpserver"
	"github.com/agentcube/agentcube/pkg/router/lookup"
	"github.com/agentcube/agentcube/pkg/session"
	"github.com/agentcube/agentcube/pkg/session/sessiontest"
)

// canned is a transport that answers at once, so that what remains is the
// work of the proxy.
type canned struct{ body []byte }

func (c *canned) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{
		StatusCode: http.StatusOK, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header:        http.Header{"Content-Type": {"text/plain"}, "Date": {"Mon, 02 Jan 2006 15:04:05 GMT"}},
		Body:          &cannedBody{rest: c.body},
		ContentLength: int64(len(c.body)), Request: r,
	}, nil
}

type cannedBody struct{ rest []byte }

func (b *cannedBody) Read(p []byte) (int, error) {
	n := copy(p, b.rest)
	b.rest = b.rest[n:]
	if len(b.rest) == 0 {
		return n, io.EOF
	}
	return n, nil
}

func (b *cannedBody) Close() error { return nil }

// sink is a ResponseWriter that keeps nothing.
type sink struct{ header http.Header }

func (s *sink) Header() http.Header         { return s.header }
func (s *sink) Write(p []byte) (int, error) { return len(p), nil }
func (s *sink) WriteHeader(int)             {}
func (s *sink) Flush()                      {}

// discarding is a log as a program has it, whose records go nowhere.
func discarding() *zap.Logger {
	return zap.New(zapcore.NewCore(zapcore.NewJSONEncoder(zap.NewProductionEncoderConfig()), zapcore.AddSync(io.Discard), zap.InfoLevel))
}

// benchRouter is a router whose look-ups hit, on the given transport, or its
// own if that is nil.
func benchRouter(tb testing.TB, endpoint string, wire http.RoundTripper) (http.Handler, string) {
	tb.Helper()
	return benchRouterWith(tb, endpoint, wire, httpserver.NewRequests(prometheus.NewRegistry(), Routes()...).Observe)
}

// benchRouterWith is one whose requests are counted by observe, if not nil.
func benchRouterWith(tb testing.TB, endpoint string, wire http.RoundTripper, observe httpserver.ObserveFunc) (http.Handler, string) {
	tb.Helper()
	clk := clock.RealClock{}
	rows := sessiontest.NewFake(clk)
	log := discarding()
	s := session.Session{
		ID: sessiontest.ID(1), Object: session.ObjectRef{Kind: session.KindSandbox, Namespace: "default", Name: "echo-0w6nv4p1"},
		Workload: echoWorkload, State: session.StateReady, Generation: 1, CreatedAt: clk.Now(),
		EntryPoints: []session.EntryPoint{{Path: "/", Protocol: session.ProtocolHTTP, Endpoint: endpoint}},
	}
	require.NoError(tb, rows.Put(s))
	cache := lookup.New(clk, rows, lookup.Options{Proof: 24 * time.Hour}, log)
	cache.Connected(clk.Now(), true)
	health := httpserver.NewHealth(clk, log)
	rt := New(clk, Dependencies{
		Store: cache, Endings: rows, Creator: &fakeCreator{}, Signer: constant{}, Activity: NewRecorder(clk, rows, log), Health: health,
		Metrics: httpserver.Status("metrics"),
		Observe: observe,
	}, Options{AllowLoopbackEndpoints: true, MaxConcurrentRequests: 1000}, log)
	if wire != nil {
		rt.proxy.Transport = &redialer{router: rt, wire: wire}
	}
	return rt.Handler(), s.ID
}

// constant signs nothing: the signer remembers its tokens (pkg/auth).
type constant struct{}

func (constant) SandboxAuthorization(string, string, auth.Principal) (string, error) {
	return token, nil
}

var token = strings.Repeat("x", 600)

// bareProxy is what Go offers, with the router's transport and buffers.
func bareProxy(endpoint string, wire http.RoundTripper) http.Handler {
	if wire == nil {
		wire, _ = Wire(Options{})
	}
	target := &url.URL{Scheme: "http", Host: endpoint}
	return &httputil.ReverseProxy{
		Rewrite:    func(r *httputil.ProxyRequest) { r.SetURL(target); r.SetXForwarded() },
		Transport:  wire,
		BufferPool: &bufferPool{},
	}
}

func benchRequest(ctx context.Context, base, id string) *http.Request {
	req := httptest.NewRequestWithContext(ctx, http.MethodGet, base+echoPath+"/x?y=z", nil)
	req.Header.Set("User-Agent", "bench")
	req.Header.Set("Accept", "*/*")
	req.Header.Set(api.HeaderSessionID, id)
	req.RequestURI = echoPath + "/x?y=z"
	return req
}

// BenchmarkHandler is the work of the handler alone.
func BenchmarkHandler(b *testing.B) {
	wire := &canned{body: []byte("hello")}
	router, id := benchRouter(b, "127.0.0.1:80", wire)
	for name, handler := range map[string]http.Handler{"bare": bareProxy("127.0.0.1:80", wire), "router": router} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			req := benchRequest(b.Context(), "http://router.test", id)
			for b.Loop() {
				handler.ServeHTTP(&sink{http.Header{}}, req)
			}
		})
	}
}

// BenchmarkCounting is what metrics add to the work of the handler.
func BenchmarkCounting(b *testing.B) {
	wire := &canned{body: []byte("hello")}
	for name, observe := range map[string]httpserver.ObserveFunc{
		"without": nil, "with": httpserver.NewRequests(prometheus.NewRegistry(), Routes()...).Observe,
	} {
		router, id := benchRouterWith(b, "127.0.0.1:80", wire, observe)
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			req := benchRequest(b.Context(), "http://router.test", id)
			for b.Loop() {
				router.ServeHTTP(&sink{http.Header{}}, req)
			}
		})
	}
}

// BenchmarkRoundTrip is a request over sockets: client, proxy, sandbox, all in
// this process.
func BenchmarkRoundTrip(b *testing.B) {
	sandbox := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") }))
	b.Cleanup(sandbox.Close)
	endpoint := sandbox.Listener.Addr().String()
	router, id := benchRouter(b, endpoint, nil)
	for name, handler := range map[string]http.Handler{"bare": bareProxy(endpoint, nil), "router": router} {
		b.Run(name, func(b *testing.B) {
			server := httptest.NewServer(handler)
			defer server.Close()
			client := &http.Client{Transport: &http.Transport{}}
			req, err := http.NewRequestWithContext(b.Context(), http.MethodGet, server.URL+echoPath+"/x", nil)
			require.NoError(b, err)
			req.Header.Set(api.HeaderSessionID, id)
			b.ReportAllocs()
			for b.Loop() {
				res, err := client.Do(req)
				require.NoError(b, err)
				_, _ = io.Copy(io.Discard, res.Body)
				_ = res.Body.Close()
			}
		})
	}
}

// BenchmarkHandlerParallel shows what requests wait for each other for
// (-mutexprofile).
func BenchmarkHandlerParallel(b *testing.B) {
	wire := &canned{body: []byte("hello")}
	router, id := benchRouter(b, "127.0.0.1:80", wire)
	for name, handler := range map[string]http.Handler{"bare": bareProxy("127.0.0.1:80", wire), "router": router} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				req := benchRequest(b.Context(), "http://router.test", id)
				for pb.Next() {
					handler.ServeHTTP(&sink{http.Header{}}, req)
				}
			})
		})
	}
}
