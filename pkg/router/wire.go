package router

import (
	"net/http"
	"net/http/httputil"
)

// Wire returns how a router with these options speaks to sandboxes, and the
// buffers that it copies bodies with. It is for measurements: a proxy that does
// nothing but forward, on this very wire, is what a router is compared with.
func Wire(opts Options) (http.RoundTripper, httputil.BufferPool) {
	if opts.DialTimeout <= 0 {
		opts.DialTimeout = defaultDialTimeout
	}
	return newTransports(opts, newConnections()), &bufferPool{}
}
