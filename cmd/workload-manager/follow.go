package main

import (
	"context"
	"errors"

	"go.uber.org/zap"

	"github.com/agentcube/agentcube/pkg/store"
)

// follow has those who wait for a session told of every change of its row,
// until ctx ends. A store that cannot be followed is looked at instead.
func (a *app) follow(ctx context.Context) error {
	err := a.store.Follow(ctx, a.changes)
	if errors.Is(err, store.ErrNotFollowed) {
		a.log.Warn("whoever waits for a session has it looked at once a second", zap.Error(err))
		return nil
	}
	return err
}
