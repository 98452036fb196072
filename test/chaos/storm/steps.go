package storm

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/agentcube/agentcube/pkg/api"
	"github.com/agentcube/agentcube/pkg/session"
	"github.com/agentcube/agentcube/test/chaos/check"
)

// ready is the outcome of a create that gave a session.
const ready = "ready"

// nobody is a session id that nobody has.
const nobody = "00000000-0000-4000-8000-000000000000"

// nothing is the outcome of a step that found nothing to work on.
const nothing = "nothing there"

// createOn creates a session: of the CodeInterpreter with a warm pool, or, if t
// is nil, of the AgentRuntime.
func (w *World) createOn(ctx context.Context, m *model, i int, s *space, t *template) string {
	workload := runtimeOf(s)
	if t != nil {
		workload = warmRef(s, t)
	}
	return w.createOf(ctx, m, i, s, t, workload, "", func(*known) {})
}

func (w *World) createOf(ctx context.Context, m *model, i int, s *space, t *template, workload session.WorkloadRef,
	extra string, also func(*known),
) string {
	r, created := w.create(ctx, i, workload, extra)
	if created.SessionID == "" {
		return r.String()
	}
	m.told(created.SessionID, func(k *known) {
		k.workload, k.space, k.template = workload, s, t
		also(k)
	})
	return ready
}

// createShort creates a session with a short life, or, with idle, a short idle
// timeout, in seconds.
func (w *World) createShort(ctx context.Context, m *model, i int, s *space, ttl, idle int) string {
	began := time.Now()
	extra, life := fmt.Sprintf(`,"ttl":%d`, ttl), time.Duration(ttl)*time.Second
	if idle > 0 {
		extra, life = fmt.Sprintf(`,"idleTimeout":%d`, idle), time.Duration(idle)*time.Second
	}
	return w.createOf(ctx, m, i, s, nil, runtimeOf(s), extra, func(k *known) {
		k.from, k.to = began.Add(life), time.Now().Add(life+session.IdleGrace+endingTakes)
		if idle > 0 {
			k.idle = life
		}
	})
}

// createThroughRouter lets the router create the session.
func (w *World) createThroughRouter(ctx context.Context, m *model, s *space, t *template) string {
	workload := runtimeOf(s)
	if t != nil {
		workload = warmRef(s, t)
	}
	r := w.invoke(ctx, workload, "")
	id := r.header.Get(api.HeaderSessionID)
	if id == "" {
		return r.String()
	}
	m.told(id, func(k *known) { k.workload, k.space, k.template = workload, s, t })
	if r.status != http.StatusOK || r.code != "" {
		return "created, then " + r.String()
	}
	return ready
}

// createAndHangUp leaves before the answer, most of the time.
func (w *World) createAndHangUp(ctx context.Context, m *model, i int, s *space, patience time.Duration) string {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return w.createOn(ctx, m, i, s, nil)
}

// deleteOne deletes a session through the API.
func (w *World) deleteOne(ctx context.Context, m *model, i int, value uint64) string {
	live := m.live(func(*known) bool { return true })
	if len(live) == 0 {
		return nothing
	}
	k := live[draw(value, len(live))]
	done := m.ask(k.id, "deleted through the API")
	r := w.end(ctx, i, k.id)
	done(r.outcome())
	return r.String()
}

// deleteCreating deletes a session that is being created.
func (w *World) deleteCreating(ctx context.Context, m *model, i int, value uint64) string {
	ids, err := w.redis.ZRange(ctx, check.IndexCreating, 0, -1).Result()
	if err != nil || len(ids) == 0 {
		return nothing
	}
	id := ids[draw(value, len(ids))]
	done := m.ask(id, "deleted through the API while it was created")
	r := w.end(ctx, i, id)
	done(r.outcome())
	return r.String()
}

// invokeOne sends a request to a session.
func (w *World) invokeOne(ctx context.Context, m *model, value uint64) string {
	live := m.live(func(k *known) bool { return k.workload.Kind != "" })
	if len(live) == 0 {
		return nothing
	}
	k := live[draw(value, len(live))]
	began := time.Now()
	r := w.invoke(ctx, k.workload, k.id)
	m.used(k.id, began, r.err == nil && r.status == http.StatusOK)
	return r.String()
}

// kubeObject deletes the object of a session, which may be one that is being
// created.
func (w *World) kubeObject(ctx context.Context, m *model, value uint64) string {
	objects, err := w.carriers(ctx)
	if err != nil {
		return said(err)
	}
	if len(objects) == 0 {
		return nothing
	}
	o := objects[draw(value, len(objects))]
	done := m.ask(o.SessionID, "its "+o.Kind+" was deleted in the cluster")
	err = w.remove(ctx, w.kinds()[o.Kind], o.Namespace, o.Name)
	done(outcomeOf(err))
	return said(err)
}

// kubePod deletes the pod of a live session: it comes back, and the session
// lives.
func (w *World) kubePod(ctx context.Context, m *model, value uint64) string {
	row, ok := w.pickRow(ctx, m, value, func(check.Row) bool { return true })
	if !ok {
		return nothing
	}
	m.touch(row.SessionID)
	return said(w.remove(ctx, podResource, row.Namespace, row.SandboxName))
}

// kubeAdopted deletes the Sandbox that a claim has bound: it binds another, and
// the session lives.
func (w *World) kubeAdopted(ctx context.Context, m *model, value uint64) string {
	row, ok := w.pickRow(ctx, m, value, func(r check.Row) bool { return r.Kind == session.KindSandboxClaim })
	if !ok {
		return nothing
	}
	m.touch(row.SessionID)
	return said(w.remove(ctx, w.api.Sandboxes(), row.Namespace, row.SandboxName))
}

// pickRow chooses the row of a live session.
func (w *World) pickRow(ctx context.Context, m *model, value uint64, fits func(check.Row) bool) (check.Row, bool) {
	store, err := w.readStore(ctx)
	if err != nil {
		return check.Row{}, false
	}
	live := m.live(func(k *known) bool {
		row, ok := store.Rows[k.id]
		return ok && row.Status == ready && row.SandboxName != "" && fits(row)
	})
	if len(live) == 0 {
		return check.Row{}, false
	}
	return store.Rows[live[draw(value, len(live))].id], true
}

// relabel takes the label off the object of a live session, or changes it.
func (w *World) relabel(ctx context.Context, m *model, which, how uint64) string {
	row, ok := w.pickRow(ctx, m, which, func(check.Row) bool { return true })
	if !ok {
		return nothing
	}
	m.touch(row.SessionID)
	value := ""
	if draw(how, 2) == 1 {
		value = nobody
	}
	return said(w.label(ctx, check.Object{Kind: row.Kind, Namespace: row.Namespace, Name: row.Name}, value))
}

// stranger copies the label of a session to an object that is not ours, or
// deletes one that was made so. Neither is any business of the session.
func (w *World) stranger(ctx context.Context, m *model, value uint64) string {
	m.mu.Lock()
	if there := slices.Sorted(maps.Keys(m.strangers)); len(there) > 0 && draw(value, 2) == 1 {
		key := there[draw(value>>1, len(there))]
		namespace := m.strangers[key]
		delete(m.strangers, key)
		m.mu.Unlock()
		name := key[strings.LastIndex(key, "/")+1:]
		return "deleted: " + said(w.remove(ctx, w.api.Sandboxes(), namespace, name))
	}
	m.mu.Unlock()
	row, ok := w.pickRow(ctx, m, value, func(check.Row) bool { return true })
	if !ok {
		return nothing
	}
	name := fmt.Sprintf("stranger-%x", value>>40)
	err := w.copyLabel(ctx, row.Namespace, name, row.SessionID)
	if err == nil {
		m.mu.Lock()
		m.strangers[check.Key(session.KindSandbox, row.Namespace, name)] = row.Namespace
		m.mu.Unlock()
	}
	return "made: " + said(err)
}

// kubeTemplate deletes a CodeInterpreter with a warm pool: the claims go with
// it. Another one takes its place.
func (w *World) kubeTemplate(ctx context.Context, m *model, s *space, next string) string {
	t := m.warmOf(s)
	m.mu.Lock()
	t.doubted = true
	m.mu.Unlock()
	err := w.remove(ctx, templateResource, s.name, t.name)
	m.mu.Lock()
	t.at = time.Now()
	switch outcomeOf(err) {
	case granted:
		t.doomed = true
	case harmless:
		t.doubted = false
	case unclear:
	}
	m.mu.Unlock()
	if err != nil {
		return said(err)
	}
	fresh, err := w.makeWarm(ctx, s.name, next)
	if err != nil {
		return "deleted, and none in its place: " + said(err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	s.warm = fresh
	return said(nil)
}

// goneWithin is how long a namespace may take to go.
const goneWithin = 45 * time.Second

// kubeNamespace deletes a namespace and waits until it is gone, for an API
// server that starts while one is being emptied does not show its custom
// resources at first, and what is left of them then stays for ever. Another
// namespace takes its place.
func (w *World) kubeNamespace(ctx context.Context, m *model, s *space, next, warm string) string {
	m.mu.Lock()
	s.doubted = true
	for key, namespace := range m.strangers {
		if namespace == s.name {
			delete(m.strangers, key)
		}
	}
	m.mu.Unlock()
	err := w.remove(ctx, namespaceResource, "", s.name)
	m.mu.Lock()
	s.at = time.Now()
	switch outcomeOf(err) {
	case granted:
		s.doomed = true
	case harmless:
		s.doubted = false
	case unclear:
	}
	m.mu.Unlock()
	if err != nil {
		return said(err)
	}
	w.waitGone(ctx, s.name)
	fresh, err := w.makeSpace(ctx, next, warm)
	if err != nil {
		return "deleted, and none in its place: " + said(err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.spaces = append(m.spaces, fresh)
	return said(nil)
}

// waitGone returns when a namespace is gone, or after the time.
func (w *World) waitGone(ctx context.Context, name string) {
	ctx, cancel := context.WithTimeout(ctx, goneWithin)
	defer cancel()
	for ctx.Err() == nil {
		_, err := w.client.Resource(namespaceResource).Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return
		}
		sleep(ctx, settleInterval)
	}
}

// said names the outcome of a call of an operator.
func said(err error) string {
	switch outcomeOf(err) {
	case granted:
		return "done"
	case harmless:
		return "refused"
	default:
		return "outcome unknown"
	}
}
