//go:build chaos

package main

import (
	"context"
	"time"

	"github.com/agentcube/agentcube/pkg/config"
	"github.com/agentcube/agentcube/pkg/session"
	"github.com/agentcube/agentcube/pkg/store"
)

// chaosStore wraps the store. The planted bug is outside, so that a process can
// die in the middle of it.
func chaosStore(cfg config.WorkloadManager, s *store.Redis) *plantedStore {
	return newPlantedStore(cfg, &crashingStore{s})
}

// crashingStore is the store with a point around each write.
type crashingStore struct{ *store.Redis }

func (c *crashingStore) Create(ctx context.Context, s session.Session) (session.Session, error) {
	return around("store.Create", func() (session.Session, error) { return c.Redis.Create(ctx, s) })
}

func (c *crashingStore) Update(ctx context.Context, id string, change func(*session.Session) error) (session.Session, error) {
	return around("store.Update", func() (session.Session, error) { return c.Redis.Update(ctx, id, change) })
}

func (c *crashingStore) End(ctx context.Context, id string, idleSince time.Time, change func(*session.Session) error) (session.Session, error) {
	return around("store.End", func() (session.Session, error) { return c.Redis.End(ctx, id, idleSince, change) })
}

func (c *crashingStore) Remove(ctx context.Context, id string, guard func(session.Session) error) error {
	return aroundErr("store.Remove", func() error { return c.Redis.Remove(ctx, id, guard) })
}

func (c *crashingStore) Postpone(ctx context.Context, id string, at time.Time) error {
	return aroundErr("store.Postpone", func() error { return c.Redis.Postpone(ctx, id, at) })
}

func (c *crashingStore) Index(ctx context.Context) (int, error) {
	return around("store.Index", func() (int, error) { return c.Redis.Index(ctx) })
}
