package node

import (
	"errors"
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
		_, err = net.Dial("tcp", e.address+port)
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
	_, err = net.Dial("tcp", e.address+":8080")
	require.ErrorIs(t, err, syscall.ECONNREFUSED)
}

func assertHangs(t *testing.T, address string) {
	t.Helper()
	dialer := net.Dialer{Timeout: patience}
	dialer.SetMultipathTCP(false)
	_, err := dialer.Dial("tcp", address)
	var timeout net.Error
	require.ErrorAs(t, err, &timeout)
	assert.True(t, timeout.Timeout(), "%v", err)
	assert.False(t, errors.Is(err, syscall.ECONNREFUSED), "%v", err)
}

func TestAnAnswerUnderWayIsCutOffBySilence(t *testing.T) {
	t.Parallel()
	e := open(t)
	c, answers := dial(t, e)
	_, err := io.WriteString(c, "GET /sse?n=0&d=10ms HTTP/1.1\r\nHost: x\r\n\r\n")
	require.NoError(t, err)
	_, err = answers.ReadString('}') // the first event
	require.NoError(t, err)
	require.NoError(t, e.silence())
	// What was on its way arrives, then nothing more does.
	require.NoError(t, c.SetReadDeadline(time.Now().Add(patience)))
	_, err = io.Copy(io.Discard, answers)
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	require.NoError(t, c.SetReadDeadline(time.Now().Add(patience)))
	n, err := io.Copy(io.Discard, c)
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	assert.Zero(t, n)
}

func TestAnAddressThatIsShutListensNoMore(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	e := open(t)
	e.shut()
	require.NoError(t, e.listen([]port{{8080, false}}, n.serveWeb))
	_, err := net.Dial("tcp", e.address+":8080")
	require.ErrorIs(t, err, syscall.ECONNREFUSED)
}
