package main

import (
	"context"
	"fmt"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/agentcube/agentcube/pkg/store"
	"github.com/agentcube/agentcube/test/bench/lifecycle/fleet"
)

const (
	// dueAfter leaves time to write the rows that become due.
	dueAfter = 5 * time.Second
	// collectWithin bounds the wait for their end.
	collectWithin = 3 * time.Minute
)

// collect lets sessions become due, all in one second, and watches at the store
// what the collector does about it.
func (b *bench) collect(ctx context.Context, rows *store.Redis, client goredis.UniversalClient, m *manager, f fleet.Fleet, r *result) error {
	ctx, cancel := context.WithTimeout(ctx, collectWithin)
	defer cancel()
	now, err := client.Time(ctx).Result()
	if err != nil {
		return err
	}
	if err := b.expire(ctx, rows, f, now.Add(dueAfter).Truncate(time.Second)); err != nil {
		return fmt.Errorf("making sessions due: %w", err)
	}
	begun := time.Now()
	monitor, err := startMonitor(ctx, b.redis.Addr)
	if err != nil {
		return err
	}
	defer monitor.close()
	for r.ended < b.due {
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for the end of %d sessions, %d have ended: %w", b.due, r.ended, context.Cause(ctx))
		case <-time.After(lookInterval):
		}
		if r.ended, r.passes, err = m.collected(begun); err != nil {
			return err
		}
	}
	r.traffic, err = monitor.stop()
	return err
}

// collected is how many sessions have ended since, in how many passes.
func (m *manager) collected(since time.Time) (ended, passes int, err error) {
	text, err := m.Output()
	if err != nil {
		return 0, 0, err
	}
	for record := range records(text) {
		if record.Message == collectMessage && record.Time.After(since) && record.Ended > 0 {
			ended += record.Ended
			passes++
		}
	}
	return ended, passes, nil
}
