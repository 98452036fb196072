package httpserver

import (
	"context"
	"net"
	"net/http"
	"sync"
)

// gauge counts things that come and go, and can be waited on until there are
// none. The zero value is ready.
type gauge struct {
	mu   sync.Mutex
	n    int
	zero chan struct{} // closed when n reaches 0, if anyone waits; guarded by mu
}

func (g *gauge) add(delta int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.n += delta
	if g.n == 0 && g.zero != nil {
		close(g.zero)
		g.zero = nil
	}
}

func (g *gauge) wait(ctx context.Context) {
	g.mu.Lock()
	if g.n == 0 {
		g.mu.Unlock()
		return
	}
	if g.zero == nil {
		g.zero = make(chan struct{})
	}
	zero := g.zero
	g.mu.Unlock()
	select {
	case <-zero:
	case <-ctx.Done():
	}
}

// inFlight counts running handlers.
type inFlight struct{ gauge }

func (f *inFlight) track(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.add(1)
		defer f.add(-1)
		next.ServeHTTP(w, r)
	})
}

// trackingListener knows the connections that are open, hijacked or not.
type trackingListener struct {
	net.Listener
	open gauge

	mu    sync.Mutex
	conns map[*trackedConn]struct{} // guarded by mu
}

func newTrackingListener(l net.Listener) *trackingListener {
	return &trackingListener{Listener: l, conns: map[*trackedConn]struct{}{}}
}

// Accept is called by the HTTP server.
func (l *trackingListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	tcp, ok := conn.(*net.TCPConn)
	if !ok {
		return conn, nil // not from a TCP listener, which is all Listen opens
	}
	tracked := &trackedConn{TCPConn: tcp, listener: l}
	l.mu.Lock()
	l.conns[tracked] = struct{}{}
	l.mu.Unlock()
	l.open.add(1)
	return tracked, nil
}

func (l *trackingListener) waitClosed(ctx context.Context) { l.open.wait(ctx) }

// closeAll closes what is open and returns how many that were.
func (l *trackingListener) closeAll() int {
	l.mu.Lock()
	conns := make([]*trackedConn, 0, len(l.conns))
	for conn := range l.conns {
		conns = append(conns, conn)
	}
	l.mu.Unlock()
	for _, conn := range conns {
		_ = conn.Close() // whoever uses it sees the error
	}
	return len(conns)
}

func (l *trackingListener) forget(conn *trackedConn) {
	l.mu.Lock()
	_, known := l.conns[conn]
	delete(l.conns, conn)
	l.mu.Unlock()
	if known {
		l.open.add(-1)
	}
}

// trackedConn embeds the TCP connection itself rather than net.Conn, so that
// sendfile, splice and half-closing keep working.
type trackedConn struct {
	*net.TCPConn
	listener *trackingListener
}

// Close ends the connection, for the tracker too.
func (c *trackedConn) Close() error {
	defer c.listener.forget(c)
	return c.TCPConn.Close()
}
