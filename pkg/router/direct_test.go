package router

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/agentcube/agentcube/pkg/api"
)

// directTo returns a direct of its own, and how many connections it has dialled.
func directTo() (*direct, *atomic.Int64) {
	dialled := &atomic.Int64{}
	dial := dialer(defaultDialTimeout)
	return &direct{
		dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
			dialled.Add(1)
			return dial(ctx, network, addr)
		},
		idle: newIdleConns(clock.RealClock{}),
	}, dialled
}

func requestTo(t *testing.T, method, endpoint string) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, "http://"+endpoint+"/x", nil)
	require.NoError(t, err)
	return req
}

// said sends what is answered by each request, and closes the connection after
// the last.
func said(t *testing.T, answers ...string) (endpoint string, received *atomic.Int64) {
	t.Helper()
	return rawSandbox(t, func(n int, w io.Writer) bool {
		if n > len(answers) {
			return false
		}
		_, err := io.WriteString(w, answers[n-1])
		return err == nil && n < len(answers)
	})
}

const emptyAnswer = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"

// wireAnswers are as sandboxes give them, rightly and wrongly. The connection is closed
// after each.
var wireAnswers = map[string]string{
	"of known length":          "HTTP/1.1 200 OK\r\nContent-Length: 4\r\nX-A: b\r\nX-A: c\r\n\r\nbody",
	"in chunks":                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nbo\r\n2\r\ndy\r\n0\r\n\r\n",
	"with a trailer":           "HTTP/1.1 200 OK\r\nTrailer: X-T\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nbo\r\n0\r\nX-T: v\r\n\r\n",
	"until the end":            "HTTP/1.1 200 OK\r\n\r\nbody",
	"of the older protocol":    "HTTP/1.0 200 OK\r\n\r\nbody",
	"without a body":           "HTTP/1.1 204 No Content\r\n\r\n",
	"not modified":             "HTTP/1.1 304 Not Modified\r\nContent-Length: 4\r\n\r\n",
	"after a hint":             "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx",
	"after three of them":      strings.Repeat("HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n", 3) + emptyAnswer,
	"more than was said":       "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nbody",
	"less than was said":       "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nbody",
	"an unfinished chunk":      "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nbody",
	"a chunk of no length":     "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nz\r\nbody\r\n",
	"two lengths":              "HTTP/1.1 200 OK\r\nContent-Length: 4\r\nContent-Length: 5\r\n\r\nbody",
	"a length below nothing":   "HTTP/1.1 200 OK\r\nContent-Length: -4\r\n\r\nbody",
	"a length and chunks":      "HTTP/1.1 200 OK\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nbo\r\n0\r\n\r\n",
	"an unknown coding":        "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\nbody",
	"a header that is none":    "HTTP/1.1 200 OK\r\nno header\r\n\r\n",
	"a folded header":          "HTTP/1.1 200 OK\r\nX-A: b\r\n c\r\nContent-Length: 0\r\n\r\n",
	"no status":                "HTTP/1.1\r\n\r\n",
	"a status of four digits":  "HTTP/1.1 2000 OK\r\n\r\n",
	"a status with no text":    "HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n",
	"another protocol":         "SSH-2.0-OpenSSH\r\n\r\n",
	"half a head":              "HTTP/1.1 200 OK\r\nContent-Le",
	"nothing":                  "",
	"a head without an end":    "HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", maxResponseHeader) + "\r\n\r\n",
	"hints without an end":     strings.Repeat("HTTP/1.1 103 Early Hints\r\nLink: "+strings.Repeat("x", 1000)+"\r\n\r\n", 1100) + emptyAnswer,
	"one byte at a wrong time": "\r\n" + emptyAnswer,
}

// seen is what a caller sees of an answer.
type seen struct {
	status      int
	header      http.Header
	length      int64
	body        string
	trailer     http.Header
	broken, bad bool
}

func see(wire http.RoundTripper, req *http.Request) seen {
	res, err := wire.RoundTrip(req)
	if err != nil {
		return seen{bad: true}
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	return seen{
		status: res.StatusCode, header: res.Header, length: res.ContentLength,
		body: string(body), trailer: res.Trailer, broken: err != nil,
	}
}

func TestDirectReadsAnswersAsNetHTTPDoes(t *testing.T) {
	t.Parallel()
	for what, answer := range wireAnswers {
		for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodOptions} {
			t.Run(method+" "+what, func(t *testing.T) {
				t.Parallel()
				endpoint, received := said(t, answer)
				netHTTP, _ := Wire(Options{})
				want := see(netHTTP, requestTo(t, method, endpoint))
				require.EqualValues(t, 1, received.Swap(0))
				d, _ := directTo()
				assert.Equal(t, want, see(d, requestTo(t, method, endpoint)))
				assert.EqualValues(t, 1, received.Load())
			})
		}
	}
}

func TestDirectWritesRequestsAsNetHTTPDoes(t *testing.T) {
	t.Parallel()
	for what, change := range map[string]func(*http.Request){
		"plain":                func(*http.Request) {},
		"HEAD":                 func(r *http.Request) { r.Method = http.MethodHead },
		"OPTIONS":              func(r *http.Request) { r.Method = http.MethodOptions },
		"a query":              func(r *http.Request) { r.URL.RawQuery = "a=%20b;c&d" },
		"an empty query":       func(r *http.Request) { r.URL.ForceQuery = true },
		"an escaped path":      func(r *http.Request) { r.URL.Path, r.URL.RawPath = "/a/b", "/a%2Fb" },
		"an opaque path":       func(r *http.Request) { r.URL.Opaque, r.URL.RawQuery = "/a|b", "q" },
		"another host":         func(r *http.Request) { r.Host = "10.0.0.7:80" },
		"no client's name":     func(r *http.Request) { r.Header["User-Agent"] = []string{""} },
		"several headers":      func(r *http.Request) { r.Header["B"], r.Header["A"] = []string{"1"}, []string{"2"} },
		"one twice":            func(r *http.Request) { r.Header["A"] = []string{"2", "1", ""} },
		"headers of a body":    func(r *http.Request) { r.Header.Set("Content-Length", "5"); r.Header.Set("Trailer", "X") },
		"an odd name":          func(r *http.Request) { r.Header["x_y"] = []string{"z"} },
		"bytes beyond ASCII":   func(r *http.Request) { r.Header.Set("X", "\xff\u00fc") },
		"a header of no value": func(r *http.Request) { r.Header["X"] = nil },
		"POST of nothing":      func(r *http.Request) { r.Method = http.MethodPost },
		"PUT of nothing":       func(r *http.Request) { r.Method = http.MethodPut },
		"DELETE":               func(r *http.Request) { r.Method = http.MethodDelete },
		"an unknown method":    func(r *http.Request) { r.Method = "PURGE" },
		"POST":                 withBody(http.MethodPost),
		"GET with a body":      withBody(http.MethodGet),
		"DELETE with a body":   withBody(http.MethodDelete),
	} {
		req := requestTo(t, http.MethodGet, "10.0.0.8:8080")
		req.Header.Set("User-Agent", "tester")
		change(req)
		var want, got bytes.Buffer
		text, err := io.ReadAll(bodyOf(req))
		require.NoError(t, err)
		for _, write := range []func() error{
			func() error { return req.Write(&want) }, func() error { return writeRequest(&got, req) },
		} {
			if req.Body != nil {
				req.Body = io.NopCloser(bytes.NewReader(text))
			}
			require.NoError(t, write())
		}
		wantFirst, wantOthers := lines(want.String())
		gotFirst, gotOthers := lines(got.String())
		assert.Equal(t, wantFirst, gotFirst, what)
		assert.Equal(t, wantOthers, gotOthers, what)
	}
}

func withBody(method string) func(*http.Request) {
	return func(r *http.Request) {
		r.Method, r.Body, r.ContentLength = method, io.NopCloser(strings.NewReader("body")), 4
	}
}

func bodyOf(r *http.Request) io.Reader {
	if r.Body == nil {
		return http.NoBody
	}
	return r.Body
}

func writeRequest(w io.Writer, req *http.Request) error {
	head := newRequestHead()
	defer head.free()
	if err := head.fill(req); err != nil {
		return err
	}
	if err := head.addBody(req); err != nil {
		return err
	}
	_, err := w.Write(head.bytes)
	return err
}

// lines of a head: the first two as they stand, the others in any order.
func lines(head string) (first []string, others map[string]int) {
	all := strings.Split(head, "\r\n")
	others = map[string]int{}
	for _, line := range all[2:] {
		others[line]++
	}
	return all[:2], others
}

func TestALineBreakInAHeaderIsNotSent(t *testing.T) {
	t.Parallel()
	for _, header := range []http.Header{
		{"X": {"a\r\nY: b"}}, {"X": {"a\nb"}}, {"X": {"a\rb"}}, {"X": {"a\x00b"}}, {"X\r\nY": {"a"}},
	} {
		req := requestTo(t, http.MethodGet, "10.0.0.8:8080")
		req.Header = header
		var sent bytes.Buffer
		require.ErrorIs(t, writeRequest(&sent, req), errHeaderLine)
		assert.Zero(t, sent.Len())
	}
}

// HTTP/2 takes any text for a method.
func TestARequestLineThatWouldBeReadAsAnotherIsNotSent(t *testing.T) {
	t.Parallel()
	for _, method := range []string{"GET /other HTTP/1.1", "GET\t/other", "G\u00cbT", "GET\r\nX: y", ""} {
		req := requestTo(t, http.MethodGet, "10.0.0.8:8080")
		req.Method = method
		var sent bytes.Buffer
		require.ErrorIs(t, writeRequest(&sent, req), errRequestLine, method)
		assert.Zero(t, sent.Len())
	}
	for _, target := range []string{"/a b", "/a\r\nX: y", "/a\x00", "/a\x7f", "/a\tb"} {
		req := requestTo(t, http.MethodGet, "10.0.0.8:8080")
		req.URL.Opaque = target
		var sent bytes.Buffer
		require.ErrorIs(t, writeRequest(&sent, req), errRequestLine, target)
		assert.Zero(t, sent.Len())
	}
}

func TestDirectServesWhatIsShort(t *testing.T) {
	t.Parallel()
	body := func(n int64) func(*http.Request) {
		return func(r *http.Request) { r.Body, r.ContentLength = io.NopCloser(strings.NewReader("x")), n }
	}
	for what, c := range map[string]struct {
		change func(*http.Request)
		want   bool
	}{
		"no body":           {func(*http.Request) {}, true},
		"a short body":      {body(1), true},
		"16 KiB":            {body(16 << 10), true},
		"more than that":    {body(16<<10 + 1), false},
		"an unknown length": {body(-1), false},
		"perhaps no body":   {body(0), false},
		"a trailer":         {func(r *http.Request) { r.Trailer = http.Header{"X": nil} }, false},
		"by TLS":            {func(r *http.Request) { r.URL.Scheme = "https" }, false},
		"CONNECT":           {func(r *http.Request) { r.Method = http.MethodConnect }, false},
		"an upgrade":        {func(r *http.Request) { r.Header.Set("Upgrade", "websocket") }, false},
		"one that expects":  {func(r *http.Request) { r.Header.Set("Expect", "100-continue") }, false},
	} {
		d, _ := directTo()
		req := requestTo(t, http.MethodPost, "10.0.0.8:8080")
		c.change(req)
		assert.Equal(t, c.want, d.serves(req), what)
	}
}

func TestOnlyWhatChangesNothingIsRepeated(t *testing.T) {
	t.Parallel()
	for method, want := range map[string]bool{
		http.MethodGet: true, http.MethodHead: true, http.MethodOptions: true, http.MethodTrace: true,
		http.MethodPost: false, http.MethodPut: false, http.MethodPatch: false, http.MethodDelete: false, "PURGE": false,
	} {
		req := requestTo(t, method, "10.0.0.8:8080")
		assert.Equal(t, want, repeatable(req), method)
		req.Body = http.NoBody
		assert.False(t, repeatable(req), method)
	}
}

// A connection that the sandbox has closed would lose a POST, which cannot be
// sent again. What it says on one that nobody asked is no answer to whoever asks
// next.
func TestNoRequestMeetsAConnectionThatIsClosedOrHasMoreToSay(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		more string
		keep bool
	}{
		"closed":                     {"", false},
		"with more to say":           {"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n", true},
		"with a body too much":       {"the body of an answer that has none", true},
		"closed, after more":         {"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n", false},
		"with an answer to whatever": {"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nlies", true},
	} {
		for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodDelete} {
			t.Run(method+" on one that is "+what, func(t *testing.T) {
				t.Parallel()
				d, endpoint, leave, dialled := pooledTo(t, c.more, c.keep)
				leave()
				req := requestTo(t, method, endpoint)
				if method == http.MethodPost {
					withBody(method)(req)
				}

				res, err := d.RoundTrip(req)

				require.NoError(t, err)
				_ = res.Body.Close()
				assert.Equal(t, "second", res.Header.Get("X-Connection"))
				assert.EqualValues(t, 2, dialled.Load())
			})
		}
	}
}

// A client may take its time with the body, and the connection has been chosen
// by then.
func TestAConnectionThatIsClosedWhileTheBodyIsWaitedForIsNotUsed(t *testing.T) {
	t.Parallel()
	d, endpoint, leave, dialled := pooledTo(t, "", false)
	req := requestTo(t, http.MethodPost, endpoint)
	req.Body, req.ContentLength = io.NopCloser(io.MultiReader(readerFunc(func([]byte) (int, error) {
		leave()
		return 0, io.EOF
	}), strings.NewReader("body"))), 4

	res, err := d.RoundTrip(req)

	require.NoError(t, err)
	_ = res.Body.Close()
	assert.Equal(t, "second", res.Header.Get("X-Connection"))
	assert.EqualValues(t, 2, dialled.Load())
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// pooledTo has a pooled connection to a sandbox, which on it, once leave is
// called, says more and closes it unless it is to be kept. leave returns when
// that has arrived. Other connections are answered as the second.
func pooledTo(t *testing.T, more string, keep bool) (d *direct, endpoint string, leave func(), dialled *atomic.Int64) {
	t.Helper()
	leaving := make(chan struct{})
	endpoint, _ = rawSandbox(t, func(n int, w io.Writer) bool {
		if n > 1 {
			_, err := io.WriteString(w, "HTTP/1.1 200 OK\r\nX-Connection: second\r\nContent-Length: 0\r\n\r\n")
			return err == nil
		}
		if _, err := io.WriteString(w, emptyAnswer); err != nil {
			return false
		}
		<-leaving
		_, err := io.WriteString(w, more)
		return err == nil && keep
	})
	d, dialled = directTo()
	res, err := d.RoundTrip(requestTo(t, http.MethodGet, endpoint))
	require.NoError(t, err)
	_ = res.Body.Close()
	pooled := d.idle.take(endpoint)
	require.NotNil(t, pooled)
	d.idle.put(pooled)
	return d, endpoint, func() {
		close(leaving)
		require.Eventually(t, func() bool { return !pooled.alive() }, deadline, time.Millisecond)
	}, dialled
}

func TestABodyThatWasReadCanBeSentElsewhere(t *testing.T) {
	t.Parallel()
	d, _ := directTo()
	endpoint, _ := said(t, emptyAnswer, emptyAnswer)
	res, err := d.RoundTrip(requestTo(t, http.MethodGet, endpoint))
	require.NoError(t, err)
	_ = res.Body.Close()
	pooled := d.idle.take(endpoint)
	left := &closesOnWrite{Conn: pooled.Conn}
	pooled.Conn = left
	d.idle.put(pooled)
	refused := &net.OpError{Op: "dial", Err: errLeft}
	d.dial = func(context.Context, string, string) (net.Conn, error) { return nil, refused }
	req := requestTo(t, http.MethodPost, endpoint)
	withBody(http.MethodPost)(req)

	_, err = d.RoundTrip(req) //nolint:bodyclose // there is no answer

	require.ErrorIs(t, err, errLeft)
	assert.True(t, left.written)
	text, err := io.ReadAll(req.Body)
	require.NoError(t, err)
	assert.Equal(t, "body", string(text))
}

// closesOnWrite is a connection that is closed just before it is written to.
type closesOnWrite struct {
	net.Conn
	written bool
}

func (c *closesOnWrite) Write([]byte) (int, error) {
	c.written = true
	return 0, net.ErrClosed
}

func (c *closesOnWrite) SyscallConn() (syscall.RawConn, error) {
	return c.Conn.(syscall.Conn).SyscallConn() //nolint:forcetypeassert // it is a TCP connection
}

func TestAConnectionIsUsedAgainOnlyIfItsAnswerWasWhole(t *testing.T) {
	t.Parallel()
	whole := "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nbody"
	readAll := func(b io.ReadCloser) {
		_, _ = io.Copy(io.Discard, b)
		_ = b.Close()
	}
	for what, c := range map[string]struct {
		answer string
		use    func(io.ReadCloser)
		again  bool
	}{
		"whole":           {whole, readAll, true},
		"in chunks":       {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nbo\r\n0\r\n\r\n", readAll, true},
		"nothing":         {emptyAnswer, readAll, true},
		"no body":         {"HTTP/1.1 204 No Content\r\n\r\n", readAll, true},
		"not read":        {whole, func(b io.ReadCloser) { _ = b.Close() }, false},
		"half read":       {whole, func(b io.ReadCloser) { _, _ = b.Read(make([]byte, 2)); _ = b.Close() }, false},
		"the last one":    {"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 4\r\n\r\nbody", readAll, false},
		"the older way":   {"HTTP/1.0 200 OK\r\nContent-Length: 4\r\n\r\nbody", readAll, false},
		"more than asked": {whole + "HTTP/1.1 200 OK\r\n\r\n", readAll, false},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			endpoint, _ := said(t, c.answer, emptyAnswer, emptyAnswer)
			d, dialled := directTo()
			res, err := d.RoundTrip(requestTo(t, http.MethodGet, endpoint)) //nolint:bodyclose // use does
			require.NoError(t, err)
			c.use(res.Body)
			_, err = res.Body.Read(make([]byte, 1))
			require.ErrorIs(t, err, io.EOF)
			res, err = d.RoundTrip(requestTo(t, http.MethodGet, endpoint))
			require.NoError(t, err)
			_ = res.Body.Close()
			assert.Equal(t, c.again, dialled.Load() == 1)
		})
	}
}

func TestARequestIsRepeatedWhenAPooledConnectionIsDead(t *testing.T) {
	t.Parallel()
	endpoint, received := said(t, emptyAnswer) // and then the connection is closed
	d, dialled := directTo()
	get := func() error {
		res, err := d.RoundTrip(requestTo(t, http.MethodGet, endpoint))
		if err == nil {
			_ = res.Body.Close()
		}
		return err
	}
	require.NoError(t, get())
	require.ErrorIs(t, get(), errNoAnswer, "a new one that is dead is the sandbox's answer")
	assert.EqualValues(t, 2, dialled.Load())
	assert.GreaterOrEqual(t, received.Load(), int64(2))
	assert.LessOrEqual(t, received.Load(), int64(3), "once on each connection")
}

func TestARequestThatIsCutOffSaysWhy(t *testing.T) {
	t.Parallel()
	why := errors.New("the reason")
	for what, answer := range map[string]string{
		"before an answer":  "",
		"in its head":       "HTTP/1.1 200 OK\r\n",
		"in its body":       "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nbody",
		"between its parts": "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n",
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			answered, gone := make(chan struct{}), make(chan struct{})
			endpoint, _ := rawSandbox(t, func(_ int, w io.Writer) bool {
				_, _ = io.WriteString(w, answer)
				close(answered)
				conn, _ := w.(net.Conn)
				_, err := bufio.NewReader(conn).ReadByte()
				if err == nil {
					t.Error("the connection is open")
				}
				close(gone)
				return false
			})
			ctx, cut := context.WithCancelCause(t.Context())
			go func() {
				<-answered
				cut(why)
			}()
			d, _ := directTo()
			res, err := d.RoundTrip(requestTo(t, http.MethodGet, endpoint).WithContext(ctx))
			if err == nil {
				_, err = io.ReadAll(res.Body)
				_ = res.Body.Close()
			}
			require.ErrorIs(t, err, why)
			<-gone
			assert.Nil(t, d.idle.take(endpoint))
		})
	}
}

func TestHintsReachTheCallerAsTheyCome(t *testing.T) {
	t.Parallel()
	endpoint, _ := said(t, wireAnswers["hints without an end"])
	var hints int
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
		Got1xxResponse: func(code int, header textproto.MIMEHeader) error {
			hints++
			assert.Equal(t, http.StatusEarlyHints, code)
			assert.NotEmpty(t, header.Get("Link"))
			return nil
		},
	})
	d, _ := directTo()
	res, err := d.RoundTrip(requestTo(t, http.MethodGet, endpoint).WithContext(ctx))
	require.NoError(t, err)
	_ = res.Body.Close()
	assert.Equal(t, 1100, hints)
}

func TestTheDeadlineOfTheHeadIsNotThatOfTheBody(t *testing.T) {
	t.Parallel()
	late := make(chan struct{})
	endpoint, _ := rawSandbox(t, func(_ int, w io.Writer) bool {
		_, _ = io.WriteString(w, "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n")
		<-late
		_, err := io.WriteString(w, "body")
		return err == nil
	})
	d, _ := directTo()
	d.responseTimeout = 200 * time.Millisecond
	res, err := d.RoundTrip(requestTo(t, http.MethodGet, endpoint))
	require.NoError(t, err)
	defer func() { _ = res.Body.Close() }()
	nobody, _ := rawSandbox(t, func(int, io.Writer) bool { return true })
	_, err = d.RoundTrip(requestTo(t, http.MethodGet, nobody)) //nolint:bodyclose // there is no answer
	require.True(t, timedOut(err), "the deadline has passed")
	close(late)
	body, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	assert.Equal(t, "body", string(body))
}

func TestAConnectionThatItsSessionHasLeftIsNotKept(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	proceed := make(chan struct{})
	s := newSandbox(t, func(w http.ResponseWriter, _ *http.Request) {
		_ = http.NewResponseController(w).Flush()
		<-proceed
	})
	id := r.ready(s.endpoint())
	res, err := r.client().Do(r.request(http.MethodGet, echoPath+"/x", id, nil))
	require.NoError(t, err)
	defer func() { _ = res.Body.Close() }()
	r.router.conns.leave(id, nil)
	close(proceed)
	_, err = io.ReadAll(res.Body)
	require.NoError(t, err)
	assert.Nil(t, r.router.idle.take(s.endpoint()))
}

func TestASwitchThatNobodyAskedForIsRefusedOnEitherWire(t *testing.T) {
	t.Parallel()
	for _, method := range []string{http.MethodGet, http.MethodPost} {
		r := newRig(t)
		endpoint, _ := said(t, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: other\r\n\r\n")
		res, body := r.do(r.request(method, echoPath+"/x", r.ready(endpoint), nil))
		fails(t, res, body, http.StatusBadGateway, api.CodeSandboxUnreachable)
	}
}

// noted notes that it was closed.
type noted struct {
	net.Conn // nil
	closed   atomic.Bool
}

func (n *noted) Close() error {
	n.closed.Store(true)
	return nil
}

// pipeTo is a connection that goes nowhere.
func pipeTo(addr string) (conn *directConn, closed func() bool) {
	n := &noted{}
	return newDirectConn(n, addr), n.closed.Load
}

func TestIdleConnectionsAreBounded(t *testing.T) {
	t.Parallel()
	idle := newIdleConns(clocktesting.NewFakePassiveClock(time.Unix(0, 0)))
	first, firstClosed := pipeTo("a")
	idle.put(first)
	second, secondClosed := pipeTo("a")
	idle.put(second)
	for range maxIdleConnsPerSandbox - 1 {
		conn, _ := pipeTo("a")
		idle.put(conn)
	}
	assert.True(t, firstClosed(), "one more than a sandbox may have")
	assert.False(t, secondClosed())
	for range maxIdleConns - maxIdleConnsPerSandbox + 1 {
		conn, _ := pipeTo("b")
		if len(idle.byAddr["b"]) == maxIdleConnsPerSandbox {
			conn, _ = pipeTo("c")
		}
		idle.put(conn)
	}
	assert.True(t, secondClosed(), "one more than there may be")
	assert.Equal(t, maxIdleConns, idle.n)
}

// Who closes them may be late, being busy with a store that does not answer.
func TestAConnectionThatWaitedForTooLongIsNotTaken(t *testing.T) {
	t.Parallel()
	clk := clocktesting.NewFakePassiveClock(time.Unix(0, 0))
	idle := newIdleConns(clk)
	for range 2 {
		conn, _ := pipeTo("a")
		idle.put(conn)
	}
	clk.SetTime(clk.Now().Add(idleConnTimeout - 1))
	require.NotNil(t, idle.take("a"))
	clk.SetTime(clk.Now().Add(1))
	assert.Nil(t, idle.take("a"))
	idle.expire()
	assert.Zero(t, idle.n)
}

func TestTheConnectionUsedLastIsTakenFirst(t *testing.T) {
	t.Parallel()
	clk := clocktesting.NewFakePassiveClock(time.Unix(0, 0))
	idle := newIdleConns(clk)
	old, oldClosed := pipeTo("a")
	idle.put(old)
	clk.SetTime(clk.Now().Add(idleConnTimeout / 2))
	young, youngClosed := pipeTo("a")
	idle.put(young)
	other, _ := pipeTo("b")
	idle.put(other)
	require.Same(t, young, idle.take("a"))
	idle.put(young)

	clk.SetTime(clk.Now().Add(idleConnTimeout / 2))
	idle.expire()
	assert.True(t, oldClosed())
	assert.False(t, youngClosed())
	assert.Same(t, young, idle.take("a"))
	assert.Nil(t, idle.take("a"))
	assert.Same(t, other, idle.take("b"))
	assert.Zero(t, idle.n)
	assert.Empty(t, idle.byAddr)
	assert.Nil(t, idle.oldest)
	assert.Nil(t, idle.newest)
}
