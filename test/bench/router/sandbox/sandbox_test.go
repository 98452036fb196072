package main

import (
	"bufio"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func serve(t *testing.T) string {
	t.Helper()
	server := httptest.NewServer(handler(time.Millisecond))
	t.Cleanup(server.Close)
	return server.URL
}

func open(t *testing.T, url string) *http.Response {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	require.NoError(t, err)
	response, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	t.Cleanup(func() { _ = response.Body.Close() })
	return response
}

func TestBodiesAreWholeAndTheirLengthIsTold(t *testing.T) {
	t.Parallel()
	url := serve(t)
	for name, length := range map[string]int64{"small": int64(len(smallBody)), "large": largeBody} {
		response := open(t, url+"/whatever/"+name) //nolint:bodyclose // at the end of the test
		assert.Equal(t, length, response.ContentLength, name)
		text, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		assert.Len(t, text, int(length), name)
	}
	response := open(t, url+"/other") //nolint:bodyclose // at the end of the test
	assert.Equal(t, http.StatusNotFound, response.StatusCode)
}

func TestEventsTellTheTime(t *testing.T) {
	t.Parallel()
	before := time.Now()
	response := open(t, serve(t)+"/events") //nolint:bodyclose // at the end of the test
	line, err := bufio.NewReader(response.Body).ReadString('\n')
	require.NoError(t, err)
	nanos, err := strconv.ParseInt(strings.TrimSpace(strings.TrimPrefix(line, "data: ")), 10, 64)
	require.NoError(t, err)
	assert.WithinRange(t, time.Unix(0, nanos), before, time.Now())
}

func TestMessagesComeBack(t *testing.T) {
	t.Parallel()
	socket, _, err := websocket.Dial(t.Context(), serve(t)+"/socket", nil) //nolint:bodyclose // of an upgrade
	require.NoError(t, err)
	t.Cleanup(func() { _ = socket.CloseNow() })
	require.NoError(t, socket.Write(t.Context(), websocket.MessageText, []byte("hello")))
	_, message, err := socket.Read(t.Context())
	require.NoError(t, err)
	assert.Equal(t, "hello", string(message))
}

func TestAHeldRequestHasItsHead(t *testing.T) {
	t.Parallel()
	response := open(t, serve(t)+"/hold") //nolint:bodyclose // at the end of the test
	assert.Equal(t, http.StatusOK, response.StatusCode)
}
