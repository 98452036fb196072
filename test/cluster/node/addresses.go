package node

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

const (
	// firstBlock and lastBlock bound the /16 ranges 127.N.0.0 that nodes take.
	firstBlock = 10
	lastBlock  = 250
	// guardPort of the last address of a range is held by the node that took the
	// range. It lies below the ports for outgoing connections.
	guardPort = 19999
)

var errNoFreeAddress = errors.New("no loopback address is free; where the system has no more than " +
	"127.0.0.1, add some, as in `sudo ifconfig lo0 alias 127.0.0.2`")

// addresses hands out loopback addresses, each to one pod at a time and in a
// round, so that an address is not used again soon.
//
// On Linux all of 127.0.0.0/8 is loopback, and each node takes a /16 of it, which
// it reserves by listening on its last address. Elsewhere (macOS) only the
// addresses of the loopback interface work: all nodes share those, and a pod that
// finds its ports taken fails and says so.
type addresses struct {
	guard net.Listener // nil where there is no range

	mu    sync.Mutex
	pool  func(i int) netip.Addr
	size  int
	next  int
	used  map[netip.Addr]bool
	named map[types.NamespacedName]netip.Addr
}

func reserveAddresses() (*addresses, error) {
	a := &addresses{used: map[netip.Addr]bool{}, named: map[types.NamespacedName]netip.Addr{}}
	if !wholeLoopback() {
		list, err := loopbackInterfaces()
		if err != nil {
			return nil, fmt.Errorf("listing loopback addresses: %w", err)
		}
		a.pool, a.size = func(i int) netip.Addr { return list[i] }, len(list)
		return a, nil
	}
	count := lastBlock - firstBlock + 1
	start := rand.IntN(count)
	var last error
	for i := range count {
		block := byte(firstBlock + (start+i)%count)
		guard, err := net.Listen("tcp", fmt.Sprintf("127.%d.255.255:%d", block, guardPort))
		if err != nil {
			last = err
			continue
		}
		a.guard = guard
		// 127.N.0.1 to 127.N.255.253.
		a.size = 1<<16 - 3
		a.pool = func(i int) netip.Addr { return netip.AddrFrom4([4]byte{127, block, byte((i + 1) >> 8), byte(i + 1)}) }
		return a, nil
	}
	return nil, fmt.Errorf("none of %d loopback ranges is free: %w", count, last)
}

// wholeLoopback tells whether any address of 127.0.0.0/8 can be listened on.
func wholeLoopback() bool {
	l, err := net.Listen("tcp", "127.254.254.1:0")
	if err != nil {
		return false
	}
	l.Close()
	return true
}

func loopbackInterfaces() ([]netip.Addr, error) {
	all, err := net.InterfaceAddrs()
	if err != nil {
		return nil, err
	}
	var list []netip.Addr
	for _, address := range all {
		prefix, err := netip.ParsePrefix(address.String())
		if err == nil && prefix.Addr().Is4() && prefix.Addr().IsLoopback() {
			list = append(list, prefix.Addr())
		}
	}
	return list, nil
}

// take returns an address that nobody uses. With same, it is the address that the
// last taker of that name had, if that is free.
func (a *addresses) take(name types.NamespacedName, same bool) (netip.Addr, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if kept, ok := a.named[name]; ok && same && !a.used[kept] {
		a.used[kept] = true
		return kept, nil
	}
	for range a.size {
		address := a.pool(a.next)
		a.next = (a.next + 1) % a.size
		if !a.used[address] {
			a.used[address] = true
			if same {
				a.named[name] = address
			}
			return address, nil
		}
	}
	return netip.Addr{}, errNoFreeAddress
}

// give returns an address that take handed out.
func (a *addresses) give(address netip.Addr) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.used, address)
}

// release gives up the range.
func (a *addresses) release() {
	if a.guard != nil {
		a.guard.Close()
	}
}
