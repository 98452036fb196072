package node

import (
	"errors"
	"net"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/types"
)

var errNoAddress = errors.New("it has no address")

// endpoint is the address of one pod with its listeners and connections. It is
// open, then perhaps silent, then shut.
type endpoint struct {
	pod      types.NamespacedName
	uid      types.UID
	address  string
	requests atomic.Int64

	silent atomic.Bool   // open connections and dials get no answer
	gone   chan struct{} // closed by shut

	mu        sync.Mutex // guards what follows
	listeners []*net.TCPListener
	conns     map[*conn]struct{}
	closed    bool
}

func newEndpoint(pod types.NamespacedName, uid types.UID, address string) *endpoint {
	return &endpoint{pod: pod, uid: uid, address: address, gone: make(chan struct{}), conns: map[*conn]struct{}{}}
}

// listen opens the ports; serve is called for each and starts to answer on it.
func (e *endpoint) listen(ports []port, serve func(net.Listener, bool)) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed || e.silent.Load() {
		return nil
	}
	for _, p := range ports {
		l, err := listenTCP(net.JoinHostPort(e.address, strconv.Itoa(int(p.number))))
		if err != nil {
			return err
		}
		e.listeners = append(e.listeners, l)
		serve(&listener{TCPListener: l, endpoint: e}, p.tls)
	}
	return nil
}

// silence makes the address hang: from now on the kernel drops whatever arrives
// (on Linux), and nothing more is written to open connections.
func (e *endpoint) silence() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed || e.silent.Swap(true) {
		return nil
	}
	// Listeners first: a connection they accepted before is in conns or, accepted
	// a moment later, is seen to be silent by track.
	for _, l := range e.listeners {
		if err := deafen(l); err != nil {
			return err
		}
	}
	for c := range e.conns {
		if err := deafen(c.tcp); err != nil {
			return err
		}
	}
	return nil
}

// shut closes everything: the address refuses from now on. It may be called more
// than once.
func (e *endpoint) shut() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return
	}
	e.closed = true
	close(e.gone)
	for _, l := range e.listeners {
		l.Close()
	}
	for c := range e.conns {
		c.end()
	}
	e.listeners, e.conns = nil, nil
}

// track takes charge of an accepted connection.
func (e *endpoint) track(tcp *net.TCPConn) *conn {
	c := &conn{Conn: tcp, tcp: tcp, endpoint: e}
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.closed:
		c.end()
	case e.silent.Load():
		_ = deafen(tcp) // it is never answered in any case
		fallthrough
	default:
		e.conns[c] = struct{}{}
	}
	return c
}

func (e *endpoint) forget(c *conn) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.conns, c)
}

// listener hands out connections that obey their endpoint.
type listener struct {
	*net.TCPListener
	endpoint *endpoint
}

func (l *listener) Accept() (net.Conn, error) {
	tcp, err := l.AcceptTCP()
	if err != nil {
		return nil, err
	}
	return l.endpoint.track(tcp), nil
}

// conn is a connection that answers no more once its endpoint is silent. It
// embeds the interface, because the shortcuts of a TCPConn (ReadFrom) would pass
// by Write.
type conn struct {
	net.Conn
	tcp      *net.TCPConn
	endpoint *endpoint
}

func (c *conn) Read(b []byte) (int, error) {
	n, err := c.tcp.Read(b)
	if c.endpoint.silent.Load() {
		<-c.endpoint.gone
		return 0, net.ErrClosed
	}
	return n, err
}

func (c *conn) Write(b []byte) (int, error) {
	if c.endpoint.silent.Load() {
		<-c.endpoint.gone
		return 0, net.ErrClosed
	}
	return c.tcp.Write(b)
}

// Close does nothing while the endpoint is silent: the peer would see it.
func (c *conn) Close() error {
	if c.endpoint.silent.Load() {
		return nil
	}
	c.endpoint.forget(c)
	return c.tcp.Close()
}

// CloseWrite lets the HTTP server end a response before it has read the whole
// request.
func (c *conn) CloseWrite() error {
	if c.endpoint.silent.Load() {
		return nil
	}
	return c.tcp.CloseWrite()
}

// end closes the connection with a reset if it was silent: there is no orderly
// end to a conversation whose partner was cut off.
func (c *conn) end() {
	if c.endpoint.silent.Load() {
		_ = c.tcp.SetLinger(0) // it is closed in any case
	}
	c.tcp.Close()
}

type endpointKey struct{}

// endpointOf returns the endpoint that a request reached.
func endpointOf(r *http.Request) *endpoint {
	return r.Context().Value(endpointKey{}).(*endpoint)
}
