package router

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"time"
)

// Back-off between dials to a sandbox whose row has not changed.
const (
	firstBackoff = 20 * time.Millisecond
	maxBackoff   = 200 * time.Millisecond
)

// redialer sends a request to where the store says the session is. When the
// sandbox does not accept the connection it asks the store again: the session
// may be gone, not ready, or elsewhere. Only dials are repeated; before one
// has succeeded nothing of the request was sent. What fails later fails for
// good (net/http itself repeats requests without a body that are idempotent).
type redialer struct {
	router *Router
	wire   http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (d *redialer) RoundTrip(req *http.Request) (*http.Response, error) {
	x := exchangeFrom(req.Context())
	req = onConnection(req, x.gotConn)
	if req.Body != nil {
		req.Body = &keptBody{Reader: req.Body, x: x}
	}
	res, err := d.send(req, x)
	if !isDial(err) {
		return res, err
	}
	return d.redial(req, x, err)
}

// onConnection calls got when the request has a connection. The reverse proxy
// makes a trace for each request, which takes another hook for nothing; to
// compose two takes more time than the rest of the router.
func onConnection(req *http.Request, got func(httptrace.GotConnInfo)) *http.Request {
	if trace := httptrace.ContextClientTrace(req.Context()); trace != nil && trace.GotConn == nil {
		trace.GotConn = got
		return req
	}
	return req.WithContext(httptrace.WithClientTrace(req.Context(), &httptrace.ClientTrace{GotConn: got}))
}

// send makes one attempt, which ends early if the store says that the sandbox
// is gone.
func (d *redialer) send(req *http.Request, x *exchange) (*http.Response, error) {
	one := &wait{row: x.session, x: x, to: x.to, since: d.router.clock.Now()}
	res, err := d.await(req, one)
	// Nobody ends it from here on, but somebody may have just as it was answered.
	if cause := context.Cause(req.Context()); cause != nil && known(cause) {
		if err == nil {
			_ = res.Body.Close() // what follows of it was cut off
		}
		return nil, cause
	}
	return res, err
}

// await is the time during which the attempt may be ended.
func (d *redialer) await(req *http.Request, one *wait) (*http.Response, error) {
	d.router.waiting.add(one)
	defer d.router.waiting.remove(one)
	return d.wire.RoundTrip(req)
}

// redial follows the row for as long as the window allows.
func (d *redialer) redial(req *http.Request, x *exchange, failure error) (*http.Response, error) {
	ctx, clk := req.Context(), d.router.clock
	end := clk.Now().Add(d.router.opts.RetryWindow)
	moved, err := d.reread(ctx, x)
	for backoff := firstBackoff; err == nil; backoff = min(2*backoff, maxBackoff) {
		if !moved {
			if !d.pause(ctx, backoff, end) {
				return nil, failure
			}
			if moved, err = d.reread(ctx, x); err != nil {
				break
			}
		}
		attempt := ctx
		if !moved {
			attempt = withDialTimeout(ctx, max(end.Sub(clk.Now()), time.Millisecond))
		}
		again := req.WithContext(attempt) // shares the trailers, which are yet to come
		again.Header, again.URL = req.Header.Clone(), new(url.URL)
		x.address(again)
		if x.to.authorization != "" {
			again.Header.Set("Authorization", x.to.authorization)
		}
		d.router.counts.retries.Add(1)
		res, latest := d.send(again, x)
		req.Body = again.Body // a body that was read comes back as another
		if !isDial(latest) {
			return res, latest
		}
		if moved || !timedOut(latest) { // one that the window cut short says nothing new
			failure = latest
		}
		moved = false
	}
	return nil, err
}

// reread asks the store where the session is now.
func (d *redialer) reread(ctx context.Context, x *exchange) (moved bool, err error) {
	s, err := d.router.lookup(ctx, d.router.Store.Fresh, x.id)
	if err != nil {
		return false, err
	}
	before, generation := x.to, x.session.Generation
	x.session = s
	if err := d.router.aim(x); err != nil {
		return false, err
	}
	if before.endpoint != x.to.endpoint {
		d.router.conns.leave(x.id, s)
	}
	return before.endpoint != x.to.endpoint || generation != s.Generation, nil
}

// pause waits before the next dial. False: there is no time left for one.
func (d *redialer) pause(ctx context.Context, backoff time.Duration, end time.Time) bool {
	if left := end.Sub(d.router.clock.Now()); left <= backoff {
		return false
	}
	timer := d.router.clock.NewTimer(backoff)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C():
		return true
	}
}

// isDial reports that no connection came about.
func isDial(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

func timedOut(err error) bool {
	var network net.Error
	return errors.As(err, &network) && network.Timeout()
}

// classify says which of the router's errors a failed round trip is.
func classify(ctx context.Context, err error) error {
	x := exchangeFrom(ctx)
	clientErr := x.clientErr.Load()
	switch {
	case known(err): // from the store, or a check
		return err
	case clientErr != nil:
		return fmt.Errorf("%w: %w", errBadBody, *clientErr)
	case timedOut(err):
		return fmt.Errorf("%w: %w", errTimeout, err)
	default:
		return fmt.Errorf("%w: %w", errUnreachable, err)
	}
}

// keptBody is a request body that survives a failed dial, which closes it,
// and remembers that it ended, or that it was the client who failed.
type keptBody struct {
	io.Reader
	x *exchange
}

func (b *keptBody) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	switch {
	case err == nil:
	case errors.Is(err, io.EOF):
		b.x.bodyEnded.Store(true)
	default:
		b.x.clientErr.CompareAndSwap(nil, &err)
	}
	return n, err
}

// Close does nothing: the server owns the client's body.
func (b *keptBody) Close() error { return nil }
