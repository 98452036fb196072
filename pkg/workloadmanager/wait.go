package workloadmanager

import (
	"context"
	"fmt"
	"net/url"
	"time"

	"github.com/agentcube/agentcube/pkg/session"
)

// maxWait bounds the wait of one read.
const maxWait = 2 * time.Minute

// Changes tells when rows change (pkg/workloadmanager/changes).
type Changes interface {
	// Subscribe signals each change of a row until unsubscribe is called.
	Subscribe(id string) (changed <-chan struct{}, unsubscribe func())
	// Recheck is how long to go without a look when nothing was signalled.
	Recheck() time.Duration
	// Done is closed when nobody shall wait any more.
	Done() <-chan struct{}
}

// wait is what a read waits for.
type wait struct {
	// most is how long. Zero: not at all.
	most time.Duration
	// from is the state to wait for the end of. Empty: the first one seen.
	from session.State
}

// readWait reads ?wait=30s&from=creating.
func readWait(u *url.URL) (wait, error) {
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return wait{}, invalid("query is malformed")
	}
	values, asked := query["wait"]
	if !asked {
		return wait{}, nil
	}
	most, err := time.ParseDuration(values[0])
	if err != nil || len(values) > 1 || most < 0 || most > maxWait {
		return wait{}, invalid(fmt.Sprintf("wait must be a duration such as 30s, at most %s", maxWait))
	}
	return wait{most: most, from: session.State(query.Get("from"))}, nil
}

// look looks at the session, and waits if it is to. It is subscribe, look,
// select, so that no change is missed.
func (s *Server) look(ctx context.Context, c caller, wait wait) (session.Snapshot, error) {
	if wait.most == 0 {
		return s.Rows.Look(ctx, c.id)
	}
	changed, unsubscribe := s.Changes.Subscribe(c.id)
	defer unsubscribe()
	end := s.Clock.NewTimer(wait.most)
	defer end.Stop()
	seen, err := s.Rows.Look(ctx, c.id)
	if wait.from == "" {
		wait.from = seen.State
	}
	for err == nil && seen.State == wait.from {
		again := s.Clock.NewTimer(s.Changes.Recheck())
		select {
		case <-ctx.Done():
			err = context.Cause(ctx)
		case <-end.C():
			wait.from = "" // whatever it is
		case <-s.Changes.Done():
			wait.from = ""
		case <-changed:
		case <-again.C():
		}
		again.Stop()
		if err == nil {
			seen, err = s.Rows.Look(ctx, c.id)
		}
	}
	return seen, err
}
