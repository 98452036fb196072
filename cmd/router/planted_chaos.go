//go:build chaos

package main

import (
	"context"
	"os"
	"sync"

	"github.com/agentcube/agentcube/pkg/router/lookup"
	"github.com/agentcube/agentcube/pkg/session"
)

// bugServesDeleted is the planted bug of this program: AGENTCUBE_PLANTED_BUG
// names it, to show that the checker of the storm finds it. A row that was read
// once is served for ever.
const bugServesDeleted = "router-serves-deleted"

func chaosStore(s lookup.Store) lookup.Store {
	if os.Getenv("AGENTCUBE_PLANTED_BUG") == bugServesDeleted {
		return &hoarder{Store: s}
	}
	return s
}

type hoarder struct {
	lookup.Store
	rows sync.Map
}

func (h *hoarder) Get(ctx context.Context, id string) (session.Session, error) {
	if row, ok := h.rows.Load(id); ok {
		return row.(session.Session), nil
	}
	row, err := h.Store.Get(ctx, id)
	if err == nil {
		h.rows.Store(id, row)
	}
	return row, err
}
