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

// since lists the waits that began no later than t.
func (w *waiting) since(t time.Time) []*wait {
	w.mu.Lock()
	defer w.mu.Unlock()
	var old []*wait
	for one := range w.set {
		if !one.since.After(t) {
			old = append(old, one)
		}
	}
	return old
}

// of lists the waits of a session.
func (w *waiting) of(id string) []*wait {
	w.mu.Lock()
	defer w.mu.Unlock()
	var its []*wait
	for one := range w.set {
		if one.row.ID == id {
			its = append(its, one)
		}
	}
	return its
}

// maxChanges bounds the sessions whose change is still to be looked at.
const maxChanges = 1024

// Run ends requests that wait for a sandbox which, by the store, is gone. It
// looks at those of a session whose row has changed (Leave), and, since a
// change may be missed, at all that have waited for a dial timeout, as often
// as that. It returns nil when ctx ends.
func (rt *Router) Run(ctx context.Context) error {
	period := rt.opts.DialTimeout
	ticker := rt.clock.NewTicker(period)
	defer ticker.Stop()
	for {
		var doubtful []*wait
		select {
		case <-ctx.Done():
			return nil
		case id := <-rt.changes:
			doubtful = rt.waiting.of(id)
		case <-ticker.C():
			doubtful = rt.waiting.since(rt.clock.Now().Add(-period))
		}
		for _, one := range doubtful {
			if err := rt.left(ctx, one); err != nil {
				rt.waiting.end(one, err)
			}
		}
	}
}

// left returns an error if the session has left the sandbox that is waited
// for. A store that cannot be asked proves nothing, and neither does a
// sandbox that is not ready while it still has its address: it may be busy
// with this very request.
func (rt *Router) left(ctx context.Context, one *wait) error {
	s, err := rt.lookup(ctx, rt.Store.Fresh, one.row.ID)
	switch {
	case errors.Is(err, errSessionNotFound):
		return err
	case err != nil:
		return nil //nolint:nilerr // it proves nothing
	case s.State == session.StateDeleting:
		return notFound(s.ID)
	}
	if s.Generation == one.row.Generation {
		for _, p := range s.EntryPoints {
			if p.Endpoint == one.to.endpoint {
				return nil
			}
		}
	}
	if err := check(s, one.x.workload, one.x.user, rt.clock.Now()); err != nil {
		return err
	}
	return errReplaced
}
