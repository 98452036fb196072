package main

import (
	"context"
	"fmt"
	"sync"

	"golang.org/x/sync/errgroup"
)

// memory creates many sessions, sends a request to each through the router,
// and shows what both programs hold.
func (b *bench) memory(ctx context.Context) error {
	const atATime = 30
	var (
		mu    sync.Mutex
		ids   []string
		group errgroup.Group
	)
	group.SetLimit(atATime)
	for range b.sessions {
		group.Go(func() error {
			created, err := b.post(ctx, "/v1/agent-runtime")
			if err != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			ids = append(ids, created.SessionID)
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	for _, id := range ids {
		if status, code, err := b.invoke(ctx, id); err != nil || status != 200 {
			return fmt.Errorf("session %s answers %d %s: %w", id, status, code, err)
		}
	}
	fmt.Printf("\n## Memory with %d sessions, each used once\n\n", len(ids))
	for _, p := range []struct {
		name     string
		resident func() (int64, error)
	}{
		{"workload-manager", b.system.Manager().Resident},
		{"router", b.system.Router.Resident},
	} {
		bytes, err := p.resident()
		if err != nil {
			return err
		}
		fmt.Printf("%-20s %6.1f MB resident   (bound: 60 MB)\n", p.name, float64(bytes)/1e6)
	}
	return nil
}
