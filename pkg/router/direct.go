package router

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"syscall"
	"time"
)

// errNoAnswer: the connection ended before the first byte of an answer. If it
// was pooled, the sandbox had most likely closed it before it was used.
var errNoAnswer = errors.New("the sandbox closed the connection without an answer")

// errNothingSent: the connection ended before a byte of the request was sent.
var errNothingSent = errors.New("the connection is closed")

// maxDirectBody is how long the body of a request may be: 16 KiB. To write that
// much never waits for the sandbox, which may be answering instead of reading.
const maxDirectBody = 16 << 10

// direct speaks HTTP/1.1 in the clear, for requests with a short body or none.
// http.Transport has two goroutines for each connection, since an answer may
// begin before the body of its request has ended; to hand each request over to
// them and back takes more time than all else the router does. A short body is
// read first, and then one goroutine, the request's own, can write and then
// read.
//
// What it says on the wire, what it repeats and when it gives up are those of
// http.Transport, which serves all other requests.
type direct struct {
	dial dialFunc
	// responseTimeout bounds the wait for the head of the answer. 0: no bound.
	responseTimeout time.Duration
	idle            *idleConns
}

// serves reports a request for direct.
func (d *direct) serves(r *http.Request) bool {
	if r.URL.Scheme != "http" || len(r.Header["Upgrade"]) > 0 || len(r.Header["Expect"]) > 0 {
		return false
	}
	switch {
	case r.Method == http.MethodConnect:
		return false
	case r.Body == nil:
		return r.ContentLength == 0 && len(r.Trailer) == 0
	case r.ContentLength <= 0: // of unknown length
		return false
	default:
		return r.ContentLength <= maxDirectBody && len(r.Trailer) == 0
	}
}

// repeatable reports a request that may be sent again when a pooled connection
// turns out to be dead: it has no body, and its method says that it changes
// nothing.
func repeatable(r *http.Request) bool {
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
		return r.Body == nil
	default:
		return false
	}
}

// RoundTrip implements http.RoundTripper.
func (d *direct) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx := req.Context()
	head := newRequestHead()
	defer head.free()
	if err := head.fill(req); err != nil {
		return nil, err
	}
	for {
		conn, reused, err := d.conn(ctx, req)
		if err == nil {
			var res *http.Response
			if res, err = d.exchange(ctx, conn, req, head, reused); err == nil {
				return res, nil
			}
			_ = conn.Close()
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		again := errors.Is(err, errNothingSent) || (errors.Is(err, errNoAnswer) && repeatable(req))
		if !reused || !again {
			req.Body = head.body(req.Body) // the request is ours, and may be sent elsewhere
			return nil, err
		}
	}
}

// conn returns a pooled connection, or a new one.
func (d *direct) conn(ctx context.Context, req *http.Request) (conn *directConn, reused bool, err error) {
	addr := req.URL.Host
	if conn := d.idle.take(addr); conn != nil {
		return conn, true, nil
	}
	c, err := d.dial(ctx, "tcp", addr)
	if err != nil {
		return nil, false, err
	}
	return newDirectConn(c, addr), false, nil
}

// exchange sends the request and reads the head of its answer. When ctx ends,
// the connection is closed.
func (d *direct) exchange(
	ctx context.Context, conn *directConn, req *http.Request, head *requestHead, reused bool,
) (*http.Response, error) {
	trace := httptrace.ContextClientTrace(ctx)
	if trace != nil && trace.GotConn != nil {
		trace.GotConn(httptrace.GotConnInfo{Conn: conn.Conn, Reused: reused})
	}
	stop := context.AfterFunc(ctx, conn.cut)
	res, err := d.ask(conn, req, head, reused, trace)
	if err != nil {
		stop()
		return nil, err
	}
	body := &directBody{ReadCloser: res.Body, ctx: ctx, conn: conn, idle: d.idle, stop: stop, last: res.Close}
	if res.Body == http.NoBody {
		body.end(true)
	} else {
		res.Body = body
	}
	return res, nil
}

// ask writes the request and reads the head of its answer. A pooled connection
// is looked at just before it is written to, since the body may have been waited
// for, whatever the request: one that is closed would lose it, and what the
// sandbox has said meanwhile would be taken for its answer.
func (d *direct) ask(
	conn *directConn, req *http.Request, head *requestHead, reused bool, trace *httptrace.ClientTrace,
) (*http.Response, error) {
	if err := head.addBody(req); err != nil {
		return nil, err
	}
	if reused && !conn.alive() {
		return nil, errNothingSent
	}
	if n, err := conn.Write(head.bytes); err != nil {
		if n == 0 {
			return nil, fmt.Errorf("%w: %w", errNothingSent, err)
		}
		return nil, fmt.Errorf("%w: %w", errNoAnswer, err)
	}
	if d.responseTimeout > 0 {
		if err := conn.SetReadDeadline(time.Now().Add(d.responseTimeout)); err != nil { //nolint:forbidigo // the runtime compares it with its own clock
			return nil, fmt.Errorf("%w: %w", errNoAnswer, err)
		}
	}
	conn.head = maxResponseHeader
	if _, err := conn.reader.Peek(1); err != nil {
		if timedOut(err) {
			return nil, err
		}
		return nil, fmt.Errorf("%w: %w", errNoAnswer, err)
	}
	res, err := readHead(conn, req, trace)
	if err != nil {
		return nil, err
	}
	conn.head = math.MaxInt64
	if d.responseTimeout > 0 {
		if err := conn.SetReadDeadline(time.Time{}); err != nil {
			return nil, err
		}
	}
	return res, nil
}

// readHead returns the first answer that is final; those before it go to the
// trace.
func readHead(conn *directConn, req *http.Request, trace *httptrace.ClientTrace) (*http.Response, error) {
	for {
		res, err := http.ReadResponse(conn.reader, req)
		switch {
		case err != nil && conn.head <= 0:
			return nil, fmt.Errorf("the head of the answer is longer than %d bytes", maxResponseHeader)
		case err != nil:
			return nil, err
		case res.StatusCode == http.StatusSwitchingProtocols:
			return nil, errors.New("the sandbox switched protocols, which nobody had asked for")
		case res.StatusCode >= http.StatusOK:
			return res, nil
		}
		if trace != nil && trace.Got1xxResponse != nil {
			if err := trace.Got1xxResponse(res.StatusCode, textproto.MIMEHeader(res.Header)); err != nil {
				return nil, err
			}
			conn.head = maxResponseHeader // they went on to the client, who bounds them
		}
	}
}

// directConn is a connection to a sandbox. One goroutine uses it at a time.
type directConn struct {
	net.Conn
	addr   string
	reader *bufio.Reader
	// head is how much more may be read of a head; without bound in a body.
	head int64
	// cut closes the connection; made once, since it is needed each time.
	cut func()

	// What follows belongs to the pool.
	since      time.Time
	prev, next *directConn
}

func newDirectConn(c net.Conn, addr string) *directConn {
	conn := &directConn{Conn: c, addr: addr}
	conn.reader = bufio.NewReader(conn)
	conn.cut = func() { _ = c.Close() }
	return conn
}

// leaving reports that its session is elsewhere by now: the connection is about
// to be closed, and its address may be another's.
func (c *directConn) leaving() bool {
	s, ok := c.Conn.(*sandboxConn)
	return ok && s.left.Load()
}

// alive looks whether the sandbox has closed the connection, or says something
// that nobody has asked for. It may still do so before it has the next request.
func (c *directConn) alive() bool {
	socket, ok := c.Conn.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return false
	}
	alive := false
	err = raw.Read(func(fd uintptr) bool {
		var one [1]byte
		_, _, err := syscall.Recvfrom(int(fd), one[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		alive = errors.Is(err, syscall.EAGAIN)
		return true // it does not wait
	})
	return err == nil && alive
}

// Read implements io.Reader, for the buffered reader.
func (c *directConn) Read(p []byte) (int, error) {
	if c.head <= 0 {
		return 0, io.EOF
	}
	if int64(len(p)) > c.head {
		p = p[:c.head]
	}
	n, err := c.Conn.Read(p)
	c.head -= int64(n)
	return n, err
}

// directBody is the body of an answer. At its end the connection goes back to
// the pool; when it is closed before, or fails, the connection is closed.
type directBody struct {
	io.ReadCloser
	ctx  context.Context //nolint:containedctx // the request's, whose end ends the body
	conn *directConn     // nil after the end
	idle *idleConns
	stop func() bool
	// last: the connection bears no further request.
	last bool
}

// Read implements io.Reader.
func (b *directBody) Read(p []byte) (int, error) {
	if b.conn == nil {
		return 0, io.EOF
	}
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		whole := errors.Is(err, io.EOF)
		if b.end(whole); !whole && b.ctx.Err() != nil {
			err = context.Cause(b.ctx)
		}
	}
	return n, err
}

// Close implements io.Closer. It does not read the rest, as the body below
// would: it may be without end.
func (b *directBody) Close() error {
	b.end(false)
	return nil
}

// end lets go of the connection, once. whole: the answer was read to its end.
func (b *directBody) end(whole bool) {
	conn := b.conn
	if conn == nil {
		return
	}
	b.conn = nil
	if !b.stop() || !whole || b.last || conn.reader.Buffered() > 0 || conn.leaving() {
		_ = conn.Close()
		return
	}
	b.idle.put(conn)
}
