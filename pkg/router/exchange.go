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
// handler's goroutine; conn, bodyEnded and clientErr are written by the transport's, and
// end may be called by any.
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
	// aimed is the row that to was taken from, for those who dial.
	aimed atomic.Pointer[session.Route]
	// answer is the header of the answer to the client.
	answer http.Header
	slot   *slot
	flight *Flight
	// end ends the forwarding, with the error that the caller gets.
	end func(error)
	// conn is the connection to the sandbox.
	conn atomic.Pointer[sandboxConn]
	// duplex: the body is read on after the answer has begun.
	duplex bool
	// bodyEnded: the request's body was read to its end.
	bodyEnded atomic.Bool
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

// lastOnConn says so, in an answer of which this is the header, if the client's
// connection cannot bear another request: what may still be read of the body
// when the handler is done must not meet the server that reads the next
// request. It would panic, in whichever goroutine comes second, or take the
// rest of the body for a request.
func (x *exchange) lastOnConn(h http.Header) {
	if x != nil && x.duplex && !x.bodyEnded.Load() {
		h["Connection"] = []string{"close"}
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
