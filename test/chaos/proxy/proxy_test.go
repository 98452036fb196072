package proxy

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// soon bounds what must happen, quiet is how long nothing is waited for.
const (
	soon  = 10 * time.Second
	quiet = 50 * time.Millisecond
)

// echoServer sends back every line.
func echoServer(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				for lines := bufio.NewScanner(conn); lines.Scan(); {
					fmt.Fprintln(conn, lines.Text())
				}
			}()
		}
	}()
	return listener.Addr().String()
}

func start(t *testing.T) *Proxy {
	t.Helper()
	p, err := Listen(echoServer(t))
	require.NoError(t, err)
	t.Cleanup(p.Close)
	return p
}

func dial(t *testing.T, p *Proxy) net.Conn {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", p.Addr())
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func say(t *testing.T, conn net.Conn, text string) {
	t.Helper()
	_, err := fmt.Fprintln(conn, text)
	require.NoError(t, err)
}

// hears reads one line within the time.
func hears(conn net.Conn, within time.Duration) (string, error) {
	if err := conn.SetReadDeadline(time.Now().Add(within)); err != nil {
		return "", err
	}
	return bufio.NewReader(conn).ReadString('\n')
}

func TestBytesPass(t *testing.T) {
	t.Parallel()
	conn := dial(t, start(t))
	say(t, conn, "hello")
	got, err := hears(conn, soon)
	require.NoError(t, err)
	assert.Equal(t, "hello\n", got)
}

func TestCutEndsWhatIsOpenAndNothingElse(t *testing.T) {
	t.Parallel()
	p := start(t)
	old := dial(t, p)
	say(t, old, "a")
	_, err := hears(old, soon)
	require.NoError(t, err)
	p.Cut()
	_, err = hears(old, soon)
	require.Error(t, err)
	require.NotErrorIs(t, err, os.ErrDeadlineExceeded, "the connection is still open")
	young := dial(t, p)
	say(t, young, "b")
	_, err = hears(young, soon)
	require.NoError(t, err)
}

func TestWhatIsFrozenPassesAfterTheThaw(t *testing.T) {
	t.Parallel()
	p := start(t)
	old := dial(t, p)
	say(t, old, "a")
	_, err := hears(old, soon)
	require.NoError(t, err)
	p.Freeze()
	young := dial(t, p)
	for _, conn := range []net.Conn{old, young} {
		say(t, conn, "b")
		_, err = hears(conn, quiet)
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	}
	require.NoError(t, p.Thaw())
	for _, conn := range []net.Conn{old, young} {
		got, err := hears(conn, soon)
		require.NoError(t, err)
		assert.Equal(t, "b\n", got)
	}
}

func TestWhatWasOpenStaysFrozenWhileNewConnectionsWork(t *testing.T) {
	t.Parallel()
	p := start(t)
	old := dial(t, p)
	say(t, old, "a")
	_, err := hears(old, soon)
	require.NoError(t, err)
	p.FreezeOpen()
	young := dial(t, p)
	say(t, young, "b")
	_, err = hears(young, soon)
	require.NoError(t, err)
	require.NoError(t, p.Thaw())
	say(t, old, "c")
	_, err = hears(old, quiet)
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
}

func TestRefusalEndsWithTheThaw(t *testing.T) {
	t.Parallel()
	p := start(t)
	old := dial(t, p)
	say(t, old, "a")
	_, err := hears(old, soon)
	require.NoError(t, err)
	p.Refuse()
	_, err = (&net.Dialer{}).DialContext(t.Context(), "tcp", p.Addr())
	require.Error(t, err)
	_, err = hears(old, soon)
	require.Error(t, err)
	require.NoError(t, p.Thaw())
	young := dial(t, p)
	say(t, young, "b")
	_, err = hears(young, soon)
	require.NoError(t, err)
}
