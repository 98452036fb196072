package router

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"strings"
	"time"

	"k8s.io/utils/clock"
)

const (
	// idleConnTimeout closes pooled connections before sandboxes do: the
	// usual application servers keep an idle one for 5 s, and a POST sent
	// just as it is being closed cannot be sent again.
	idleConnTimeout = 4 * time.Second
	// Idle connections that each pool keeps, per sandbox and in all. Those of a
	// http.Transport hold two goroutines and two buffers, some 17 kB each.
	maxIdleConnsPerSandbox = 256
	maxIdleConns           = 512
	// maxResponseHeader bounds the head of a sandbox's answer, 1 MiB.
	maxResponseHeader = 1 << 20
	// continueTimeout is how long a body waits for the "100 Continue" that
	// its client asked for.
	continueTimeout = time.Second
)

// keepAlive finds a peer that went silent while a stream had nothing to say,
// within 20 s.
var keepAlive = net.KeepAliveConfig{
	Enable: true, Idle: 5 * time.Second, Interval: 5 * time.Second, Count: 3,
}

// transports are the ways of speaking to a sandbox. Connections are pooled by
// address, so a session that moved never meets one to its old address.
type transports struct {
	// direct speaks HTTP/1.1 for short requests.
	direct *direct
	// http1 speaks HTTP/1.1 for all others, with and without TLS.
	http1 *http.Transport
	// http2 speaks HTTP/2 for gRPC: in the clear, or over TLS if the sandbox
	// agrees to it.
	http2 *http.Transport
}

func newTransports(clk clock.PassiveClock, opts Options, conns *connections) *transports {
	var one, two http.Protocols
	one.SetHTTP1(true)
	two.SetHTTP2(true)
	two.SetUnencryptedHTTP2(true)
	dial := conns.dialer(dialer(opts.DialTimeout))
	return &transports{
		direct: &direct{dial: dial, responseTimeout: opts.ResponseTimeout, idle: newIdleConns(clk)},
		http1:  newTransport(opts, dial, &one),
		http2:  newTransport(opts, dial, &two),
	}
}

// dialFunc is what a http.Transport dials with.
type dialFunc = func(ctx context.Context, network, addr string) (net.Conn, error)

func dialer(timeout time.Duration) dialFunc {
	d := net.Dialer{KeepAliveConfig: keepAlive}
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		attempt := d
		attempt.Timeout = dialTimeout(ctx, timeout)
		return attempt.DialContext(ctx, network, addr)
	}
}

func newTransport(opts Options, dial dialFunc, protocols *http.Protocols) *http.Transport {
	return &http.Transport{
		DialContext: dial,
		Protocols:   protocols,
		TLSClientConfig: &tls.Config{
			MinVersion:         tls.VersionTLS12,
			RootCAs:            opts.SandboxCAs,
			InsecureSkipVerify: opts.SandboxCAs == nil, //nolint:gosec // the contract: verified with --sandbox-ca only
		},
		TLSHandshakeTimeout:    opts.DialTimeout,
		ResponseHeaderTimeout:  opts.ResponseTimeout,
		ExpectContinueTimeout:  continueTimeout,
		MaxResponseHeaderBytes: maxResponseHeader,
		IdleConnTimeout:        idleConnTimeout,
		MaxIdleConns:           maxIdleConns,
		MaxIdleConnsPerHost:    maxIdleConnsPerSandbox,
		// What was encoded, and whether, is between client and sandbox.
		DisableCompression: true,
	}
}

// RoundTrip picks the transport for one request.
func (t *transports) RoundTrip(r *http.Request) (*http.Response, error) {
	switch {
	case isGRPC(r):
		return t.http2.RoundTrip(r)
	case t.direct.serves(r):
		return t.direct.RoundTrip(r)
	default:
		return t.http1.RoundTrip(r)
	}
}

// isGRPC reports a request that came by HTTP/2 (the copy keeps the client's
// protocol) and needs it to go on.
func isGRPC(r *http.Request) bool {
	rest, ok := strings.CutPrefix(r.Header.Get("Content-Type"), "application/grpc")
	return ok && r.ProtoMajor == 2 && (rest == "" || rest[0] == '+' || rest[0] == ';')
}

type dialTimeoutKey struct{}

// withDialTimeout bounds the dials of one attempt more tightly than usual.
func withDialTimeout(ctx context.Context, d time.Duration) context.Context {
	return context.WithValue(ctx, dialTimeoutKey{}, d)
}

func dialTimeout(ctx context.Context, usual time.Duration) time.Duration {
	if d, ok := ctx.Value(dialTimeoutKey{}).(time.Duration); ok && d < usual {
		return d
	}
	return usual
}
