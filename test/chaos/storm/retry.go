package storm

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/agentcube/agentcube/pkg/api"
	"github.com/agentcube/agentcube/pkg/session"
	"github.com/agentcube/agentcube/test/chaos/check"
)

const (
	// retries are how often a create is sent again.
	retries = 5
	// retryPause lies between two of them.
	retryPause = 500 * time.Millisecond
	// twoOfOne is the outcome of equal creates that gave two sessions.
	twoOfOne = "two sessions of one key"
)

// createRetried creates a session with an Idempotency-Key: it hangs up after a
// while, and sends the same to the other workload-manager, until it is told of a
// session, and once more then.
func (w *World) createRetried(ctx context.Context, m *model, i int, s *space, workload session.WorkloadRef, t *template,
	key string, patience time.Duration,
) string {
	hurried, cancel := context.WithTimeout(ctx, patience)
	r, first := w.keyed(hurried, i, workload, key)
	cancel()
	for n := 0; n < retries && first == "" && again(r); n++ {
		sleep(ctx, retryPause)
		i = 1 - i
		r, first = w.keyed(ctx, i, workload, key)
	}
	if first == "" {
		return r.String()
	}
	told := func(id string) { m.told(id, func(k *known) { k.workload, k.space, k.template = workload, s, t }) }
	told(first)
	if _, second := w.keyed(ctx, 1-i, workload, key); second != "" && second != first {
		told(second)
		return twoOfOne
	}
	return ready
}

// again reports whether the same create may work later.
func again(r reply) bool {
	return r.err != nil || r.status >= http.StatusInternalServerError || r.status == http.StatusTooManyRequests ||
		r.status == http.StatusConflict && r.code == api.CodeSessionDeleted
}

// keyed sends a create with a key, and returns the session that it gave.
func (w *World) keyed(ctx context.Context, i int, workload session.WorkloadRef, key string) (reply, string) {
	r := w.send(ctx, http.MethodPost, w.managers[i].URL+createRoutes[workload.Kind],
		http.Header{http.CanonicalHeaderKey(api.HeaderIdempotencyKey): {key}},
		fmt.Sprintf(`{"namespace":%q,"name":%q}`, workload.Namespace, workload.Name))
	var created api.CreateResponse
	if r.err == nil && r.status == http.StatusOK {
		r.err = json.Unmarshal(r.body, &created)
	}
	return r, created.SessionID
}

// createdAtOnce: equal creates with one key come at once.
func createdAtOnce(ctx context.Context, t *trial) error {
	workload := runtimeOf(t.space)
	var group errgroup.Group
	for range 3 {
		group.Go(func() error {
			r, id := t.keyed(ctx, 0, workload, t.space.name)
			if id == "" {
				return fmt.Errorf("creating: %s", r)
			}
			t.model.told(id, func(k *known) { k.workload, k.space = workload, t.space })
			return nil
		})
	}
	return group.Wait()
}

// readKeys reads the records of all keys.
func (w *World) readKeys(ctx context.Context) (map[string]check.KeyRecord, error) {
	found := map[string]check.KeyRecord{}
	names := w.redis.Scan(ctx, 0, check.KeyPrefix+"*", page).Iterator()
	for names.Next(ctx) {
		record, err := w.redis.Get(ctx, names.Val()).Result()
		if err != nil {
			continue // ended meanwhile, or an error that the next call shows too
		}
		left, err := w.redis.TTL(ctx, names.Val()).Result()
		if err != nil || left == -2 { // it ended since
			continue
		}
		id, _, _ := strings.Cut(record, " ")
		if !session.ValidID(id) {
			id = ""
		}
		found[strings.TrimPrefix(names.Val(), check.KeyPrefix)] = check.KeyRecord{Session: id, Left: max(left, 0)}
	}
	return found, names.Err()
}
