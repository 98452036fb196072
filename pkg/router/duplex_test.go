package router

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentcube/agentcube/pkg/api"
)

func TestAnAnswerBeforeTheEndOfTheBodyIsTheLastOfItsConnection(t *testing.T) {
	t.Parallel()
	early := earlySandbox(t)
	for sentence, c := range map[string]struct {
		endpoint string
		status   int
	}{
		"the sandbox does not wait for it": {early, http.StatusOK},
		"the sandbox refuses":              {refusing(t), http.StatusBadGateway},
	} {
		for framing, send := range map[string][2]string{
			"a length": {"Content-Length: 100000\r\n\r\n", strings.Repeat("x", 100_000)},
			"chunks": {
				"Transfer-Encoding: chunked\r\n\r\n5\r\nfirst\r\n",
				"24\r\nGET /livez HTTP/1.1\r\nHost: smuggled\r\n\r\n\r\n0\r\n\r\n",
			},
		} {
			t.Run(sentence+", with "+framing, func(t *testing.T) {
				t.Parallel()
				r := newRig(t, quick)
				id := r.ready(c.endpoint)
				conn := r.dial()
				_, err := fmt.Fprintf(conn, "POST %s/x HTTP/1.1\r\nHost: h\r\n%s: %s\r\n%s", echoPath, api.HeaderSessionID, id, send[0])
				require.NoError(t, err)
				reader := bufio.NewReader(conn)
				res, err := http.ReadResponse(reader, nil)
				require.NoError(t, err)
				_, err = io.Copy(io.Discard, res.Body)
				require.NoError(t, err, "the answer comes whole before the body has ended")
				require.NoError(t, res.Body.Close())
				assert.Equal(t, c.status, res.StatusCode)
				assert.True(t, res.Close, "the client is told to send no more requests")
				_, _ = io.WriteString(conn, send[1]) // it may be closed by now
				rest, _ := io.ReadAll(reader)
				assert.Empty(t, string(rest), "the body is no request")
			})
		}
	}
}

func TestAnAnswerAfterTheEndOfTheBodyKeepsTheConnection(t *testing.T) {
	t.Parallel()
	r := newRig(t, quick)
	s := newSandbox(t, func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) })
	id := r.ready(s.endpoint())
	conn := r.dial()
	reader := bufio.NewReader(conn)
	for range 5 {
		_, err := fmt.Fprintf(conn, "POST %s/x HTTP/1.1\r\nHost: h\r\n%s: %s\r\nContent-Length: 4\r\n\r\nbody", echoPath, api.HeaderSessionID, id)
		require.NoError(t, err)
		res := readFrom(t, reader)
		assert.Equal(t, "body", res.body)
		assert.Empty(t, res.Header.Get("Connection"))
	}
}

// earlySandbox answers as soon as it has read the head of a request.
func earlySandbox(t *testing.T) string {
	t.Helper()
	listener := listen(t)
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = conn.Close() }()
				if _, err := http.ReadRequest(bufio.NewReader(conn)); err != nil {
					return
				}
				_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nearly")
				_, _ = io.Copy(io.Discard, conn)
			}()
		}
	}()
	return listener.Addr().String()
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	return l
}
