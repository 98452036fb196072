package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/agentcube/agentcube/test/bench/scrape"
)

const (
	lookInterval = 100 * time.Millisecond
	// quietRate of reads a second is what a program does that has nothing to do.
	quietRate = 100
	// quietFor is how long it must last.
	quietFor = 3 * time.Second
	// settleWithin bounds the wait for all of that.
	settleWithin = 10 * time.Minute
)

// settle waits until the workload-manager has compared every object with its
// row, and for its first resync where the build has one. It is to be called as
// soon as the caches are synced.
func (b *bench) settle(ctx context.Context, client goredis.UniversalClient, m *manager, r *result) error {
	ctx, cancel := context.WithTimeout(ctx, settleWithin)
	defer cancel()
	synced := time.Now()
	before, err := calls(ctx, client, "get")
	if err != nil {
		return err
	}
	looked, busy := synced, synced
	ticker := time.NewTicker(lookInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting until every object is compared with its row: %w", context.Cause(ctx))
		case <-ticker.C:
		}
		reads, err := calls(ctx, client, "get")
		if err != nil {
			return err
		}
		now := time.Now()
		if float64(reads-before) > quietRate*now.Sub(looked).Seconds() {
			busy = now
		}
		before, looked = reads, now
		if r.resync == nil {
			if r.resync, err = m.firstResync(synced); err != nil {
				return err
			}
		}
		if now.Sub(busy) >= quietFor {
			r.settled = busy.Sub(synced)
			return nil
		}
	}
}

// resync is a pass over all rows and objects.
type resync struct {
	// ended after the caches were synced; took is what the program says itself,
	// from the moment that it holds the lease.
	ended, took time.Duration
}

// firstResync is the first one in the log; nil: none yet, or none in this build.
func (m *manager) firstResync(synced time.Time) (*resync, error) {
	text, err := m.Output()
	if err != nil {
		return nil, err
	}
	for record := range records(text) {
		if record.Message == resyncMessage {
			return &resync{
				ended: record.Time.Sub(synced), took: time.Duration(record.Worked * float64(time.Second)),
			}, nil
		}
	}
	return nil, nil
}

// parseCalls reads INFO commandstats. A command that was never run has no line.
func parseCalls(info, command string) (int64, error) {
	for line := range strings.Lines(info) {
		rest, found := strings.CutPrefix(line, "cmdstat_"+command+":calls=")
		if !found {
			continue
		}
		number, _, _ := strings.Cut(rest, ",")
		return strconv.ParseInt(number, 10, 64)
	}
	return 0, nil
}

// weigh reads what the program holds, and the time that it has worked.
func (r *result) weigh(ctx context.Context, m *manager) error {
	var err error
	if r.resident, err = m.Resident(); err != nil {
		return err
	}
	if r.peak, err = m.Peak(); err != nil {
		return err
	}
	metrics, err := m.metrics(ctx)
	if err != nil {
		return err
	}
	r.heap = int64(metrics.Value("go_memstats_heap_alloc_bytes"))
	r.nextGC = int64(metrics.Value("go_memstats_next_gc_bytes"))
	r.settleCPU = worked(metrics) - r.syncCPU
	r.page, err = readPage(ctx, m.url+"/metrics")
	return err
}

// worked is the processor time that a program has taken.
func worked(metrics scrape.Metrics) time.Duration {
	return time.Duration(metrics.Value("process_cpu_seconds_total") * float64(time.Second))
}

// metrics are those that are one number.
func (m *manager) metrics(ctx context.Context) (scrape.Metrics, error) {
	return scrape.Read(ctx, m.url+"/metrics")
}
