package node

import (
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// patience is how long a test waits to see that nothing comes.
const patience = 300 * time.Millisecond

func TestAnAddressThatIsShutRefusesAndClosesItsConnections(t *testing.T) {
	t.Parallel()
	e := open(t)
	_, answers := dial(t, e)
	e.shut()
	_, err := answers.ReadByte()
	require.ErrorIs(t, err, io.EOF)
	for _, port := range []string{":8080", ":8443"} {
		_, err = new(net.Dialer).DialContext(t.Context(), "tcp", e.address+port)
		require.ErrorIs(t, err, syscall.ECONNREFUSED)
	}
	e.shut() // twice is once
}

func TestASilentAddressAnswersNothing(t *testing.T) {
	t.Parallel()
	e := open(t)
	c, answers := dial(t, e)
	require.NoError(t, e.silence())

	// An open connection takes what is sent and stays open.
	_, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	require.NoError(t, err)
	require.NoError(t, c.SetReadDeadline(time.Now().Add(patience)))
	_, err = answers.ReadByte()
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)

	// A dial hangs, each of several, on every port.
	for range 3 {
		for _, port := range []string{":8080", ":8443"} {
			assertHangs(t, e.address+port)
		}
	}
	assert.EqualValues(t, 1, e.requests.Load())

	e.shut()
	require.NoError(t, c.SetReadDeadline(time.Time{}))
	_, err = answers.ReadByte()
	require.ErrorIs(t, err, syscall.ECONNRESET, "no orderly end")
	_, err = new(net.Dialer).DialContext(t.Context(), "tcp", e.address+":8080")
	require.ErrorIs(t, err, syscall.ECONNREFUSED)
}

func assertHangs(t *testing.T, address string) {
	t.Helper()
	dialer := net.Dialer{Timeout: patience}
	dialer.SetMultipathTCP(false)
	_, err := dialer.DialContext(t.Context(), "tcp", address)
	var timeout net.Error
	require.ErrorAs(t, err, &timeout)
	assert.True(t, timeout.Timeout(), "%v", err)
}

func TestAnAnswerUnderWayIsCutOffBySilence(t *testing.T) {
	t.Parallel()
	e := open(t)
	peer, _ := dial(t, e)
	var server *conn
	e.mu.Lock()
	for c := range e.conns {
		server = c
	}
	e.mu.Unlock()
	require.NotNil(t, server)
	require.NoError(t, e.silence())

	written := make(chan error)
	go func() {
		_, err := server.Write([]byte("late"))
		written <- err
	}()
	require.NoError(t, server.CloseWrite())
	require.NoError(t, server.Close())
	require.NoError(t, peer.SetReadDeadline(time.Now().Add(patience)))
	_, err := peer.Read(make([]byte, 1))
	require.ErrorIs(t, err, os.ErrDeadlineExceeded, "neither data nor an end")
	e.shut()
	require.ErrorIs(t, <-written, net.ErrClosed)
}

func TestAnAddressThatIsShutListensNoMore(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	e := open(t)
	e.shut()
	require.NoError(t, e.listen([]port{{8080, false}}, n.serveWeb))
	_, err := new(net.Dialer).DialContext(t.Context(), "tcp", e.address+":8080")
	require.ErrorIs(t, err, syscall.ECONNREFUSED)
}
