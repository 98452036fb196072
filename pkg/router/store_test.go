package router

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"k8s.io/utils/clock"

	"github.com/agentcube/agentcube/pkg/api"
	"github.com/agentcube/agentcube/pkg/router/lookup"
	"github.com/agentcube/agentcube/pkg/session"
	"github.com/agentcube/agentcube/pkg/session/sessiontest"
	"github.com/agentcube/agentcube/pkg/store"
)

// redisServer is a redis-server on a socket file, of this test's own.
type redisServer struct {
	t    *testing.T
	addr string
	pid  int
}

func newRedisServer(t *testing.T) *redisServer {
	t.Helper()
	if _, err := exec.LookPath("redis-server"); err != nil {
		t.Skip("NOT RUN: there is no redis-server in PATH, so nothing of this was tested on a real server")
	}
	dir, err := os.MkdirTemp("", "router") //nolint:usetesting // t.TempDir is too long for a socket's name
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	s := &redisServer{t: t, addr: filepath.Join(dir, "s")}
	s.start()
	return s
}

// start starts an empty server. The shell ends it when its own input closes,
// so that it does not outlive a test process that was killed.
func (s *redisServer) start() {
	s.t.Helper()
	cmd := exec.Command("sh", "-c", //nolint:noctx // it lives until it is stopped
		`redis-server --port 0 --unixsocket "$1" --save "" --appendonly no >/dev/null 2>&1 & echo $!; cat >/dev/null; kill -9 $!`,
		"sh", s.addr)
	input, err := cmd.StdinPipe()
	require.NoError(s.t, err)
	output, err := cmd.StdoutPipe()
	require.NoError(s.t, err)
	require.NoError(s.t, cmd.Start())
	s.t.Cleanup(func() {
		_ = input.Close()
		_ = cmd.Wait() // killed: always an error
	})
	line, err := bufio.NewReader(output).ReadString('\n')
	require.NoError(s.t, err)
	s.pid, err = strconv.Atoi(strings.TrimSpace(line))
	require.NoError(s.t, err)
}

func (s *redisServer) signal(signal syscall.Signal) {
	s.t.Helper()
	require.NoError(s.t, syscall.Kill(s.pid, signal))
}

// open returns a store on the server, once it answers.
func (s *redisServer) open() *store.Redis {
	s.t.Helper()
	r, err := store.Open(s.t.Context(), clock.RealClock{}, store.Config{Addrs: []string{s.addr}})
	require.NoError(s.t, err)
	s.t.Cleanup(func() { _ = r.Close() })
	return r
}

// onRedis is a router on a real store, with everything that runs in a
// program. It is returned once it follows the store.
func onRedis(t *testing.T, server *redisServer, staleness time.Duration) (*rig, *lookup.Cache, *store.Redis) {
	t.Helper()
	own := server.open()
	var r *rig
	rows := lookup.New(clock.RealClock{}, own, lookup.Options{
		MaxStaleness: staleness, Changed: func(id string) { r.router.Leave(id) }, Forgotten: func() { r.router.LeaveAll() },
	}, zap.NewNop())
	r = newRig(t, func(d *Dependencies, _ *Options) { d.Store = rows })
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- own.Follow(ctx, rows) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-done)
	})
	probe := sessiontest.ID(99_999)
	writer := server.open()
	_, err := writer.Create(t.Context(), sessiontest.Reserved(99_999, time.Now()))
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		_, err := rows.Get(t.Context(), probe)
		return err == nil && rows.Len() > 0
	}, deadline, time.Millisecond, "the router does not follow the store")
	return r, rows, writer
}

// readyRow writes a ready session whose sandbox listens at the address.
func readyRow(t *testing.T, r *store.Redis, n int, endpoint string) string {
	t.Helper()
	reserved := sessiontest.Reserved(n, time.Now())
	host, port, ok := strings.Cut(endpoint, ":")
	require.True(t, ok)
	number, err := strconv.ParseInt(port, 10, 32)
	require.NoError(t, err)
	reserved.Ports[0].Port = int32(number)
	row, err := r.Create(t.Context(), reserved)
	require.NoError(t, err)
	_, err = r.Update(t.Context(), row.ID, session.Commit(row.Creator.Token, sessiontest.Ready(row, host)))
	require.NoError(t, err)
	return row.ID
}

// named is a sandbox that answers with its name.
func named(t *testing.T, name string) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, name) }))
	t.Cleanup(s.Close)
	return s.Listener.Addr().String()
}

func TestAPurgeIsToldToEveryRouter(t *testing.T) {
	t.Parallel()
	server := newRedisServer(t)
	one, _, writer := onRedis(t, server, time.Minute)
	two, _, _ := onRedis2(t, server)
	endpoint := named(t, "sandbox")
	for n := range 20 {
		id := readyRow(t, writer, n, endpoint)
		for _, r := range []*rig{one, two} {
			res, body := r.get(echoPath+"/x", id)
			require.Equal(t, http.StatusOK, res.StatusCode, body)
		}
		require.NoError(t, writer.Remove(t.Context(), id, func(session.Session) error { return nil }))
		for _, r := range []*rig{one, two} {
			require.Eventually(t, func() bool {
				res, _ := r.get(echoPath+"/x", id)
				return res.StatusCode == http.StatusNotFound
			}, deadline, time.Millisecond, "the rows are remembered until the store tells")
		}
	}
}

// onRedis2 is a further router on the server.
func onRedis2(t *testing.T, server *redisServer) (*rig, *lookup.Cache, *store.Redis) {
	t.Helper()
	writer := server.open()
	require.NoError(t, writer.Remove(t.Context(), sessiontest.ID(99_999), func(session.Session) error { return nil }))
	return onRedis(t, server, time.Minute)
}

func TestASessionThatMovedIsServedAtItsNewAddressAtOnce(t *testing.T) {
	t.Parallel()
	server := newRedisServer(t)
	r, _, writer := onRedis(t, server, time.Minute)
	first, second := named(t, "first"), named(t, "second")
	id := readyRow(t, writer, 1, first)
	_, body := r.get(echoPath+"/x", id)
	require.Equal(t, "first", body)
	for i := range 20 {
		endpoint, name := second, "second"
		if i%2 == 1 {
			endpoint, name = first, "first"
		}
		_, err := writer.Update(t.Context(), id, func(s *session.Session) error {
			s.EntryPoints[0].Endpoint = endpoint
			s.Generation++
			return nil
		})
		require.NoError(t, err)
		require.Eventually(t, func() bool {
			res, body := r.get(echoPath+"/x", id)
			return body == name && res.Header.Get(api.HeaderSessionGeneration) == strconv.Itoa(i+2)
		}, deadline, time.Millisecond, "the row is remembered until the store tells")
	}
}

func TestASessionThatDidNotExistAMomentAgoIsFound(t *testing.T) {
	t.Parallel()
	server := newRedisServer(t)
	r, _, writer := onRedis(t, server, time.Minute)
	endpoint := named(t, "sandbox")
	for n := range 50 {
		res, _ := r.get(echoPath+"/x", sessiontest.ID(n))
		require.Equal(t, http.StatusNotFound, res.StatusCode)
		id := readyRow(t, writer, n, endpoint)
		res, body := r.get(echoPath+"/x", id)
		require.Equal(t, http.StatusOK, res.StatusCode, body)
	}
}

// outage is a way for the store to go, and to come back.
type outage struct{ goes, returns func(*redisServer) }

var outages = map[string]outage{
	"is killed": {
		func(s *redisServer) { s.signal(syscall.SIGKILL) },
		func(s *redisServer) { s.start() },
	},
	"hangs": {
		func(s *redisServer) { s.signal(syscall.SIGSTOP) },
		func(s *redisServer) { s.signal(syscall.SIGCONT) },
	},
}

func TestWhileTheStoreIsAway(t *testing.T) {
	t.Parallel()
	for sentence, o := range outages {
		t.Run("because it "+sentence, func(t *testing.T) {
			t.Parallel()
			const staleness = 5 * time.Second
			server := newRedisServer(t)
			r, rows, writer := onRedis(t, server, staleness)
			endpoint := named(t, "sandbox")
			served, never := readyRow(t, writer, 1, endpoint), readyRow(t, writer, 2, endpoint)
			res, body := r.get(echoPath+"/x", served)
			require.Equal(t, http.StatusOK, res.StatusCode, body)

			o.goes(server)
			t.Cleanup(func() { _ = syscall.Kill(server.pid, syscall.SIGCONT) })
			gone := time.Now()
			require.Eventually(t, func() bool {
				asked := time.Now()
				res, body := r.get(echoPath+"/x", never)
				fails(t, res, body, http.StatusServiceUnavailable, api.CodeStoreUnavailable)
				return time.Since(asked) < 50*time.Millisecond
			}, deadline, time.Millisecond, "sessions that were not served are not refused at once")
			var last time.Time // that it was served
			require.Eventually(t, func() bool {
				asked := time.Now()
				res, body := r.get(echoPath+"/x", served)
				if res.StatusCode == http.StatusOK {
					last = asked
					require.Less(t, time.Since(asked), lookup.DefaultReadTimeout, "a request waits for the store")
					return false
				}
				fails(t, res, body, http.StatusServiceUnavailable, api.CodeStoreUnavailable)
				return true
			}, staleness+deadline, time.Millisecond)
			assert.Less(t, last.Sub(gone), staleness, "it is served beyond the bound")
			assert.Greater(t, time.Since(gone), staleness-time.Second, "it is served for a shorter time")

			o.returns(server)
			back := server.open()
			require.NoError(t, back.Wait(t.Context()))
			if err := back.Remove(t.Context(), served, func(session.Session) error { return nil }); err != nil {
				require.ErrorIs(t, err, session.ErrNotFound) // it came back empty
			}
			require.Eventually(t, func() bool {
				res, _ := r.get(echoPath+"/x", served)
				require.NotEqual(t, http.StatusOK, res.StatusCode, "something stale is served")
				return res.StatusCode == http.StatusNotFound
			}, deadline, time.Millisecond)
			assert.LessOrEqual(t, rows.Len(), 1)
		})
	}
}
