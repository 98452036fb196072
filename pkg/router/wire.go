package router

import (
	"net/http"
	"net/http/httputil"
)

// Wire returns a http.Transport with the settings of a router with these
// options, and the buffers that it copies bodies with. It is for measurements:
// a proxy that does nothing but forward, with these, is what a router is
// compared with.
func Wire(opts Options) (http.RoundTripper, httputil.BufferPool) {
	if opts.DialTimeout <= 0 {
		opts.DialTimeout = defaultDialTimeout
	}
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	return newTransport(opts, dialer(opts.DialTimeout), &protocols), &bufferPool{}
}
