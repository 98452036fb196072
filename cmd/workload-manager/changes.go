package main

import (
	"context"
	"errors"

	"go.uber.org/zap"

	"github.com/agentcube/agentcube/pkg/store"
)

// changes tells of changes of rows until ctx ends. Where the store cannot be
// followed it tells of none, and who waits reads from time to time.
func (a *app) changes(ctx context.Context, support *group) *store.Changes {
	changes := store.NewChanges()
	support.Go(func() error {
		err := a.store.Follow(ctx, changes)
		if errors.Is(err, store.ErrNotFollowed) {
			a.log.Info("changes of rows are read, not told", zap.Error(err))
			return nil
		}
		return err
	})
	return changes
}
