package command

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
)

func TestTheLogLevelIsSetWhileTheProgramRuns(t *testing.T) {
	t.Parallel()
	level := zap.NewAtomicLevelAt(zapcore.ErrorLevel)
	core, logs := observer.New(level)
	a, err := serveAdmin(t.Context(), "127.0.0.1:0", level, zap.New(core))
	require.NoError(t, err)
	base := "http://" + a.listener.Addr().String()
	call := func(method, path, body string) (int, string) {
		r, err := http.NewRequestWithContext(t.Context(), method, base+path, strings.NewReader(body))
		require.NoError(t, err)
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded") // as curl does, unasked
		res, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		defer func() { _ = res.Body.Close() }()
		text, err := io.ReadAll(res.Body)
		require.NoError(t, err)
		return res.StatusCode, string(text)
	}
	status, body := call(http.MethodGet, "/log/level", "")
	assert.Equal(t, http.StatusOK, status)
	assert.JSONEq(t, `{"level":"error"}`, body)

	status, _ = call(http.MethodPut, "/log/level", `{"level":"debug"}`)
	assert.Equal(t, http.StatusOK, status)
	assert.Equal(t, zapcore.DebugLevel, level.Level())
	require.Equal(t, 1, logs.Len(), "it is told, although the level was error")
	assert.Equal(t, "log level set", logs.All()[0].Message)

	status, _ = call(http.MethodPut, "/log/level", `{"level":"loud"}`)
	assert.Equal(t, http.StatusBadRequest, status)
	assert.Equal(t, zapcore.DebugLevel, level.Level())
	status, _ = call(http.MethodPost, "/log/level", `{"level":"error"}`)
	assert.Equal(t, http.StatusMethodNotAllowed, status)
	status, _ = call(http.MethodGet, "/", "")
	assert.Equal(t, http.StatusNotFound, status)

	_, err = serveAdmin(t.Context(), a.listener.Addr().String(), level, zap.NewNop())
	require.ErrorContains(t, err, "--admin-address")
	a.close()
	none, err := serveAdmin(t.Context(), "", level, zap.NewNop())
	require.NoError(t, err)
	assert.Nil(t, none)
	none.close()
}
