package httpserver

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
	clocktesting "k8s.io/utils/clock/testing"
)

func probe(t *testing.T, handler http.HandlerFunc) (code int, body string) {
	t.Helper()
	w := httptest.NewRecorder()
	handler(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/readyz", http.NoBody))
	assert.Equal(t, "application/json; charset=utf-8", w.Header().Get("Content-Type"))
	return w.Code, w.Body.String()
}

func TestReadinessSpeaksOfThisProcessOnly(t *testing.T) {
	t.Parallel()
	h := NewHealth(clocktesting.NewFakeClock(time.Unix(0, 0)), zap.NewNop())
	expect := func(code int, body string) {
		got, text := probe(t, h.Readyz)
		assert.Equal(t, code, got)
		assert.JSONEq(t, body, text)
	}
	expect(503, `{"status":"starting"}`)
	h.Ready()
	expect(200, `{"status":"ready"}`)
	h.Detail("store", func(context.Context) error { return errors.New("dial tcp 10.0.0.1:6379: refused") })
	h.Detail("cluster", func(context.Context) error { return nil })
	expect(200, `{"status":"ready","details":{"store":"failing","cluster":"ok"}}`)
	h.Drain()
	expect(503, `{"status":"draining","details":{"store":"failing","cluster":"ok"}}`)
	h.Ready()
	expect(503, `{"status":"draining","details":{"store":"failing","cluster":"ok"}}`)
}

func TestLivenessIsTrivial(t *testing.T) {
	t.Parallel()
	code, body := probe(t, Status("alive"))
	assert.Equal(t, http.StatusOK, code)
	//nolint:testifylint // every byte counts
	assert.Equal(t, `{"status":"alive"}`, body, "without a line end, as existing installations answer")
}

func TestADependencyThatHangsIsFailing(t *testing.T) {
	t.Parallel()
	clk := clocktesting.NewFakeClock(time.Unix(0, 0))
	h := NewHealth(clk, zap.NewNop())
	h.Ready()
	ended := make(chan struct{})
	h.Detail("store", func(ctx context.Context) error {
		clk.Step(detailTimeout)
		<-ctx.Done()
		close(ended)
		return ctx.Err()
	})
	code, body := probe(t, h.Readyz)
	assert.Equal(t, http.StatusOK, code)
	assert.JSONEq(t, `{"status":"ready","details":{"store":"failing"}}`, body)
	<-ended
}

func TestAChangeOfADependencyIsLoggedOnce(t *testing.T) {
	t.Parallel()
	core, logs := observer.New(zapcore.InfoLevel)
	h := NewHealth(clocktesting.NewFakeClock(time.Unix(0, 0)), zap.New(core))
	var err error
	h.Detail("store", func(context.Context) error { return err })
	for _, err = range []error{nil, errors.New("refused"), errors.New("refused"), nil, nil} {
		probe(t, h.Readyz)
	}
	require.Equal(t, 2, logs.Len())
	assert.Equal(t, "dependency failing", logs.All()[0].Message)
	assert.Equal(t, "refused", logs.All()[0].ContextMap()["error"])
	assert.Equal(t, "dependency back", logs.All()[1].Message)
}

func TestAProberThatWentAwayBlamesNobody(t *testing.T) {
	t.Parallel()
	core, logs := observer.New(zapcore.InfoLevel)
	h := NewHealth(clocktesting.NewFakeClock(time.Unix(0, 0)), zap.New(core))
	h.Detail("store", func(ctx context.Context) error { return ctx.Err() })
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	h.Readyz(httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, http.MethodGet, "/readyz", http.NoBody))
	assert.Zero(t, logs.Len())
}
