package client

import (
	"context"
	"fmt"
	"iter"
	"net/http"

	"github.com/agentcube/agentcube/pkg/api"
)

// List goes over the sessions that match, in the order in which they were
// created. Pages are read as they are needed. It ends with the first error.
func (c *Client) List(ctx context.Context, f Filter) iter.Seq2[api.Session, error] {
	return func(yield func(api.Session, error) bool) {
		for cursor := ""; ; {
			page, err := c.Page(ctx, f, cursor)
			if err != nil {
				yield(api.Session{}, err)
				return
			}
			for _, s := range page.Items {
				if !yield(s, nil) {
					return
				}
			}
			if page.Cursor == "" {
				return
			}
			cursor = page.Cursor
		}
	}
}

// Page reads one page of a list. The cursor is that of the page before, empty
// for the first one; the last page has none.
func (c *Client) Page(ctx context.Context, f Filter, cursor string) (api.SessionList, error) {
	const doing = "listing sessions"
	var page api.SessionList
	got, err := c.do(ctx, call{
		doing: doing, method: http.MethodGet, path: sessionsRoute, query: f.query(cursor), max: maxPage,
	})
	if err != nil {
		return page, err
	}
	if err := got.decode(&page); err != nil {
		return page, fmt.Errorf("%s: %w", doing, err)
	}
	return page, nil
}
