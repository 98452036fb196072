package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/agentcube/agentcube/pkg/api"
)

const (
	// readyWait is how long one read of WaitReady is held open.
	readyWait = 5 * time.Second
	// unheldPause is how long a read takes at least that was to be held.
	unheldPause = time.Second
)

// Get reads a session.
func (c *Client) Get(ctx context.Context, id string) (api.Session, error) {
	return c.read(ctx, id, nil)
}

// Await reads a session once it is in another state than from, or after wait, at
// most two minutes. With an empty from, the state that it is in is waited out.
func (c *Client) Await(ctx context.Context, id, from string, wait time.Duration) (api.Session, error) {
	query := url.Values{"wait": {wait.String()}}
	if from != "" {
		// So that a change between two reads is not waited out.
		query.Set("from", from)
	}
	begun := c.clock.Now()
	s, err := c.read(ctx, id, query)
	if err == nil && s.State == from && c.clock.Now().Sub(begun) < unheldPause {
		// It was not held, as by a server that does not know how: whoever asks
		// again and again is not to be faster for it.
		err = c.clock.Wait(ctx, min(wait, unheldPause))
	}
	return s, err
}

func (c *Client) read(ctx context.Context, id string, query url.Values) (api.Session, error) {
	var s api.Session
	err := c.session(ctx, "reading", http.MethodGet, id, "", query, nil, &s)
	return s, err
}

// WaitReady reads a session until it is no longer creating, and returns it. The
// error of a session that failed meanwhile is ErrSessionNotFound, with the
// reason. progress, if not nil, is told of each read.
func (c *Client) WaitReady(ctx context.Context, id string, progress func(api.Session)) (api.Session, error) {
	for {
		s, err := c.Await(ctx, id, api.StateCreating, readyWait)
		if err != nil || s.State != api.StateCreating {
			return s, err
		}
		if progress != nil {
			progress(s)
		}
	}
}

// Lifetimes are what Patch changes. What is zero stays as it is.
type Lifetimes struct {
	// TTL is the rest of the life, counted from when the workload-manager carries
	// it out, at most the template's.
	TTL time.Duration
	// IdleTimeout of the session.
	IdleTimeout time.Duration
}

// Patch changes the lifetimes of a session, and returns it as it is then. It is
// repeated like a read: the last try counts.
func (c *Client) Patch(ctx context.Context, id string, l Lifetimes) (api.Session, error) {
	var s api.Session
	body := api.PatchRequest{TTL: seconds(l.TTL), IdleTimeout: seconds(l.IdleTimeout)}
	err := c.session(ctx, "changing", http.MethodPatch, id, "", nil, body, &s)
	return s, err
}

// Keepalive counts as activity: the idle time of the session starts anew.
func (c *Client) Keepalive(ctx context.Context, id string) error {
	return c.session(ctx, "keeping alive", http.MethodPost, id, "/keepalive", nil, nil, nil)
}

// Delete ends a session, in any state. One that is gone after the answer to an
// earlier try was lost was ended by it.
func (c *Client) Delete(ctx context.Context, id string) error {
	got, err := c.do(ctx, call{
		doing: "deleting session " + id, method: http.MethodDelete, max: maxAnswer,
		// The route that existing installations have too; it takes any session.
		path: createRoutes[AgentRuntime] + "/sessions/" + url.PathEscape(id),
	})
	if got.repeated && errors.Is(err, ErrSessionNotFound) {
		return nil
	}
	return err
}

// session makes a call about a session; into is filled from the answer unless
// it is nil.
func (c *Client) session(
	ctx context.Context, doing, method, id, below string, query url.Values, body, into any,
) error {
	doing += " session " + id
	got, err := c.do(ctx, call{
		doing: doing, method: method, path: sessionsRoute + "/" + url.PathEscape(id) + below,
		query: query, body: body, max: maxAnswer,
	})
	if err == nil && into != nil {
		if err = got.decode(into); err != nil {
			err = fmt.Errorf("%s: %w", doing, err)
		}
	}
	return err
}

// Filter narrows a list. What is empty does not.
type Filter struct {
	Namespace string
	// Kind and Name are those of the workload.
	Kind  Kind
	Name  string
	State string
	Owner string
	// PageSize is how many sessions one call returns: 1 to 1,000, 0 means the
	// server's default.
	PageSize int
}

func (f Filter) query(cursor string) url.Values {
	q := url.Values{}
	for name, value := range map[string]string{
		"namespace": f.Namespace, "kind": string(f.Kind), "name": f.Name,
		"state": f.State, "owner": f.Owner, "cursor": cursor,
	} {
		if value != "" {
			q.Set(name, value)
		}
	}
	if f.PageSize > 0 {
		q.Set("limit", strconv.Itoa(f.PageSize))
	}
	return q
}
