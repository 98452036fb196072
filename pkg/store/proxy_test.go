package store

import (
	"bytes"
	"net"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// proxy stands between client and server and loses answers on demand.
type proxy struct {
	addr string
	// left is how many answers are still to be lost, lost how many were.
	left, lost atomic.Int64

	mu    sync.Mutex
	match []byte
	conns []net.Conn
}

func startProxy(t *testing.T, network, server string) *proxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	p := &proxy{addr: listener.Addr().String()}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			upstream, err := new(net.Dialer).DialContext(t.Context(), network, server)
			if err != nil {
				_ = client.Close()
				continue
			}
			p.mu.Lock()
			p.conns = append(p.conns, client, upstream)
			p.mu.Unlock()
			wg.Go(func() { p.serve(client, upstream) })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		p.mu.Lock()
		for _, c := range p.conns {
			_ = c.Close()
		}
		p.mu.Unlock()
		wg.Wait()
	})
	return p
}

// lose makes the next n requests that contain the text reach the server and
// their answers be lost with the connection.
func (p *proxy) lose(n int64, text string) {
	p.mu.Lock()
	p.match = []byte(text)
	p.mu.Unlock()
	p.lost.Store(0)
	p.left.Store(n)
}

func (p *proxy) serve(client, upstream net.Conn) {
	var losing atomic.Bool
	var wg sync.WaitGroup
	wg.Go(func() {
		defer upstream.Close()
		buffer := make([]byte, 1<<20)
		for {
			n, err := client.Read(buffer)
			if err != nil {
				return
			}
			p.mu.Lock()
			hit := p.match != nil && bytes.Contains(buffer[:n], p.match)
			p.mu.Unlock()
			if hit && p.left.Add(-1) >= 0 {
				losing.Store(true)
			}
			if _, err := upstream.Write(buffer[:n]); err != nil {
				return
			}
		}
	})
	buffer := make([]byte, 1<<20)
	for {
		n, err := upstream.Read(buffer)
		if err == nil && losing.Load() {
			p.lost.Add(1)
			break // the server has answered, so it has done the work
		}
		if err != nil {
			break
		}
		if _, err := client.Write(buffer[:n]); err != nil {
			break
		}
	}
	_ = client.Close()
	_ = upstream.Close()
	wg.Wait()
}
