package main

import (
	"context"
	"fmt"
	"strconv"
	"time"
)

// Bounds that the figures are printed beside.
const (
	ratioBound   = 0.85
	latencyBound = 200 * time.Microsecond
)

const (
	// tokenLife is how long after the warming of a router no session's token has
	// to be signed anew: a minute before its five are over it is.
	tokenLife = 4 * time.Minute
	// turnOverhead is what a turn takes besides the load.
	turnOverhead = 500 * time.Millisecond
)

// bodies that the sandbox is sent and answers with.
var bodies = []struct {
	name, title string
	request
}{
	{"small", "small bodies", request{what: "small"}},
	{"posted", "posts of 1 KiB, answered with small bodies", request{what: "small", sent: 1 << 10}},
	{"large", "bodies of 64 KiB", request{what: "large"}},
}

// point is what all parties showed with one body at one number of connections,
// a turn a round.
type point struct {
	connections int
	turns       map[string][]turn
}

// rate is the median of a party.
func (p point) rate(name string) float64 {
	var rates []float64
	for _, t := range p.turns[name] {
		rates = append(rates, t.rate())
	}
	return median(rates)
}

// latency is the median over the rounds of each round's median, or of its 99th
// percentile.
func (p point) latency(name string, of func(turn) time.Duration) time.Duration {
	var all []time.Duration
	for _, t := range p.turns[name] {
		all = append(all, of(t))
	}
	return median(all)
}

// ratio of a party's median rate to that of the bare proxy.
func (p point) ratio(name, bare string) float64 { return p.rate(name) / p.rate(bare) }

// spread is the lowest and the highest of the ratios of one round. Far apart
// they say that the machine was not quiet.
func (p point) spread(name, bare string) (low, high float64) {
	var ratios []float64
	for i, t := range p.turns[name] {
		ratios = append(ratios, t.rate()/p.turns[bare][i].rate())
	}
	return percentile(ratios, 0), percentile(ratios, 100)
}

func median50(t turn) time.Duration { return t.p50 }
func tail99(t turn) time.Duration   { return t.p99 }

// throughput loads all parties in turns, with each body at each number of
// connections.
func (b *bench) throughput(ctx context.Context) error {
	var warm time.Time // when warming began
	for _, body := range bodies {
		var points []point
		for _, n := range b.connections {
			if staleWithin(time.Since(warm), b.pointTime()) {
				warm = time.Now()
				if err := b.warmAll(ctx); err != nil {
					return err
				}
			}
			p, err := b.point(ctx, body.request, body.title, n)
			if err != nil {
				return err
			}
			points = append(points, p)
		}
		b.printThroughput(body.title, points)
		b.chartThroughput(body.name, body.title, points)
		if body.name == "small" {
			b.printAdded(points)
		}
	}
	return nil
}

// staleWithin tells whether tokens of such an age have to be made anew within d.
// The age may be the longest there is, to which nothing can be added.
func staleWithin(age, d time.Duration) bool { return age > tokenLife-d }

// pointTime is how long a point takes.
func (b *bench) pointTime() time.Duration {
	return time.Duration(b.rounds*len(b.parties.all())) * (b.duration + turnOverhead)
}

// warmAll starts the routers anew, since tokens are made anew only shortly
// before they expire, and has each see all of its sessions.
func (b *bench) warmAll(ctx context.Context) error {
	for _, router := range b.parties.routers {
		if err := router.restart(ctx); err != nil {
			return err
		}
		if err := b.warm(ctx, router); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) point(ctx context.Context, r request, title string, connections int) (point, error) {
	b.say("%s, %d connections: %d rounds", title, connections, b.rounds)
	p := point{connections: connections, turns: map[string][]turn{}}
	for round := range b.rounds {
		b.seed++
		for _, party := range inTurn(b.parties.all(), round) {
			t, err := b.load(ctx, party, r, connections)
			if err != nil {
				return p, err
			}
			p.turns[party.name] = append(p.turns[party.name], t)
		}
	}
	return p, nil
}

func (b *bench) printThroughput(title string, points []point) {
	bare := b.parties.bare.name
	fmt.Fprintf(b.out, "\n## Throughput, %s (medians of %d turns of %s; bound of the ratio: %.2f)\n\n%-14s %11s %11s %8s %15s %9s %9s\n",
		title, b.rounds, b.duration, ratioBound, "", "connections", "requests/s", "to bare", "in one round", "p50 ms", "p99 ms")
	for _, p := range points {
		for _, party := range b.parties.all() {
			low, high := p.spread(party.name, bare)
			verdict := ""
			if party.router && p.ratio(party.name, bare) < ratioBound {
				verdict = "   below the bound"
			}
			fmt.Fprintf(b.out, "%-14s %11d %11.0f %8.2f %15s %9.3f %9.3f%s\n", party.name, p.connections,
				p.rate(party.name), p.ratio(party.name, bare), fmt.Sprintf("%.2f to %.2f", low, high),
				ms(p.latency(party.name, median50)), ms(p.latency(party.name, tail99)), verdict)
		}
	}
}

// printAdded shows what a router adds to the latency of the bare proxy.
func (b *bench) printAdded(points []point) {
	for _, p := range points {
		if p.connections != 1 {
			continue
		}
		fmt.Fprintln(b.out)
		for _, router := range b.parties.routers {
			added := p.latency(router.name, median50) - p.latency(b.parties.bare.name, median50)
			fmt.Fprintf(b.out, "%s, one connection: p50 is that of the bare proxy %+.3f ms   (bound: + %.1f ms)\n",
				router.name, ms(added), ms(latencyBound))
		}
	}
}

// chartThroughput has the rates, and the ratios to the bare proxy.
func (b *bench) chartThroughput(what, title string, points []point) {
	rates := chart{
		File: "throughput-" + what, Title: "Throughput, " + title, X: "connections", Y: "requests a second",
	}
	ratios := chart{
		File: "ratio-" + what, Title: "Throughput against the bare proxy, " + title, X: "connections", Y: "ratio",
		Bound: &bound{Name: "bound", Value: ratioBound},
	}
	for _, p := range points {
		rates.Categories = append(rates.Categories, strconv.Itoa(p.connections))
	}
	ratios.Categories = rates.Categories
	for _, party := range b.parties.all() {
		rate, ratio := series{Name: party.name}, series{Name: party.name}
		for _, p := range points {
			rate.Values = append(rate.Values, p.rate(party.name))
			ratio.Values = append(ratio.Values, p.ratio(party.name, b.parties.bare.name))
		}
		rates.Series = append(rates.Series, rate)
		if party.router {
			ratios.Series = append(ratios.Series, ratio)
		}
	}
	b.charts = append(b.charts, rates, ratios)
}
