package router

import (
	"context"
	"net/http"
	"strconv"
	"sync/atomic"

	"github.com/agentcube/agentcube/pkg/auth"
	"github.com/agentcube/agentcube/pkg/httpserver"
	"github.com/agentcube/agentcube/pkg/session"
)

// exchange is what the router knows of one request. It belongs to the
// handler's goroutine; conn and clientErr are written by the transport's, and end may be
// called by any.
type exchange struct {
	invocation
	// query goes to the sandbox; marked: with a question mark.
	query  string
	marked bool
	user   auth.Principal
	// id of the session, as soon as it is known.
	id string
	// created: the session was made for this request.
	created bool
	// session is the row last read. Nil until there is one.
	session *session.Route
	to      destination
	// answer is the header of the answer to the client.
	answer http.Header
	slot   *slot
	flight *Flight
	// end ends the forwarding, with the error that the caller gets.
	end func(error)
	// conn is the connection to the sandbox.
	conn atomic.Pointer[sandboxConn]
	// clientErr is set when reading the request's body failed.
	clientErr atomic.Pointer[error]
}

// stamp writes the headers that every answer of a session bears, over
// whatever the sandbox may have said there.
func (x *exchange) stamp(h http.Header) {
	if x == nil || x.id == "" {
		return
	}
	h[headerSessionID] = []string{x.id}
	delete(h, headerGeneration)
	if x.session != nil {
		h[headerGeneration] = []string{strconv.FormatInt(x.session.Generation, 10)}
	}
}

// exchangeOf returns the request's exchange, nil if it has none.
func exchangeOf(ctx context.Context) *exchange {
	x, _ := httpserver.RecordFrom(ctx).Carried().(*exchange)
	return x
}

// exchangeFrom returns the request's exchange. Nothing gets to the proxy
// without one.
func exchangeFrom(ctx context.Context) *exchange {
	x := exchangeOf(ctx)
	if x == nil {
		panic("router: a request got to the proxy without its exchange")
	}
	return x
}
