package router

import (
	"net/http"
	"net/http/httputil"
	"sync"

	"go.uber.org/zap"

	"github.com/agentcube/agentcube/pkg/httpserver"
)

// copyBufferSize is what httputil takes without a pool, 32 KiB.
const copyBufferSize = 32 << 10

// newProxy builds the one reverse proxy. Its hooks keep nothing: all they
// know is the exchange in the request's context.
func (rt *Router) newProxy(wire http.RoundTripper) *httputil.ReverseProxy {
	errorLog, err := zap.NewStdLogAt(rt.log.Named("proxy"), zap.WarnLevel)
	if err != nil { // the level is a constant
		panic(err)
	}
	return &httputil.ReverseProxy{
		Rewrite:        rt.rewrite,
		Transport:      &redialer{router: rt, wire: wire},
		ModifyResponse: rt.received,
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			rt.fail(w, r, exchangeFrom(r.Context()), classify(r.Context(), err))
		},
		BufferPool: &bufferPool{},
		ErrorLog:   errorLog,
	}
}

// rewrite makes the sandbox's request out of the client's.
func (rt *Router) rewrite(pr *httputil.ProxyRequest) {
	x := exchangeFrom(pr.In.Context())
	filterHeaders(pr.In, pr.Out.Header, x.to.authorization, trustedPeer(pr.In.RemoteAddr, rt.opts.TrustedProxies))
	if rt.Tracer != nil {
		httpserver.InjectTrace(pr.In.Context(), pr.Out.Header)
	}
	// The values of trailers arrive after the body, in the client's map.
	pr.Out.Trailer = pr.In.Trailer
	x.address(pr.Out)
}

// address points a request, which nobody else has, at the exchange's
// destination.
func (x *exchange) address(out *http.Request) {
	setTarget(out.URL, x.to, x.path, x.query, x.marked)
	out.Host = x.to.endpoint
}

// received runs when the sandbox's answer has begun: from here on the request
// counts as activity, and the answer passes as it is.
func (rt *Router) received(res *http.Response) error {
	x := exchangeFrom(res.Request.Context())
	x.flight.Reached()
	if res.StatusCode == http.StatusSwitchingProtocols {
		x.slot.upgrade()
		slimUpgrade(res)
		x.ownConn()
	} else {
		x.lastOnConn(x.answer)
	}
	x.stamp(res.Header)
	if _, typed := res.Header["Content-Type"]; !typed {
		x.answer["Content-Type"] = nil // or else the server guesses one
	}
	return nil
}

// bufferPool keeps the buffers that bodies are copied with.
type bufferPool struct{ pool sync.Pool }

func (b *bufferPool) Get() []byte {
	if p, ok := b.pool.Get().(*[]byte); ok {
		return *p
	}
	return make([]byte, copyBufferSize)
}

func (b *bufferPool) Put(p []byte) { b.pool.Put(&p) }
