package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"

	"github.com/agentcube/agentcube/pkg/api"
	"github.com/agentcube/agentcube/pkg/sandbox"
	"github.com/agentcube/agentcube/pkg/session"
)

// post creates a session through the API.
func (b *bench) post(ctx context.Context, route string) (api.CreateResponse, error) {
	var created api.CreateResponse
	body := fmt.Sprintf(`{"namespace":%q,"name":%q}`, namespace, workload)
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, b.system.Manager().URL+route, bytes.NewBufferString(body))
	if err != nil {
		return created, err
	}
	response, err := b.http.Do(request)
	if err != nil {
		return created, err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		return created, err
	}
	if response.StatusCode != http.StatusOK {
		return created, fmt.Errorf("POST %s: %s: %s", route, response.Status, answer)
	}
	err = json.Unmarshal(answer, &created)
	return created, err
}

// contender is one way to create.
type contender struct {
	name   string
	warm   bool
	create func(context.Context) error
	clear  func(context.Context) error
}

// sample is what the rounds of one contender at one concurrency gave.
type sample struct {
	took  []time.Duration
	rates []float64
}

func (b *bench) contenders(ctx context.Context) ([]contender, error) {
	claims, err := b.newFloor(ctx, session.KindSandboxClaim)
	if err != nil {
		return nil, err
	}
	sandboxes, err := b.newFloor(ctx, session.KindSandbox)
	if err != nil {
		return nil, err
	}
	ours := func(route string) func(context.Context) error {
		return func(ctx context.Context) error {
			_, err := b.post(ctx, route)
			return err
		}
	}
	return []contender{
		{name: "warm floor", warm: true, create: claims.create, clear: claims.clear},
		{name: "warm POST", warm: true, create: ours("/v1/code-interpreter"), clear: func(ctx context.Context) error {
			return b.clear(ctx, b.api.Claims(), sandbox.LabelSessionID)
		}},
		{name: "cold floor", create: sandboxes.create, clear: sandboxes.clear},
		{name: "cold POST", create: ours("/v1/agent-runtime"), clear: func(ctx context.Context) error {
			return b.clear(ctx, b.api.Sandboxes(), sandbox.LabelSessionID)
		}},
	}, nil
}

var waves = []struct{ atATime, n int }{{1, 20}, {15, 45}, {30, poolSize}}

// creates runs the contenders in turns, so that whatever else the machine does
// hits all of them alike.
func (b *bench) creates(ctx context.Context) error {
	contenders, err := b.contenders(ctx)
	if err != nil {
		return err
	}
	samples := map[string][]sample{}
	for _, c := range contenders {
		samples[c.name] = make([]sample, len(waves))
	}
	if err := b.round(ctx, contenders, func(string, int, sample) {}); err != nil {
		return err // it only warms caches and connections
	}
	for n := range b.rounds {
		// The other way round every second time: whoever comes later meets
		// what the earlier one has left to do.
		inTurn := slices.Clone(contenders)
		if n%2 == 1 {
			slices.Reverse(inTurn)
		}
		err := b.round(ctx, inTurn, func(name string, i int, more sample) {
			s := &samples[name][i]
			s.took = append(s.took, more.took...)
			s.rates = append(s.rates, more.rates...)
		})
		if err != nil {
			return err
		}
	}
	printCreates(contenders, samples)
	return nil
}

// round gives each contender its turn at each wave, and tells what it took.
func (b *bench) round(ctx context.Context, contenders []contender, tell func(name string, wave int, took sample)) error {
	for i, w := range waves {
		for _, c := range contenders {
			if err := errors.Join(b.poolFull(ctx), b.quiet(ctx)); err != nil {
				return err
			}
			took, all, err := wave(ctx, w.n, w.atATime, c.create)
			if err != nil {
				return fmt.Errorf("%s, %d at a time: %w", c.name, w.atATime, err)
			}
			tell(c.name, i, sample{took: took, rates: []float64{float64(w.n) / all.Seconds()}})
			if err := c.clear(ctx); err != nil {
				return fmt.Errorf("clearing after %s: %w", c.name, err)
			}
		}
	}
	return nil
}

func printCreates(contenders []contender, samples map[string][]sample) {
	fmt.Printf("\n## Creates (floor: sent until a watch shows it ready)\n\n%-12s %10s %8s %9s %9s %9s\n",
		"", "at a time", "creates", "p50 ms", "p99 ms", "per s")
	for i, w := range waves {
		for _, c := range contenders {
			s := samples[c.name][i]
			fmt.Printf("%-12s %10d %8d %9.1f %9.1f %9.1f\n", c.name, w.atATime, len(s.took),
				ms(percentile(s.took, 50)), ms(percentile(s.took, 99)), median(s.rates))
		}
	}
	p50 := func(name string, i int) float64 { return ms(percentile(samples[name][i].took, 50)) }
	fmt.Println()
	for i, w := range waves {
		for _, kind := range []string{"warm", "cold"} {
			floor, ours := p50(kind+" floor", i), p50(kind+" POST", i)
			bound := ""
			switch {
			case kind == "warm" && w.atATime == 1:
				bound = "   (bound: + 15 ms)"
			case kind == "warm" && w.atATime == 15:
				bound = "   (bound: x 1.2)"
			}
			fmt.Printf("%s, %d at a time: p50 of POST is the floor's %+.1f ms, x %.2f%s\n",
				kind, w.atATime, ours-floor, ours/floor, bound)
		}
	}
}

func percentile(d []time.Duration, p int) time.Duration {
	if len(d) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(d))
	return sorted[min(len(sorted)-1, len(sorted)*p/100)]
}

func median(v []float64) float64 {
	if len(v) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(v))
	return sorted[len(sorted)/2]
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
