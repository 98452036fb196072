package router

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/agentcube/agentcube/pkg/session"
)

// waiting are the requests whose sandbox has not begun to answer. A sandbox
// may take its time, but one that is gone often leaves a connection that
// nobody closes: what is sent into it is sent again by the kernel for a
// quarter of an hour. Only the store can tell the two apart.
type waiting struct {
	mu  sync.Mutex // guards set
	set map[*wait]struct{}
}

// wait is one such request. It is not changed once it is in the set.
type wait struct {
	row   *session.Route
	x     *exchange
	to    destination
	since time.Time
}

func (w *waiting) add(one *wait) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.set[one] = struct{}{}
}

func (w *waiting) remove(one *wait) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.set, one)
}

// end ends a request with err, unless its sandbox has begun to answer.
func (w *waiting) end(one *wait, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, ok := w.set[one]; ok {
		one.x.end(err)
	}
}

// since adds the waits that began no later than t, by session.
func (w *waiting) since(t time.Time, found map[string][]*wait) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for one := range w.set {
		if !one.since.After(t) {
			found[one.row.ID] = append(found[one.row.ID], one)
		}
	}
}

// of adds the waits of the sessions that found has, in one pass.
func (w *waiting) of(found map[string][]*wait) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for one := range w.set {
		if its, ok := found[one.row.ID]; ok {
			found[one.row.ID] = append(its, one)
		}
	}
}

// Run looks at the sessions whose row has changed (Leave). Requests that wait
// for a sandbox which, by the store, is gone are ended, and connections to it
// closed. Since a change may be missed it also looks at all requests that have
// waited for a dial timeout, as often as that. It closes connections that were
// idle for too long. It returns nil when ctx ends.
func (rt *Router) Run(ctx context.Context) error {
	period := rt.opts.DialTimeout
	ticker := rt.clock.NewTicker(period)
	defer ticker.Stop()
	expiry := rt.clock.NewTicker(idleConnTimeout / 4)
	defer expiry.Stop()
	for {
		doubtful := map[string][]*wait{}
		select {
		case <-ctx.Done():
			return nil
		case <-rt.changes.some:
			rt.changed(doubtful)
		case <-expiry.C():
			rt.idle.expire()
		case <-ticker.C():
			rt.waiting.since(rt.clock.Now().Add(-period), doubtful)
		}
		for id, waits := range doubtful {
			if len(waits) > 0 || rt.conns.has(id) {
				rt.look(ctx, id, waits)
			}
		}
	}
}

// changed adds the sessions to be looked at, with what waits for them.
func (rt *Router) changed(doubtful map[string][]*wait) {
	ids, all := rt.changes.take()
	if all {
		for _, id := range rt.conns.sessions() {
			doubtful[id] = nil
		}
		rt.waiting.since(rt.clock.Now(), doubtful)
		return
	}
	for id := range ids {
		doubtful[id] = nil
	}
	rt.waiting.of(doubtful)
}

// look asks where the session is, and ends what still is elsewhere. One answer
// serves all its requests. The requests come first: they learn why.
func (rt *Router) look(ctx context.Context, id string, waits []*wait) {
	row, err := rt.lookup(ctx, rt.Store.Get, id)
	for _, one := range waits {
		if err := rt.left(one, row, err); err != nil {
			rt.waiting.end(one, err)
		}
	}
	if err == nil || errors.Is(err, errSessionNotFound) {
		rt.conns.leave(id, row)
	}
}

// left returns an error if the session has left the sandbox that is waited
// for. A store that cannot be asked proves nothing, and neither does a
// sandbox that is not ready while it still has its address: it may be busy
// with this very request.
func (rt *Router) left(one *wait, row *session.Route, err error) error {
	switch {
	case errors.Is(err, errSessionNotFound):
		return err
	case err != nil:
		return nil //nolint:nilerr // it proves nothing
	case row.State == session.StateDeleting:
		return notFound(row.ID)
	case serves(row, one.to.endpoint, one.row.Generation):
		return nil
	}
	if err := check(row, one.x.workload, one.x.user, rt.clock.Now()); err != nil {
		return err
	}
	if one.x.conn.Load() == nil {
		return nil // nothing was sent: the dial is cut, and the new address dialled
	}
	return errReplaced
}
