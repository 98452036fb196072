package router

import (
	"context"
	"errors"
	"maps"
	"net"
	"net/http/httptrace"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/agentcube/agentcube/pkg/session"
)

// connections are those to sandboxes, by the session they were dialled for.
// The transports pool them by address, and would use one again whose sandbox
// has gone: if its address has gone to another, a request is sent into a
// connection that nobody knows there.
type connections struct {
	mu  sync.Mutex // guards set, and TCPConn while it is dialled
	set map[string]map[*sandboxConn]struct{}
}

func newConnections() *connections {
	return &connections{set: map[string]map[*sandboxConn]struct{}{}}
}

// errLeft: the session has left the address while that was dialled. It comes
// as a failed dial.
var errLeft = errors.New("the session has left this address")

// sandboxConn embeds the TCP connection itself rather than net.Conn, so that
// splice keeps working.
type sandboxConn struct {
	*net.TCPConn // nil while it is dialled
	all          *connections
	session      string
	addr         string
	generation   int64
	// cut ends the dial.
	cut context.CancelFunc
	// uses counts the requests on it.
	uses atomic.Int32
	// left: its session is elsewhere by now. It is closed after its last use.
	left atomic.Bool
}

// dialer makes a dial known to the connections, from its beginning: a session
// may leave meanwhile.
func (c *connections) dialer(dial dialFunc) dialFunc {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		x := exchangeOf(ctx)
		if x == nil {
			return dial(ctx, network, addr) // nobody's: it is of no session that can leave
		}
		ctx, cut := context.WithCancel(ctx)
		defer cut()
		s := &sandboxConn{all: c, session: x.id, addr: addr, cut: cut}
		if row := x.aimed.Load(); row != nil {
			s.generation = row.Generation
		}
		c.add(s)
		conn, err := dial(ctx, network, addr)
		tcp, ok := conn.(*net.TCPConn)
		if !ok {
			c.remove(s)
			return conn, err
		}
		c.mu.Lock()
		s.TCPConn = tcp
		c.mu.Unlock()
		if s.left.Load() {
			_ = s.Close()
			return nil, &net.OpError{Op: "dial", Net: network, Addr: tcp.RemoteAddr(), Err: errLeft}
		}
		return s, nil
	}
}

func (c *connections) add(s *sandboxConn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.set[s.session] == nil {
		c.set[s.session] = map[*sandboxConn]struct{}{}
	}
	c.set[s.session][s] = struct{}{}
}

func (c *connections) remove(s *sandboxConn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.set[s.session], s)
	if len(c.set[s.session]) == 0 {
		delete(c.set, s.session)
	}
}

// leave ends the connections of a session to where it is not any more, by its
// row (nil: it is nowhere): dials and idle ones at once, the others after their
// use. Those to where it still is are left alone: one that looks idle may be
// about to be used.
func (c *connections) leave(id string, row *session.Route) {
	var idle []*sandboxConn
	c.mu.Lock()
	for s := range c.set[id] {
		if row != nil && serves(row, s.addr, s.generation) {
			continue
		}
		s.left.Store(true)
		switch {
		case s.TCPConn == nil:
			s.cut()
		case s.uses.Load() == 0:
			idle = append(idle, s)
		}
	}
	c.mu.Unlock()
	for _, s := range idle {
		_ = s.Close() // the transport finds out
	}
}

// serves reports whether the row names the address, and in that generation: an
// address that went away and came back is another pod's.
func serves(row *session.Route, addr string, generation int64) bool {
	if row.Generation != generation {
		return false
	}
	for _, p := range row.EntryPoints {
		if p.Endpoint == addr {
			return true
		}
	}
	return false
}

// has reports whether the session has connections.
func (c *connections) has(id string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.set[id]) > 0
}

// sessions that have connections.
func (c *connections) sessions() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Collect(maps.Keys(c.set))
}

// Close ends the connection, for its pool too.
func (s *sandboxConn) Close() error {
	s.all.remove(s)
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
