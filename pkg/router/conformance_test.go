package router

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentcube/agentcube/pkg/api"
	"github.com/agentcube/agentcube/pkg/session"
)

// arrived is what the echo received, in the words of its answer.
type arrived struct {
	Method        string      `json:"method"`
	URI           string      `json:"uri"`
	Host          string      `json:"host"`
	Header        http.Header `json:"header"`
	Body          []byte      `json:"body"`
	ContentLength int64       `json:"contentLength"`
	Encoding      []string    `json:"encoding"`
	Trailer       http.Header `json:"trailer"`
}

// answerPlan is what the echo is asked to answer, in the request's own header.
type answerPlan struct {
	Status  int         `json:"status"`
	Header  http.Header `json:"header"`
	Chunked bool        `json:"chunked"`
	Trailer http.Header `json:"trailer"`
}

const planHeader = "X-Plan"

// echo answers as the request plans, with what it received as its body.
func echo(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	var plan answerPlan
	if json.Unmarshal([]byte(r.Header.Get(planHeader)), &plan) != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	maps.Copy(w.Header(), plan.Header)
	for name := range plan.Trailer {
		w.Header().Add("Trailer", name)
	}
	answer, err := json.Marshal(arrived{
		r.Method, r.RequestURI, r.Host, r.Header, body, r.ContentLength, r.TransferEncoding, r.Trailer,
	})
	if err != nil {
		panic(err) // net/http breaks the connection off, and the test fails
	}
	if plan.Status == http.StatusNoContent || plan.Status == http.StatusNotModified {
		// The answer has no body to say it in.
		w.Header().Set("X-Arrived", string(answer))
	} else if !plan.Chunked && len(plan.Trailer) == 0 {
		w.Header().Set("Content-Length", fmt.Sprint(len(answer)))
	}
	if r.Method == http.MethodHead {
		w.Header().Set("X-Arrived", string(answer))
	}
	w.WriteHeader(plan.Status)
	_, _ = w.Write(answer)
	if plan.Chunked {
		_ = http.NewResponseController(w).Flush()
	}
	maps.Copy(w.Header(), plan.Trailer)
}

// generated is one request and what is to be answered.
type generated struct {
	method, target string
	header         http.Header
	body           []byte
	chunked        bool
	trailer        http.Header
}

// generator makes requests up. What it takes its pieces from is where proxies
// have gone wrong.
type generator struct{ *rand.Rand }

func pick[T any](g generator, from ...T) T { return from[g.IntN(len(from))] }

func (g generator) request(t *testing.T) generated {
	t.Helper()
	r := generated{
		method: pick(g, "GET", "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "PROPFIND", "PURGE"),
		target: g.target(), header: http.Header{}, trailer: http.Header{},
	}
	for range g.IntN(6) {
		name, values := g.field()
		r.header[name] = values
	}
	r.header.Set("User-Agent", pick(g, "agent/1", "", "a b (c; d)"))
	if g.IntN(2) == 0 && r.method != http.MethodHead {
		r.body = bytes.Repeat([]byte{byte(g.IntN(256))}, pick(g, 1, 10, 4095, 4096, 40_000))
		r.chunked = g.IntN(2) == 0
		if r.chunked && g.IntN(2) == 0 {
			r.trailer.Set("X-Sum", fmt.Sprint(g.Int()))
		}
	}
	plan, err := json.Marshal(g.plan())
	require.NoError(t, err)
	r.header.Set(planHeader, string(plan))
	return r
}

func (g generator) target() string {
	var b strings.Builder
	for range 1 + g.IntN(4) {
		b.WriteString("/" + pick(g, "", "a", "%2F", "%2f", "%61", "a;b=c", "..", ".", "a+b", "~", "é", "%C3%A9", "a:b", "@", "%00", "a=b&c", "|", "%25"))
	}
	if g.IntN(2) == 0 {
		b.WriteString("?" + pick(g, "", "a=b", "a=b&a=c", "a;b", "%zz", "a=%2F+", "&&", "=", "q=é", "?", "a=b;c=d&e"))
	}
	return b.String()
}

func (g generator) field() (string, []string) {
	name := pick(g, "Accept", "Accept-Encoding", "Accept-Language", "Authorization", "Cache-Control", "Cookie", "Content-Type",
		"Origin", "Referer", "Range", "If-None-Match", "Te", "X-Custom", "X-Empty", "X-Long", "X_underscore", "Sec-Fetch-Mode",
		"Keep-Alive", "Proxy-Connection", "Proxy-Authorization", "X-Request-Id", "Traceparent", "Via", "Priority", "Date")
	value := pick(g, "a", "", "a, b", "gzip", "trailers", "application/json", "a=b; c=d", "\"quoted, text\"", "bytes=0-3",
		strings.Repeat("x", 5000), "tab\tin it", "é")
	if name == "Cookie" { // the router's own parameter stands among them
		value = pick(g, "a=b", "a=b; c=\"d e\"", "a=b;c=d", "x-agentcube=1")
	}
	values := []string{value}
	if g.IntN(4) == 0 {
		values = append(values, pick(g, "second", value))
	}
	return name, values
}

func (g generator) plan() answerPlan {
	p := answerPlan{Header: http.Header{}, Trailer: http.Header{}}
	p.Status = pick(g, 200, 200, 200, 201, 204, 206, 299, 301, 304, 307, 400, 401, 404, 409, 418, 429, 500, 502, 503, 504, 599)
	for range g.IntN(5) {
		name := pick(g, "Content-Type", "Cache-Control", "Etag", "Location", "Set-Cookie", "Vary", "Www-Authenticate", "Retry-After",
			"Content-Encoding", "X-Custom", "X-Empty", "Server", "Date", "Link", "Access-Control-Allow-Origin", "Content-Disposition")
		values := []string{pick(g, "a", "", "a, b", "text/html; charset=utf-8", "gzip", "a=b; Path=/; HttpOnly", "é", strings.Repeat("y", 3000))}
		if g.IntN(3) == 0 {
			values = append(values, "again")
		}
		p.Header[name] = values
	}
	if g.IntN(4) == 0 {
		p.Header["Content-Type"] = nil
	}
	if p.Status != http.StatusNoContent && p.Status != http.StatusNotModified {
		p.Chunked = g.IntN(3) == 0
		if g.IntN(4) == 0 {
			p.Trailer.Set("X-Check", fmt.Sprint(g.Int()))
		}
	}
	return p
}

// send sends it to a base, as a client with its own ideas would.
func (r generated) send(t *testing.T, client *http.Client, base string, more http.Header) (reply, arrived) {
	t.Helper()
	var body io.Reader
	if r.body != nil {
		body = bytes.NewReader(r.body)
	}
	req, err := http.NewRequestWithContext(t.Context(), r.method, "http://placeholder/", body)
	require.NoError(t, err)
	scheme, rest, _ := strings.Cut(base, "://")
	host, prefix, _ := strings.Cut(rest, "/")
	if prefix != "" {
		prefix = "/" + prefix
	}
	path, query, marked := strings.Cut(r.target, "?")
	setTarget(req.URL, destination{scheme: scheme, endpoint: host}, prefix+path, query, marked)
	req.Host = host
	req.Header = r.header.Clone()
	maps.Copy(req.Header, more)
	if r.chunked {
		req.ContentLength, req.GetBody = -1, nil
		req.Body = io.NopCloser(bytes.NewReader(r.body))
	}
	if len(r.trailer) > 0 {
		req.Trailer = r.trailer.Clone()
	}
	res, err := client.Do(req)
	require.NoError(t, err)
	defer func() { _ = res.Body.Close() }()
	got := read(t, res)
	text := got.body
	if said := got.Header.Get("X-Arrived"); said != "" {
		text = said
		got.Header.Del("X-Arrived")
	}
	var a arrived
	require.NoError(t, json.Unmarshal([]byte(text), &a), "%d %s", got.StatusCode, text)
	return got, a
}

// What stands between the two, by the contract, and no more.
var (
	addedToRequest    = []string{forwardedFor, forwardedHost, forwardedProto, headerSessionID}
	hopByHop          = []string{"Connection", "Keep-Alive", "Proxy-Connection", "Proxy-Authorization", "Proxy-Authenticate", "Te", "Trailer", "Transfer-Encoding", "Upgrade"}
	addedToAnswer     = []string{headerSessionID, headerGeneration, "X-Request-Id"}
	ofTheirConnection = []string{"Content-Length", "Date"}
)

func without(h http.Header, names ...string) http.Header {
	out := http.Header{}
	for name, values := range h {
		if !slices.Contains(names, name) {
			out[name] = values
		}
	}
	return out
}

func TestFiveHundredRequestsAreTheSameDirectlyAndThroughTheRouter(t *testing.T) {
	t.Parallel()
	sandbox := httptest.NewServer(http.HandlerFunc(echo))
	t.Cleanup(sandbox.Close)
	r := newRig(t)
	id := r.ready(sandbox.Listener.Addr().String(), func(s *session.Session) { s.AuthMode = session.AuthModeNone })
	client := r.client()
	const seed = 7 // what is generated is the same each time
	g := generator{rand.New(rand.NewPCG(seed, seed))}
	for n := range 500 {
		request := g.request(t)
		direct, there := request.send(t, client, sandbox.URL, nil)
		through, here := request.send(t, client, r.server.URL+echoPath, http.Header{headerSessionID: {id}})
		name := fmt.Sprintf("%d: %s %q %v", n, request.method, request.target, request.header)

		// What arrived.
		assert.Equal(t, there.Method, here.Method, name)
		assert.Equal(t, there.URI, here.URI, name)
		assert.Equal(t, there.Host, here.Host, name)
		assert.Equal(t, there.Body, here.Body, name)
		assert.Equal(t, there.ContentLength, here.ContentLength, name)
		assert.Equal(t, there.Encoding, here.Encoding, name)
		assert.Equal(t, there.Trailer, here.Trailer, name)
		assert.Equal(t, without(there.Header, hopByHop...),
			without(here.Header, append(addedToRequest, hopByHop...)...), name)
		for _, h := range hopByHop {
			if h == "Te" && strings.Contains(strings.Join(request.header["Te"], ","), "trailers") {
				assert.Equal(t, []string{"trailers"}, here.Header["Te"], name)
				continue
			}
			assert.NotContains(t, here.Header, h, name)
		}

		// What came back.
		assert.Equal(t, direct.StatusCode, through.StatusCode, name)
		assert.Equal(t, direct.Trailer, through.Trailer, name)
		assert.Equal(t, without(direct.Header, append(hopByHop, ofTheirConnection...)...),
			without(through.Header, append(addedToAnswer, ofTheirConnection...)...), name)
		assert.Equal(t, direct.Header["Content-Length"] == nil, through.Header["Content-Length"] == nil, name)
		assert.Equal(t, id, through.Header.Get(api.HeaderSessionID))
		if t.Failed() {
			return // one is enough to read
		}
	}
}
