package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// delayBound is how late the 99th of 100 events may be.
const delayBound = 5 * time.Millisecond

// sse listens to streams of events through each of three parties, one after the
// other, and compares the time in each event with that of its arrival. Both are
// read from the one clock of the machine.
func (b *bench) sse(ctx context.Context) error {
	router := b.parties.of(b.streams)
	if err := router.restart(ctx); err != nil {
		return err
	}
	all := map[string][]time.Duration{}
	three := []*party{b.parties.direct, b.parties.bare, router}
	for _, party := range three {
		b.say("%s: listening to %d streams for %s", party.name, b.streams, b.streamFor)
		delays, err := b.listen(ctx, party)
		if err != nil {
			return fmt.Errorf("streams through %s: %w", party.name, err)
		}
		all[party.name] = delays
	}
	b.printDelays(three, all)
	return nil
}

func (b *bench) printDelays(parties []*party, all map[string][]time.Duration) {
	fmt.Fprintf(b.out, "\n## %d streams, an event each %s in each, for %s (bound: p99 under %.0f ms)\n\n%-14s %9s %9s %9s %9s %9s\n",
		b.streams, b.streamPeriod, b.streamFor, ms(delayBound), "", "events", "p50 ms", "p99 ms", "p99.9 ms", "most ms")
	drawn := chart{
		File: "sse", Title: fmt.Sprintf("Delay of an event in %d streams", b.streams), Y: "ms", Bars: true,
		Categories: []string{"p50", "p99"}, Bound: &bound{Name: "bound of p99", Value: ms(delayBound)},
	}
	for _, party := range parties {
		delays := slices.Sorted(slices.Values(all[party.name]))
		p50, p99 := ms(percentile(delays, 50)), ms(percentile(delays, 99))
		fmt.Fprintf(b.out, "%-14s %9d %9.3f %9.3f %9.3f %9.3f\n", party.name, len(delays), p50, p99,
			ms(delays[len(delays)*999/1000]), ms(delays[len(delays)-1]))
		drawn.Series = append(drawn.Series, series{Name: party.name, Values: []float64{p50, p99}})
	}
	b.charts = append(b.charts, drawn)
}

// listen opens the streams, spread over one interval, and returns the delays of
// all events that came while all of them were open.
func (b *bench) listen(ctx context.Context, p *party) ([]time.Duration, error) {
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	ctx, end := context.WithCancel(ctx)
	defer end()
	streams := make([]*http.Response, b.streams)
	step := time.NewTicker(max(b.streamPeriod/time.Duration(b.streams), time.Microsecond))
	defer step.Stop()
	var opening errgroup.Group
	for i := range streams {
		<-step.C
		opening.Go(func() (err error) {
			streams[i], err = get(ctx, client, p.invocation("events"), sessionID(i%p.sessions)) //nolint:bodyclose // by collect
			return err
		})
	}
	if err := opening.Wait(); err != nil {
		return nil, err
	}
	return collect(ctx, streams, time.Now(), b.streamFor, end)
}

// collect reads all streams until the time is over and then ends them. Events
// that were sent before since are passed over.
func collect(ctx context.Context, streams []*http.Response, since time.Time, d time.Duration, end func()) ([]time.Duration, error) {
	over := time.AfterFunc(d, end)
	defer over.Stop()
	var mu sync.Mutex // guards all
	var all []time.Duration
	var reading errgroup.Group
	for _, stream := range streams {
		reading.Go(func() error {
			defer stream.Body.Close()
			delays, err := read(bufio.NewReaderSize(stream.Body, 256), since)
			mu.Lock()
			all = append(all, delays...)
			mu.Unlock()
			if ctx.Err() == nil { // nobody has ended it
				return fmt.Errorf("a stream ended early: %w", err)
			}
			return nil
		})
	}
	if err := reading.Wait(); err != nil {
		return nil, err
	}
	if time.Since(since) < d {
		return nil, context.Cause(ctx) // interrupted
	}
	if len(all) == 0 {
		return nil, errors.New("no event came")
	}
	return all, nil
}

// read returns how late each event was, until the stream ends, and why it did.
func read(lines *bufio.Reader, since time.Time) ([]time.Duration, error) {
	var delays []time.Duration
	for {
		line, err := lines.ReadString('\n')
		arrived := time.Now()
		if err != nil {
			return delays, err
		}
		text, isEvent := strings.CutPrefix(strings.TrimSpace(line), "data: ")
		if !isEvent {
			continue
		}
		nanos, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return delays, err
		}
		if sent := time.Unix(0, nanos); !sent.Before(since) {
			delays = append(delays, arrived.Sub(sent))
		}
	}
}
