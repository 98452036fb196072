package router

import (
	"context"
	"net"
	"net/http/httptrace"
	"sync"
	"sync/atomic"
)

// connections are those to sandboxes, by the session they were dialled for.
// The transports pool them by address, and would use one again whose sandbox
// has gone: if its address has gone to another, a request is sent into a
// connection that nobody knows there.
type connections struct {
	mu  sync.Mutex // guards set
	set map[string]map[*sandboxConn]struct{}
}

func newConnections() *connections {
	return &connections{set: map[string]map[*sandboxConn]struct{}{}}
}

// sandboxConn embeds the TCP connection itself rather than net.Conn, so that
// splice keeps working.
type sandboxConn struct {
	*net.TCPConn
	all     *connections
	session string
	// uses counts the requests on it.
	uses atomic.Int32
	// left: its session is elsewhere by now. It is closed after its last use.
	left atomic.Bool
}

// dialer makes a dial known to the connections.
func (c *connections) dialer(dial func(context.Context, string, string) (net.Conn, error)) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		tcp, ok := conn.(*net.TCPConn)
		if err != nil || !ok {
			return conn, err
		}
		x, ok := ctx.Value(exchangeKey{}).(*exchange)
		if !ok {
			return conn, nil // nobody's: it is of no session that can leave
		}
		s := &sandboxConn{TCPConn: tcp, all: c, session: x.id}
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.set[x.id] == nil {
			c.set[x.id] = map[*sandboxConn]struct{}{}
		}
		c.set[x.id][s] = struct{}{}
		return s, nil
	}
}

// leave closes the connections of a session that may be elsewhere by now: idle
// ones at once, the others after their use.
func (c *connections) leave(session string) {
	var idle []*sandboxConn
	c.mu.Lock()
	for s := range c.set[session] {
		s.left.Store(true)
		if s.uses.Load() == 0 {
			idle = append(idle, s)
		}
	}
	c.mu.Unlock()
	for _, s := range idle {
		_ = s.Close() // the transport finds out
	}
}

// Close ends the connection, for its pool too.
func (s *sandboxConn) Close() error {
	s.all.mu.Lock()
	delete(s.all.set[s.session], s)
	if len(s.all.set[s.session]) == 0 {
		delete(s.all.set, s.session)
	}
	s.all.mu.Unlock()
	return s.TCPConn.Close()
}

// release ends one use.
func (s *sandboxConn) release() {
	if s.uses.Add(-1) == 0 && s.left.Load() {
		_ = s.Close()
	}
}

// gotConn notes that the request has a connection, perhaps its second.
func (x *exchange) gotConn(info httptrace.GotConnInfo) {
	x.flight.Connected()
	conn := info.Conn
	if secured, ok := conn.(interface{ NetConn() net.Conn }); ok {
		conn = secured.NetConn()
	}
	if s, ok := conn.(*sandboxConn); ok {
		s.uses.Add(1)
		if former := x.conn.Swap(s); former != nil {
			former.release()
		}
	}
}

// ownConn has the request's connection closed after its use. One that was
// upgraded belongs to no pool, and httputil does not close it if the sandbox
// switched to what nobody had asked for.
func (x *exchange) ownConn() {
	if s := x.conn.Load(); s != nil {
		s.left.Store(true)
	}
}

// releaseConn ends the use of the request's connection, if it has one.
func (x *exchange) releaseConn() {
	if s := x.conn.Swap(nil); s != nil {
		s.release()
	}
}
