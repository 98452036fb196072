package storm

import (
	"context"
	"fmt"
	"net/http"
	"time"
)

// A change of lifetimes never ends a session within a run.
const (
	patchLeast = 2 * time.Hour
	patchMost  = 12 * time.Hour
)

// patchOne changes lifetimes of a session whose own time is far away: one of
// them, or both.
func (w *World) patchOne(ctx context.Context, m *model, i int, which, how uint64) string {
	live := m.live(func(k *known) bool { return k.to.IsZero() })
	if len(live) == 0 {
		return nothing
	}
	ttl := int(between(how>>2, patchLeast, patchMost) / time.Second)
	body := [...]string{
		fmt.Sprintf(`{"ttl":%d}`, ttl), fmt.Sprintf(`{"idleTimeout":%d}`, ttl),
		fmt.Sprintf(`{"ttl":%d,"idleTimeout":%d}`, ttl, ttl),
	}[draw(how, 3)]
	return w.ofSession(ctx, i, http.MethodPatch, live[draw(which, len(live))].id, "", body).String()
}

// keepOne keeps a session alive, which may be one that is about to be idle for
// too long.
func (w *World) keepOne(ctx context.Context, m *model, i int, value uint64) string {
	live := m.live(func(*known) bool { return true })
	if len(live) == 0 {
		return nothing
	}
	k := live[draw(value, len(live))]
	began := time.Now()
	r := w.ofSession(ctx, i, http.MethodPost, k.id, "/keepalive", "")
	m.used(k.id, began, r.err == nil && r.status == http.StatusNoContent)
	return r.String()
}

// shortened: a session is given a shorter life.
func shortened(ctx context.Context, t *trial) error {
	id, _, err := t.session(ctx)
	if err != nil {
		return err
	}
	if r := t.ofSession(ctx, 0, http.MethodPatch, id, "", `{"ttl":3600}`); r.status != http.StatusOK {
		return fmt.Errorf("shortening the life of %s: %s", id, r)
	}
	return nil
}
