package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"syscall"
	"time"

	"github.com/coder/websocket"

	"github.com/agentcube/agentcube/pkg/api"
)

const (
	// socketSessions is how many sessions the WebSockets are spread over, so that
	// little of what is measured is the memory of sessions.
	socketSessions = 1000
	// spareDescriptors of a proxy are not those of WebSockets.
	spareDescriptors = 500
	// restFor is how long the WebSockets are left alone before memory is read.
	restFor = 2 * time.Second
	// socketAim is what each should take of memory at most.
	socketAim = 40_000
)

// memory that a process holds, in bytes.
type memory struct{ resident, heap, stacks float64 }

func (p *party) memory(ctx context.Context) (memory, error) {
	resident, err := p.Resident()
	if err != nil {
		return memory{}, err
	}
	metrics, err := p.metrics(ctx)
	return memory{
		resident: float64(resident), heap: metrics.Value("go_memstats_heap_inuse_bytes"),
		stacks: metrics.Value("go_memstats_stack_inuse_bytes"),
	}, err
}

// websocket measures what open WebSockets take, in the bare proxy and in the
// router in turns, each time from a new start.
func (b *bench) websocket(ctx context.Context) error {
	n, err := b.socketCount()
	if err != nil {
		return err
	}
	both := []*party{b.parties.bare, b.parties.of(socketSessions)}
	resident, heap, stacks := map[string][]float64{}, map[string][]float64{}, map[string][]float64{}
	for round := range b.socketRounds {
		for _, party := range inTurn(both, round) {
			b.say("%s: opening %d WebSockets", party.name, n)
			each, err := b.socketMemory(ctx, party, n)
			if err != nil {
				return fmt.Errorf("WebSockets through %s: %w", party.name, err)
			}
			resident[party.name] = append(resident[party.name], each.resident)
			heap[party.name] = append(heap[party.name], each.heap)
			stacks[party.name] = append(stacks[party.name], each.stacks)
		}
	}
	fmt.Fprintf(b.out, "\n## %d open WebSockets, memory of each (medians of %d times; bound: the bare proxy's; aim: %.0f kB)\n\n%-14s %12s %12s %12s\n",
		n, b.socketRounds, socketAim/1e3, "", "resident kB", "heap kB", "stacks kB")
	drawn := chart{
		File: "websocket", Title: fmt.Sprintf("Memory of each of %d open WebSockets", n), Y: "kB", Bars: true,
		Categories: []string{"resident", "heap in use", "stacks"}, Bound: &bound{Name: "aim", Value: socketAim / 1e3},
	}
	for _, party := range both {
		values := []float64{median(resident[party.name]) / 1e3, median(heap[party.name]) / 1e3, median(stacks[party.name]) / 1e3}
		fmt.Fprintf(b.out, "%-14s %12.1f %12.1f %12.1f\n", party.name, values[0], values[1], values[2])
		drawn.Series = append(drawn.Series, series{Name: party.name, Values: values})
	}
	b.charts = append(b.charts, drawn)
	return nil
}

// socketCount is how many WebSockets the descriptor limit of a proxy allows:
// each has a connection on both sides.
func (b *bench) socketCount() (int, error) {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 0, fmt.Errorf("reading the limit of descriptors: %w", err)
	}
	allowed := (int(min(limit.Max, 1<<30)) - spareDescriptors) / 2
	if allowed < b.sockets {
		fmt.Fprintf(b.out, "\nthe limit of %d descriptors allows %d WebSockets, not %d\n", limit.Max, allowed, b.sockets)
	}
	return min(allowed, b.sockets), nil
}

// socketMemory opens WebSockets, sends a message through each and back, and
// divides what the proxy holds more than before.
func (b *bench) socketMemory(ctx context.Context, p *party, n int) (each memory, err error) {
	if err := p.restart(ctx); err != nil {
		return memory{}, err
	}
	before, err := p.memory(ctx)
	if err != nil {
		return memory{}, err
	}
	sockets, err := b.openSockets(ctx, p, n)
	defer func() { err = errors.Join(err, closeSockets(ctx, sockets)) }()
	if err != nil {
		return memory{}, err
	}
	select {
	case <-ctx.Done():
		return memory{}, context.Cause(ctx)
	case <-time.After(restFor):
	}
	after, err := p.memory(ctx)
	share := func(before, after float64) float64 { return (after - before) / float64(n) }
	return memory{
		resident: share(before.resident, after.resident), heap: share(before.heap, after.heap),
		stacks: share(before.stacks, after.stacks),
	}, err
}

// openSockets returns those that were opened, also with an error.
func (b *bench) openSockets(ctx context.Context, p *party, n int) ([]*websocket.Conn, error) {
	sockets := make([]*websocket.Conn, n)
	err := each(ctx, n, func(ctx context.Context, i int) error {
		header := http.Header{}
		header.Set(api.HeaderSessionID, sessionID(i%min(socketSessions, p.sessions)))
		socket, _, err := websocket.Dial(ctx, p.invocation("socket"), &websocket.DialOptions{HTTPHeader: header}) //nolint:bodyclose // of an upgrade
		if err != nil {
			return err
		}
		sockets[i] = socket
		return roundTrip(ctx, socket)
	})
	return sockets, err
}

// roundTrip has a message come back, so that all buffers on its way are in use.
func roundTrip(ctx context.Context, socket *websocket.Conn) error {
	if err := socket.Write(ctx, websocket.MessageText, []byte("hello")); err != nil {
		return err
	}
	_, _, err := socket.Read(ctx)
	return err
}

// closeSockets first proves that all were open until now.
func closeSockets(ctx context.Context, sockets []*websocket.Conn) error {
	return each(ctx, len(sockets), func(ctx context.Context, i int) error {
		if sockets[i] == nil {
			return nil // the error of its opening is known
		}
		return errors.Join(roundTrip(ctx, sockets[i]), sockets[i].CloseNow())
	})
}
