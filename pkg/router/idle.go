package router

import (
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// idleConns are connections to sandboxes that wait for their next request, by
// address, within the bounds of the transports.
type idleConns struct {
	clock clock.PassiveClock

	mu     sync.Mutex // guards what follows
	byAddr map[string][]*directConn
	// oldest and newest end the list of all of them.
	oldest, newest *directConn
	n              int
}

func newIdleConns(clk clock.PassiveClock) *idleConns {
	return &idleConns{clock: clk, byAddr: map[string][]*directConn{}}
}

// take returns the connection to the address that was used last. Nil: there
// is none that has not waited for too long. Those that have are not used until
// expire closes them, which may be late.
func (i *idleConns) take(addr string) *directConn {
	i.mu.Lock()
	defer i.mu.Unlock()
	conns := i.byAddr[addr]
	if len(conns) == 0 {
		return nil
	}
	conn := conns[len(conns)-1]
	if i.clock.Since(conn.since) >= idleConnTimeout {
		return nil // as have the others, which were used before
	}
	i.remove(conn)
	return conn
}

// put keeps a connection. If there are too many it is the oldest that goes, of
// its sandbox or of all.
func (i *idleConns) put(conn *directConn) {
	var surplus *directConn
	i.mu.Lock()
	conn.since = i.clock.Now()
	if conns := i.byAddr[conn.addr]; len(conns) >= maxIdleConnsPerSandbox {
		surplus = conns[0]
	} else if i.n >= maxIdleConns {
		surplus = i.oldest
	}
	if surplus != nil {
		i.remove(surplus)
	}
	i.byAddr[conn.addr] = append(i.byAddr[conn.addr], conn)
	i.push(conn)
	i.mu.Unlock()
	if surplus != nil {
		_ = surplus.Close()
	}
}

// expire closes what has waited for too long.
func (i *idleConns) expire() {
	for _, conn := range i.takeBefore(i.clock.Now().Add(-idleConnTimeout)) {
		_ = conn.Close()
	}
}

func (i *idleConns) takeBefore(t time.Time) (taken []*directConn) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for i.oldest != nil && !i.oldest.since.After(t) {
		taken = append(taken, i.oldest)
		i.remove(i.oldest)
	}
	return taken
}

// push adds to the newest end of the list. The caller holds mu.
func (i *idleConns) push(conn *directConn) {
	conn.prev, conn.next = i.newest, nil
	if i.newest != nil {
		i.newest.next = conn
	} else {
		i.oldest = conn
	}
	i.newest = conn
	i.n++
}

// remove takes a connection out. The caller holds mu.
func (i *idleConns) remove(conn *directConn) {
	if conn.prev != nil {
		conn.prev.next = conn.next
	} else {
		i.oldest = conn.next
	}
	if conn.next != nil {
		conn.next.prev = conn.prev
	} else {
		i.newest = conn.prev
	}
	conn.prev, conn.next = nil, nil
	i.n--
	i.forget(conn)
}

// forget takes a connection out of those to its address, where it is the last
// or the first one as a rule. The caller holds mu.
func (i *idleConns) forget(conn *directConn) {
	conns := i.byAddr[conn.addr]
	for k := len(conns) - 1; k >= 0; k-- {
		if conns[k] != conn {
			continue
		}
		copy(conns[k:], conns[k+1:])
		conns[len(conns)-1] = nil
		if conns = conns[:len(conns)-1]; len(conns) == 0 {
			delete(i.byAddr, conn.addr)
		} else {
			i.byAddr[conn.addr] = conns
		}
		return
	}
}
