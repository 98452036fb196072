package node

import (
	"context"
	"crypto/tls"
	"io"
	"log"
	"net"
	"net/http"

	"k8s.io/utils/clock"
)

// newWebServer makes the one server that all pods share: a connection knows its
// endpoint, so a pod costs no more than its listeners. It speaks HTTP/1.1 and
// HTTP/2, in clear text too, and has no timeouts.
func newWebServer(clk clock.Clock, certificate tls.Certificate) *http.Server {
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	protocols.SetUnencryptedHTTP2(true)
	return &http.Server{
		Handler:   &application{clock: clk},
		Protocols: &protocols,
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{certificate}},
		// Broken connections are what this server is for.
		ErrorLog: log.New(io.Discard, "", 0),
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			if secure, ok := c.(*tls.Conn); ok {
				c = secure.NetConn()
			}
			return context.WithValue(ctx, endpointKey{}, c.(*conn).endpoint)
		},
	}
}

// serveWeb starts to answer on a listener, until that is closed.
func (n *Node) serveWeb(l net.Listener, secure bool) {
	n.work.Go(func() {
		// The error is that the listener was closed, which ends the pod.
		if secure {
			_ = n.web.ServeTLS(l, "", "")
			return
		}
		_ = n.web.Serve(l)
	})
}
