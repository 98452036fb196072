package main

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"
)

const (
	// allocBound is what a request may allocate more than with the bare proxy.
	allocBound = 2 << 10
	// allocSessions are few enough to be warmed in a second. A hit of the cache
	// costs the same however many there are.
	allocSessions = 1000
	// heldRequests are in flight while goroutines are counted.
	heldRequests = 256
	// quietWithin bounds the wait until the goroutines of connections are gone.
	quietWithin = 20 * time.Second
	// lookInterval is how often is looked for what is waited for.
	lookInterval = 100 * time.Millisecond
)

// allocated is what one request cost.
type allocated struct{ bytes, objects float64 }

// alloc counts what the bare proxy and the router allocate for a request, and
// their goroutines.
func (b *bench) alloc(ctx context.Context) error {
	router := b.parties.of(allocSessions)
	both := []*party{b.parties.bare, router}
	if err := router.restart(ctx); err != nil {
		return err
	}
	if err := b.warm(ctx, router); err != nil {
		return err
	}
	bytes, objects := map[string][]float64{}, map[string][]float64{}
	for round := range b.rounds {
		b.seed++
		for _, party := range inTurn(both, round) {
			a, err := b.allocates(ctx, party)
			if err != nil {
				return err
			}
			bytes[party.name] = append(bytes[party.name], a.bytes)
			objects[party.name] = append(objects[party.name], a.objects)
		}
	}
	fmt.Fprintf(b.out, "\n## Allocations of a request (medians of %d turns; bound: %d bytes more than bare)\n\n%-14s %9s %9s %12s\n",
		b.rounds, allocBound, "", "bytes", "objects", "more bytes")
	for _, party := range both {
		fmt.Fprintf(b.out, "%-14s %9.0f %9.1f %+12.0f\n", party.name, median(bytes[party.name]), median(objects[party.name]),
			median(bytes[party.name])-median(bytes[b.parties.bare.name]))
	}
	return b.goroutines(ctx, both)
}

// allocates divides what was allocated during a turn by its requests. What the
// reading of the metrics allocates is lost in thousands of them.
func (b *bench) allocates(ctx context.Context, p *party) (allocated, error) {
	before, err := p.metrics(ctx)
	if err != nil {
		return allocated{}, err
	}
	t, err := b.load(ctx, p, request{what: "small"}, 1)
	if err != nil {
		return allocated{}, err
	}
	after, err := p.metrics(ctx)
	if err != nil {
		return allocated{}, err
	}
	each := func(name string) float64 { return (after.Value(name) - before.Value(name)) / float64(t.requests) }
	return allocated{bytes: each("go_memstats_alloc_bytes_total"), objects: each("go_memstats_mallocs_total")}, nil
}

// goroutines counts those of the proxies before, while requests are held by the
// sandbox, and after.
func (b *bench) goroutines(ctx context.Context, both []*party) error {
	fmt.Fprintf(b.out, "\n## Goroutines (with %d requests in flight; should be those of the bare proxy)\n\n%-14s %8s %8s %13s %8s\n",
		heldRequests, "", "before", "during", "each request", "after")
	for _, party := range both {
		before, err := party.settled(ctx, 0)
		if err != nil {
			return err
		}
		during, err := b.hold(ctx, party)
		if err != nil {
			return err
		}
		after, err := party.settled(ctx, before)
		if err != nil {
			return err
		}
		fmt.Fprintf(b.out, "%-14s %8d %8d %13.2f %8d\n", party.name, before, during, float64(during-before)/heldRequests, after)
	}
	return nil
}

// hold counts while requests have the head of their answer and no end.
func (b *bench) hold(ctx context.Context, p *party) (during int, err error) {
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	ctx, letGo := context.WithCancel(ctx)
	defer letGo()
	var group errgroup.Group
	for i := range heldRequests {
		group.Go(func() error {
			response, err := get(ctx, client, p.invocation("hold"), sessionID(i%p.sessions))
			if err != nil {
				return err
			}
			context.AfterFunc(ctx, func() { _ = response.Body.Close() })
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return 0, err
	}
	return p.goroutineCount(ctx)
}

func (p *party) goroutineCount(ctx context.Context) (int, error) {
	metrics, err := p.metrics(ctx)
	return int(metrics.Value("go_goroutines")), err
}

// settled is the number of goroutines once it has not fallen for a second and is
// no more than wanted (0: any), or at the end of the bound.
func (p *party) settled(ctx context.Context, wanted int) (int, error) {
	begun, lowest, since := time.Now(), int(^uint(0)>>1), time.Now()
	for {
		count, err := p.goroutineCount(ctx)
		if err != nil {
			return 0, err
		}
		if count < lowest {
			lowest, since = count, time.Now()
		}
		// Idle connections to the sandbox close after 4 s.
		steady := time.Since(since) > 5*time.Second || (wanted > 0 && count <= wanted)
		if steady || time.Since(begun) > quietWithin {
			return count, nil
		}
		select {
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		case <-time.After(lookInterval):
		}
	}
}
