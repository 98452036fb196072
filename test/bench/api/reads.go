package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"
	"k8s.io/utils/clock"

	"github.com/agentcube/agentcube/pkg/api"
	"github.com/agentcube/agentcube/pkg/httpserver"
	"github.com/agentcube/agentcube/pkg/store"
	"github.com/agentcube/agentcube/pkg/telemetry"
	"github.com/agentcube/agentcube/pkg/workloadmanager"
	"github.com/agentcube/agentcube/pkg/workloadmanager/changes"
	"github.com/agentcube/agentcube/test/cluster"
)

// Bounds that the figures are printed beside.
const (
	listBound    = 50 * time.Millisecond
	readBound    = 2 * time.Millisecond
	metricsBound = 10 * time.Millisecond
)

const (
	// writers load the store at a time.
	writers = 64
	// limit of a page.
	limit = 1000
)

// server is the API over a store.
type server struct {
	*httptest.Server

	rows  *store.Redis
	begin time.Time
}

// queries are none, each filter, some together that have much in common, and
// some that have little or nothing.
var queries = []string{
	"", "namespace=tenant-07", "kind=CodeInterpreter", "name=bench-runtime",
	"state=ready", "state=not-ready", "owner=" + owner(0),
	"namespace=tenant-07&state=ready", "kind=AgentRuntime&name=bench-runtime&state=ready",
	"owner=" + owner(0) + "&state=not-ready",
	"namespace=tenant-07&kind=AgentRuntime", "kind=AgentRuntime&name=bench-interpreter",
}

func measureReads(ctx context.Context, s settings, redis *cluster.Redis) error {
	rows := store.New(clock.RealClock{}, store.Client(store.Config{Addrs: []string{redis.Addr}}), store.Options{})
	defer rows.Close()
	a := serve(rows, s)
	defer a.Close()
	if err := a.load(ctx, s.sessions); err != nil {
		return fmt.Errorf("loading sessions: %w", err)
	}
	fmt.Printf("\n## Requests to the workload-manager among %d sessions, medians of %d\n\n%-58s %8s %8s %8s %8s\n",
		s.sessions, s.rounds, "GET", "items", "ms", "worst", "CPU ms")
	if err := a.lists(ctx, s); err != nil {
		return err
	}
	if err := a.walk(ctx); err != nil {
		return err
	}
	one := a.URL + "/v1/sessions/" + sessionAt(s.sessions/2, a.begin).ID
	if err := a.measure(ctx, "/v1/sessions/{id}", one, s.rounds*10, readBound); err != nil {
		return err
	}
	return a.measure(ctx, "/metrics", a.URL+"/metrics", s.rounds, metricsBound)
}

// serve starts the server that is shipped, without what creates.
func serve(rows *store.Redis, s settings) *server {
	registry := telemetry.NewRegistry("bench-api", telemetry.ReadBuild())
	registry.MustRegister(telemetry.NewSessions(func(ctx context.Context) (map[string]int, error) {
		states, err := rows.States(ctx)
		counts := map[string]int{}
		for state, n := range states {
			counts[string(state)] = n
		}
		return counts, err
	}))
	handler := workloadmanager.New(workloadmanager.Config{
		Clock: clock.RealClock{}, Log: zap.NewNop(), Index: rows, Rows: rows, Changes: changes.New(),
		Health: httpserver.NewHealth(clock.RealClock{}, zap.NewNop()), Metrics: telemetry.MetricsHandler(registry),
	})
	return &server{
		Server: httptest.NewServer(handler), rows: rows,
		begin: time.Now().Add(-time.Duration(s.sessions) * apart),
	}
}

func (a *server) load(ctx context.Context, n int) error {
	group, ctx := errgroup.WithContext(ctx)
	for w := range writers {
		group.Go(func() error {
			for i := w; i < n; i += writers {
				if _, err := a.rows.Create(ctx, sessionAt(i, a.begin)); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return group.Wait()
}

// lists measures a page from the middle of all, with each filter and with some
// together.
func (a *server) lists(ctx context.Context, s settings) error {
	for _, query := range queries {
		target := fmt.Sprintf("%s/v1/sessions?limit=%d&%s", a.URL, limit, query)
		if err := a.measure(ctx, cmp.Or(query, "all"), target, s.rounds, listBound); err != nil {
			return err
		}
	}
	return nil
}

// walk measures the pages of a walk through all sessions.
func (a *server) walk(ctx context.Context) error {
	var took []time.Duration
	before := processorTime()
	for cursor, items := "", 0; ; {
		begun := time.Now()
		body, err := a.get(ctx, fmt.Sprintf("%s/v1/sessions?limit=%d&cursor=%s", a.URL, limit, cursor))
		if err != nil {
			return err
		}
		took = append(took, time.Since(begun))
		var list api.SessionList
		if err := json.Unmarshal(body, &list); err != nil {
			return err
		}
		items += len(list.Items)
		if cursor = list.Cursor; cursor == "" {
			line(fmt.Sprintf("all, each of the %d pages of a walk", len(took)), items, took, processorTime()-before, listBound)
			return nil
		}
	}
}

// measure sends a request some times and prints the median.
func (a *server) measure(ctx context.Context, what, target string, rounds int, bound time.Duration) error {
	items, before := 0, processorTime()
	took := make([]time.Duration, rounds)
	for i := range took {
		begun := time.Now()
		body, err := a.get(ctx, target)
		if err != nil {
			return err
		}
		took[i] = time.Since(begun)
		items = strings.Count(string(body), `"sessionId":`)
	}
	line(what, items, took, processorTime()-before, bound)
	return nil
}

// processorTime is what this process has used so far: the server and its client,
// not Redis. On a machine that is busy it tells more than the clock.
func processorTime() time.Duration {
	var usage syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &usage) // never fails for the process itself
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

func (a *server) get(ctx context.Context, target string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, target, http.NoBody)
	if err != nil {
		return nil, err
	}
	response, err := a.Client().Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("GET %s: %s: %s", target, response.Status, body)
	}
	return body, err
}

func line(what string, items int, took []time.Duration, worked, bound time.Duration) {
	note := fmt.Sprintf("(bound: %s)", bound)
	if median(took) > bound {
		note += "   above the bound"
	}
	fmt.Fprintf(os.Stdout, "%-58s %8d %8.2f %8.2f %8.2f   %s\n",
		what, items, ms(median(took)), ms(slices.Max(took)), ms(worked)/float64(len(took)), note)
}

func median[T cmp.Ordered](values []T) T { return slices.Sorted(slices.Values(values))[len(values)/2] }

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
