package httpserver

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
	clocktesting "k8s.io/utils/clock/testing"
)

// edge is a server with all middlewares around one handler.
type edge struct {
	*httptest.Server
	clk      *clocktesting.FakePassiveClock
	logs     *observer.ObservedLogs
	registry *prometheus.Registry
	handlers inFlight
}

func newEdge(t *testing.T, handler http.HandlerFunc) *edge {
	t.Helper()
	core, logs := observer.New(zapcore.DebugLevel)
	e := &edge{clk: clocktesting.NewFakePassiveClock(time.Unix(1796072051, 0)), logs: logs, registry: prometheus.NewRegistry()}
	requests := NewRequests(e.registry, "/livez", "/things/{id}")
	routes := chi.NewRouter()
	routes.Use(RequestID, AccessLog(e.clk, zap.New(core), requests.Observe, "/livez"), Recover(zap.New(core),
		func(w http.ResponseWriter, r *http.Request) {
			http.Error(w, "own shape of "+RequestIDFrom(r.Context()), http.StatusInternalServerError)
		}))
	routes.HandleFunc("/livez", handler)
	routes.HandleFunc("/things/{id}", handler)
	e.Server = httptest.NewServer(e.handlers.track(routes))
	t.Cleanup(e.Close)
	return e
}

// answer is a response that was read as far as it came.
type answer struct {
	status int
	header http.Header
	body   string
}

// get fails if the answer did not come whole, and returns what did.
func (e *edge) get(t *testing.T, path string, header ...string) (answer, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, e.URL+path, http.NoBody)
	require.NoError(t, err)
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := e.Client().Do(req)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return answer{resp.StatusCode, resp.Header, string(body)}, err
}

// record is the one access record, once the handler is done.
func (e *edge) record(t *testing.T) observer.LoggedEntry {
	t.Helper()
	e.handlers.wait(t.Context()) // Close does not wait for those that hijacked
	records := e.logs.FilterMessage("request").All()
	require.Len(t, records, 1)
	return records[0]
}

func TestRequestIDs(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		id   string
		kept bool
	}{
		"a sane one is kept":          {"Root=1-67891233-abcdef;~!", true},
		"as long as allowed":          {strings.Repeat("x", 128), true},
		"one byte longer":             {strings.Repeat("x", 129), false},
		"absent":                      {"", false},
		"with a space":                {"a b", false},
		"with a tab":                  {"a\tb", false},
		"with letters beyond ASCII":   {"ä", false},
		"with a byte that is no text": {"a\xff", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var seen string
			e := newEdge(t, func(_ http.ResponseWriter, r *http.Request) { seen = RequestIDFrom(r.Context()) })
			got, err := e.get(t, "/things/1", headerRequestID, test.id)
			require.NoError(t, err)
			assert.Equal(t, test.kept, seen == test.id)
			assert.NotEmpty(t, seen)
			assert.Equal(t, seen, got.header.Get(headerRequestID))
		})
	}
	assert.Empty(t, RequestIDFrom(t.Context()))
}

func TestAnAnswerThatHasARequestIDKeepsIt(t *testing.T) {
	t.Parallel()
	e := newEdge(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Add(headerRequestID, "the application's")
		w.WriteHeader(http.StatusTeapot)
	})
	got, err := e.get(t, "/things/1")
	require.NoError(t, err)
	assert.Equal(t, []string{"the application's"}, got.header[headerRequestID])
}

func FuzzRequestID(f *testing.F) {
	for _, id := range []string{"", "a", "a b", "\x00", "é", strings.Repeat("x", 129)} {
		f.Add(id)
	}
	f.Fuzz(func(t *testing.T, id string) {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", http.NoBody)
		r.Header[headerRequestID] = []string{id}
		w := httptest.NewRecorder()
		RequestID(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })).ServeHTTP(w, r)
		answered := w.Header().Get(headerRequestID)
		require.NotEmpty(t, answered)
		require.LessOrEqual(t, len(answered), 128)
		require.Empty(t, strings.Trim(answered, "!\"#$%&'()*+,-./0123456789:;<=>?@ABCDEFGHIJKLMNOPQRSTUVWXYZ[\\]^_`abcdefghijklmnopqrstuvwxyz{|}~"))
	})
}

func TestAccessRecord(t *testing.T) {
	t.Parallel()
	cause := errors.New("store: connection refused")
	for name, test := range map[string]struct {
		path    string
		handler http.HandlerFunc
		level   zapcore.Level
		want    map[string]any
	}{
		"a plain answer": {
			"/things/7", func(w http.ResponseWriter, r *http.Request) {
				RecordFrom(r.Context()).SetSession("s-1")
				w.WriteHeader(http.StatusEarlyHints)
				w.WriteHeader(http.StatusCreated)
				_, _ = w.Write([]byte("hello"))
			}, zapcore.InfoLevel,
			map[string]any{"route": "/things/{id}", "status": int64(201), "bytes": int64(5), "session": "s-1", "code": ""},
		},
		"an answer without a head or body": {
			"/things/7", func(http.ResponseWriter, *http.Request) {}, zapcore.InfoLevel,
			map[string]any{"route": "/things/{id}", "status": int64(200), "bytes": int64(0), "session": "", "code": ""},
		},
		"a failure has its code, cause and level": {
			"/things/7", func(w http.ResponseWriter, r *http.Request) {
				RecordFrom(r.Context()).Fail("STORE_UNAVAILABLE", cause, zapcore.WarnLevel)
				w.WriteHeader(http.StatusServiceUnavailable)
			}, zapcore.WarnLevel,
			map[string]any{
				"route": "/things/{id}", "status": int64(503), "bytes": int64(0), "session": "",
				"code": "STORE_UNAVAILABLE", "error": cause.Error(),
			},
		},
		"route and status can be told": {
			"/things/7", func(_ http.ResponseWriter, r *http.Request) {
				RecordFrom(r.Context()).SetRoute("/other")
				RecordFrom(r.Context()).SetStatus(499)
			}, zapcore.InfoLevel,
			map[string]any{"route": "/other", "status": int64(499), "bytes": int64(0), "session": "", "code": ""},
		},
		"probes are quiet": {
			"/livez", func(http.ResponseWriter, *http.Request) {}, zapcore.DebugLevel,
			map[string]any{"route": "/livez", "status": int64(200), "bytes": int64(0), "session": "", "code": ""},
		},
		"a panic is a 500 in the program's shape": {
			"/things/7", func(http.ResponseWriter, *http.Request) { panic("boom") }, zapcore.InfoLevel,
			map[string]any{"route": "/things/{id}", "status": int64(500), "bytes": int64(len("own shape of id-1\n")), "session": "", "code": ""},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var e *edge
			e = newEdge(t, func(w http.ResponseWriter, r *http.Request) {
				e.clk.SetTime(e.clk.Now().Add(3 * time.Second))
				test.handler(w, r)
			})
			_, err := e.get(t, test.path, headerRequestID, "id-1")
			require.NoError(t, err)
			record := e.record(t)
			assert.Equal(t, test.level, record.Level)
			test.want["method"], test.want["duration"], test.want["requestId"] = "GET", 3*time.Second, "id-1"
			assert.Equal(t, test.want, record.ContextMap())
		})
	}
}

func TestARecordOutsideOfARequestIsReadByNobody(t *testing.T) {
	t.Parallel()
	require.NotNil(t, RecordFrom(t.Context()))
	RecordFrom(t.Context()).SetSession("s")
}

func TestAClientThatGoesAwayIsA499(t *testing.T) {
	t.Parallel()
	arrived := make(chan struct{})
	e := newEdge(t, func(_ http.ResponseWriter, r *http.Request) {
		close(arrived)
		<-r.Context().Done()
	})
	ctx, cancel := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, e.URL+"/things/1", http.NoBody)
	require.NoError(t, err)
	go func() { <-arrived; cancel() }()
	resp, err := e.Client().Do(req)
	if err == nil {
		require.NoError(t, resp.Body.Close())
	}
	require.Error(t, err)
	assert.Equal(t, int64(499), e.record(t).ContextMap()["status"])
}

func TestAPanicAfterTheHeadBreaksTheAnswerOff(t *testing.T) {
	t.Parallel()
	for name, handler := range map[string]http.HandlerFunc{
		"a bug": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte("part"))
			w.(http.Flusher).Flush()
			panic(errors.New("boom"))
		},
		"on purpose": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte("part"))
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEdge(t, handler)
			got, err := e.get(t, "/things/1")
			require.Error(t, err, "the client must see that this is not the whole")
			assert.Equal(t, http.StatusOK, got.status)
			assert.Equal(t, "part", got.body)
			fields := e.record(t).ContextMap()
			assert.Equal(t, int64(200), fields["status"])
			assert.Equal(t, true, fields["aborted"])
			assert.Equal(t, name == "a bug", e.logs.FilterMessage("panic while serving").Len() == 1, "a panic on purpose is no error")
		})
	}
}

func TestAnAbortBeforeTheHeadHasNoStatus(t *testing.T) {
	t.Parallel()
	e := newEdge(t, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	_, err := e.get(t, "/things/1")
	require.Error(t, err)
	assert.Equal(t, int64(0), e.record(t).ContextMap()["status"])
}

func TestStreamsPassTheMiddlewares(t *testing.T) {
	t.Parallel()
	next := make(chan struct{})
	e := newEdge(t, func(w http.ResponseWriter, _ *http.Request) {
		assert.NoError(t, http.NewResponseController(w).Flush())
		<-next
		_, _ = w.Write([]byte("event\n"))
		w.(http.Flusher).Flush()
		<-next
	})
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, e.URL+"/things/1", http.NoBody)
	require.NoError(t, err)
	resp, err := e.Client().Do(req)
	require.NoError(t, err, "the head came at once")
	defer resp.Body.Close()
	next <- struct{}{}
	line, err := bufio.NewReader(resp.Body).ReadString('\n')
	require.NoError(t, err)
	assert.Equal(t, "event\n", line, "and the event before the next one")
	next <- struct{}{}
}

func TestConnectionsCanBeHijacked(t *testing.T) {
	t.Parallel()
	e := newEdge(t, func(w http.ResponseWriter, _ *http.Request) {
		conn, rw, err := http.NewResponseController(w).Hijack()
		if !assert.NoError(t, err) {
			return
		}
		defer conn.Close()
		_, _ = rw.WriteString("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
		_ = rw.Flush()
	})
	got, err := e.get(t, "/things/1", "Connection", "Upgrade", "Upgrade", "echo")
	require.NoError(t, err)
	assert.Equal(t, http.StatusSwitchingProtocols, got.status)
	assert.Equal(t, int64(101), e.record(t).ContextMap()["status"])
}

func TestWhatTheWriterBelowCannotDoFails(t *testing.T) {
	t.Parallel()
	w := record(struct{ http.ResponseWriter }{httptest.NewRecorder()})
	_, _, err := w.Hijack()
	require.ErrorIs(t, err, http.ErrNotSupported)
	require.ErrorIs(t, w.FlushError(), http.ErrNotSupported)
}

func TestFilesAreCopiedByTheServer(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(path, []byte("content"), 0o600))
	e := newEdge(t, func(w http.ResponseWriter, _ *http.Request) {
		file, err := os.Open(path)
		if !assert.NoError(t, err) {
			return
		}
		defer file.Close()
		_, err = io.Copy(w, file)
		assert.NoError(t, err)
		assert.Implements(t, (*io.ReaderFrom)(nil), w)
	})
	got, err := e.get(t, "/things/1")
	require.NoError(t, err)
	assert.Equal(t, "content", got.body)
	assert.Equal(t, int64(7), e.record(t).ContextMap()["bytes"])
}

func TestARequestCarriesWhatIsHungOnItsRecord(t *testing.T) {
	t.Parallel()
	ended := errors.New("ended")
	handler := RequestID(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		type other struct{}
		record := RecordFrom(r.Context())
		assert.Nil(t, record.Carried())
		record.Carry("something")
		derived, cancel := context.WithCancel(context.WithValue(r.Context(), other{}, 1))
		defer cancel()
		assert.Equal(t, "something", RecordFrom(derived).Carried())
		assert.Equal(t, "of the server", r.Context().Value(serverKey{}))
		record.End(ended)
		<-derived.Done()
		assert.Equal(t, ended, context.Cause(derived))
	}))
	ctx := context.WithValue(t.Context(), serverKey{}, "of the server")
	handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, http.MethodGet, "/", http.NoBody))
	RecordFrom(t.Context()).End(ended) // without RequestID there is nothing to end
}

type serverKey struct{}
