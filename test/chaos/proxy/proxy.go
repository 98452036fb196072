// Package proxy stands between a program and what it depends on, and can cut,
// freeze and refuse its connections.
//
// It forwards bytes and knows nothing of what they mean: TLS passes through.
package proxy

import (
	"context"
	"fmt"
	"net"
	"sync"

	"github.com/agentcube/agentcube/test/cluster/process"
)

// never is the gate of a link that is frozen for good.
var never = make(chan struct{})

// Proxy forwards the connections it takes to one address. Its methods may be
// called from any goroutine.
type Proxy struct {
	target string
	port   *process.Port
	work   sync.WaitGroup

	mu       sync.Mutex // guards the rest
	listener net.Listener
	links    map[*link]struct{}
	frozen   chan struct{} // closed by Thaw; nil when open
	closed   bool
}

// link is one connection of a client and the one to the target.
type link struct {
	client net.Conn
	server net.Conn
	once   sync.Once
	done   chan struct{}
	gate   chan struct{} // while it is not closed nothing passes; nil: open
}

// Listen starts a proxy on a port of its own, which it keeps until Close.
func Listen(target string) (*Proxy, error) {
	port, err := process.ReservePort()
	if err != nil {
		return nil, err
	}
	p := &Proxy{target: target, port: port, links: map[*link]struct{}{}}
	if err := p.listen(); err != nil {
		port.Release()
		return nil, err
	}
	return p, nil
}

// Addr is where the proxy listens, as host:port.
func (p *Proxy) Addr() string { return p.port.Address() }

// Cut closes every open connection, as a router between the two that restarts.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut()
}

// Freeze stops forwarding without closing anything, on new connections too,
// until Thaw, which lets pass what has gathered.
func (p *Proxy) Freeze() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.frozen == nil {
		p.frozen = make(chan struct{})
	}
	for l := range p.links {
		if l.gate == nil {
			l.gate = p.frozen
		}
	}
}

// FreezeOpen stops forwarding on the connections that are open now, for as long
// as they live. New ones work.
func (p *Proxy) FreezeOpen() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		l.gate = never
	}
}

// Refuse closes every open connection and refuses new ones until Thaw.
func (p *Proxy) Refuse() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.listener != nil {
		_ = p.listener.Close()
		p.listener = nil
	}
	p.cut()
}

// Thaw forwards again.
func (p *Proxy) Thaw() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.frozen != nil {
		close(p.frozen)
		p.frozen = nil
	}
	if p.listener != nil || p.closed {
		return nil
	}
	return p.listen()
}

// Close ends everything and waits for it.
func (p *Proxy) Close() {
	p.mu.Lock()
	p.closed = true
	if p.listener != nil {
		_ = p.listener.Close()
	}
	p.cut()
	p.mu.Unlock()
	p.work.Wait()
	p.port.Release()
}

// listen needs mu, or that nobody else has the proxy yet.
func (p *Proxy) listen() error {
	listener, err := net.Listen("tcp", p.port.Address())
	if err != nil {
		return fmt.Errorf("proxy to %s: %w", p.target, err)
	}
	p.listener = listener
	p.work.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return // closed
			}
			p.work.Go(func() { p.serve(client) })
		}
	})
	return nil
}

// cut needs mu. An abrupt end: the peer sees a reset.
func (p *Proxy) cut() {
	for l := range p.links {
		if tcp, ok := l.client.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0)
		}
		l.close()
	}
}

func (p *Proxy) serve(client net.Conn) {
	l := &link{client: client, done: make(chan struct{})}
	if !p.add(l) {
		l.close()
		return
	}
	defer p.remove(l)
	if !p.pass(l) {
		return
	}
	var dialer net.Dialer
	server, err := dialer.DialContext(context.Background(), "tcp", p.target)
	if err != nil {
		return
	}
	if !p.connect(l, server) {
		_ = server.Close()
		return
	}
	p.work.Go(func() { p.pump(l, client, server) })
	p.pump(l, server, client)
}

func (p *Proxy) add(l *link) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || p.listener == nil {
		return false
	}
	l.gate = p.frozen
	p.links[l] = struct{}{}
	return true
}

// connect gives the link its other half, unless it was cut meanwhile.
func (p *Proxy) connect(l *link, server net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-l.done:
		return false
	default:
		l.server = server
		return true
	}
}

func (p *Proxy) remove(l *link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	l.close()
	delete(p.links, l)
}

// pump forwards in one direction until either end closes.
func (p *Proxy) pump(l *link, from, to net.Conn) {
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if !p.pass(l) {
			return
		}
		if n > 0 {
			if _, err := to.Write(buffer[:n]); err != nil {
				break
			}
		}
		if err != nil {
			break
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	l.close()
}

// pass waits until the link may forward. False: it was cut.
func (p *Proxy) pass(l *link) bool {
	for {
		p.mu.Lock()
		gate := l.gate
		if gate != nil && gate != never && gate != p.frozen {
			l.gate, gate = p.frozen, p.frozen
		}
		p.mu.Unlock()
		if gate == nil {
			select {
			case <-l.done:
				return false
			default:
				return true
			}
		}
		select {
		case <-gate:
		case <-l.done:
			return false
		}
	}
}

// close needs the proxy's mu, or that nobody else has the link.
func (l *link) close() {
	l.once.Do(func() {
		close(l.done)
		_ = l.client.Close()
		if l.server != nil {
			_ = l.server.Close()
		}
	})
}
