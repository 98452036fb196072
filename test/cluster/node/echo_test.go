package node

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
)

// newNode returns a node without an API server: enough for endpoints.
func newNode(t *testing.T) *Node {
	t.Helper()
	n, err := New(clock.RealClock{}, Options{})
	require.NoError(t, err)
	t.Cleanup(n.addresses.release)
	return n
}

// open returns an endpoint that listens on 8080 and, with TLS, on 8443.
func open(t *testing.T) *endpoint {
	t.Helper()
	n := newNode(t)
	name := types.NamespacedName{Namespace: "default", Name: "pod"}
	address, err := n.addresses.take(name, false)
	require.NoError(t, err)
	e := newEndpoint(name, "uid-1", address.String())
	require.NoError(t, e.listen([]port{{8080, false}, {8443, true}}, n.serveWeb))
	t.Cleanup(func() {
		e.shut()
		n.work.Wait()
	})
	return e
}

// answer is a response that was read whole.
type answer struct {
	status int
	proto  string
	header http.Header
	body   string
}

func do(t *testing.T, client *http.Client, request *http.Request) answer {
	t.Helper()
	response, err := client.Do(request)
	require.NoError(t, err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return answer{response.StatusCode, response.Proto, response.Header, string(body)}
}

func TestAPodAnswersWithWhatItReceived(t *testing.T) {
	t.Parallel()
	e := open(t)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost,
		"http://"+e.address+":8080//a/b?x=1&y=%2F", strings.NewReader(`{"input": "hi"}`))
	require.NoError(t, err)
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("User-Agent", "test")
	got := do(t, &http.Client{Transport: &http.Transport{}}, request)

	assert.Equal(t, http.StatusOK, got.status)
	assert.Equal(t, "application/json", got.header.Get("Content-Type"))
	assert.Equal(t, "15", got.header.Get(ReceivedHeader))
	assert.Equal(t, `{"addr":"`+e.address+`:8080","body":"{\"input\": \"hi\"}",`+
		`"headers":{"Accept-Encoding":["gzip"],"Content-Length":["15"],"Content-Type":["application/json"],"User-Agent":["test"]},`+
		`"host":"`+e.address+`:8080","method":"POST","pod":"pod","uid":"uid-1","uri":"//a/b?x=1\u0026y=%2F"}`+"\n", got.body)
	assert.EqualValues(t, 1, e.requests.Load())
}

func TestAPodSpeaksEveryHTTPVersion(t *testing.T) {
	t.Parallel()
	e := open(t)
	transport := func(set func(*http.Protocols)) *http.Transport {
		var protocols http.Protocols
		set(&protocols)
		return &http.Transport{Protocols: &protocols, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	}
	for name, c := range map[string]struct {
		url       string
		transport *http.Transport
		want      string
	}{
		"HTTP/1.1":           {"http://" + e.address + ":8080/", transport(func(p *http.Protocols) { p.SetHTTP1(true) }), "HTTP/1.1"},
		"HTTP/2, clear text": {"http://" + e.address + ":8080/", transport(func(p *http.Protocols) { p.SetUnencryptedHTTP2(true) }), "HTTP/2.0"},
		"HTTP/1.1 over TLS":  {"https://" + e.address + ":8443/", transport(func(p *http.Protocols) { p.SetHTTP1(true) }), "HTTP/1.1"},
		"HTTP/2 over TLS":    {"https://" + e.address + ":8443/", transport(func(p *http.Protocols) { p.SetHTTP2(true) }), "HTTP/2.0"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, c.url, nil)
			require.NoError(t, err)
			got := do(t, &http.Client{Transport: c.transport}, request)
			c.transport.CloseIdleConnections()
			assert.Equal(t, c.want, got.proto)
			var echo Echo
			require.NoError(t, json.Unmarshal([]byte(got.body), &echo))
			assert.Equal(t, "pod", echo.Pod)
		})
	}
}

// record serves one request of an endpoint without a network.
func record(request *http.Request, w http.ResponseWriter) {
	e := newEndpoint(types.NamespacedName{Name: "pod"}, "uid-1", "127.0.0.1")
	ctx := context.WithValue(request.Context(), endpointKey{}, e)
	ctx = context.WithValue(ctx, http.LocalAddrContextKey, &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 8080})
	(&application{clock: clock.RealClock{}}).ServeHTTP(w, request.WithContext(ctx))
}

func TestPathsWithASpecialAnswer(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]struct {
		status int
		body   string
	}{
		"/missing":    {404, "404 page not found\n"},
		"/status/503": {503, `"uri":"/status/503"`},
		"/status/204": {204, ""},
		"/status/abc": {400, "not a status"},
		"/status/100": {400, "not a status"},
		"/slow?d=x":   {400, "invalid duration"},
		"/sse?n=x":    {400, "invalid syntax"},
		"/statuses":   {200, `"uri":"/statuses"`},
	} {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			w := httptest.NewRecorder()
			record(httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil), w)
			assert.Equal(t, want.status, w.Code)
			assert.Contains(t, w.Body.String(), want.body)
		})
	}
}

func TestALargeBodyIsReadWholeAndEchoedInPart(t *testing.T) {
	t.Parallel()
	w := httptest.NewRecorder()
	body := strings.Repeat("x", echoLimit+17)
	record(httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader(body)), w)
	var got Echo
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &got))
	assert.Len(t, got.Body, 1<<20)
	assert.Equal(t, "1048593", w.Header().Get(ReceivedHeader))
}

func TestASlowAnswerComesAfterItsDelay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		w := httptest.NewRecorder()
		record(httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/slow?d=5s", nil), w)
		assert.Equal(t, 5*time.Second, time.Since(began))
		assert.Equal(t, http.StatusOK, w.Code)
	})
}

// timed notes when what was flushed.
type timed struct {
	*httptest.ResponseRecorder
	began time.Time
	at    []time.Duration
	sizes []int
}

func (w *timed) Flush() {
	w.at = append(w.at, time.Since(w.began))
	w.sizes = append(w.sizes, strings.Count(w.Body.String(), "\n\n"))
}

func TestEventsAreFlushedOneAtATime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := &timed{ResponseRecorder: httptest.NewRecorder(), began: time.Now()}
		record(httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/sse?n=3&d=100ms", nil), w)
		assert.Equal(t, []time.Duration{0, 100 * time.Millisecond, 200 * time.Millisecond}, w.at)
		assert.Equal(t, []int{1, 2, 3}, w.sizes)
		assert.Equal(t, "text/event-stream", w.Header().Get("Content-Type"))
		assert.True(t, strings.HasPrefix(w.Body.String(), "id: 1\ndata: {\"n\":1,\"pod\":\"pod\"}\n\n"), w.Body)
	})
}

func TestWhatNeverAnswersEndsWithTheClient(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"/stall", "/slow?d=1h", "/sse?n=0&d=1h"} {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				began := time.Now()
				record(httptest.NewRequestWithContext(ctx, http.MethodGet, path, nil), httptest.NewRecorder())
				assert.Equal(t, time.Minute, time.Since(began))
			})
		})
	}
}

func TestAWebSocketSendsBackWhatItGets(t *testing.T) {
	t.Parallel()
	e := open(t)
	socket, response, err := websocket.Dial(t.Context(), "ws://"+e.address+":8080/ws", nil) //nolint:bodyclose // it has none
	require.NoError(t, err)
	require.Equal(t, http.StatusSwitchingProtocols, response.StatusCode)
	for kind, message := range map[websocket.MessageType]string{websocket.MessageText: "héllo", websocket.MessageBinary: "\x00\xff"} {
		require.NoError(t, socket.Write(t.Context(), kind, []byte(message)))
		gotKind, got, err := socket.Read(t.Context())
		require.NoError(t, err)
		assert.Equal(t, kind, gotKind)
		assert.Equal(t, message, string(got))
	}
	require.NoError(t, socket.Close(websocket.StatusNormalClosure, ""))
}

// dial opens a connection and has one request answered on it.
func dial(t *testing.T, e *endpoint) (net.Conn, *bufio.Reader) {
	t.Helper()
	c, err := new(net.Dialer).DialContext(t.Context(), "tcp", e.address+":8080")
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	answers := bufio.NewReader(c)
	_, err = io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	require.NoError(t, err)
	response, err := http.ReadResponse(answers, nil)
	require.NoError(t, err)
	defer response.Body.Close()
	_, err = io.Copy(io.Discard, response.Body)
	require.NoError(t, err)
	return c, answers
}
