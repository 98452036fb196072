package store

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"k8s.io/utils/clock"

	"github.com/agentcube/agentcube/pkg/session"
	"github.com/agentcube/agentcube/pkg/session/sessiontest"
)

// databases of the shared server: every test takes one of its own.
const databases = 4096

// shared is one real server for all tests that only need a database of it.
var shared struct {
	once   sync.Once
	server *realServer
	err    error
	next   atomic.Int64
}

func TestMain(m *testing.M) {
	m.Run() // the process ends with its code
	if shared.server != nil {
		shared.server.stop()
	}
}

// realServer is a redis-server process that listens on a socket file, so that
// it can collide with no other.
type realServer struct {
	addr string
	stop func()
}

func startReal(args ...string) (*realServer, error) {
	dir, err := os.MkdirTemp("", "store")
	if err != nil {
		return nil, err
	}
	addr := filepath.Join(dir, "s")
	// The shell ends the server when its own standard input closes, so that it
	// does not outlive a test process that was killed.
	args = append([]string{
		"-c", `redis-server "$@" >/dev/null 2>&1 & cat >/dev/null; kill -9 $!`, "sh",
		"--port", "0", "--unixsocket", addr, "--dir", dir, "--save", "", "--appendonly", "no",
		"--databases", fmt.Sprint(databases), "--maxmemory-policy", "noeviction",
	}, args...)
	cmd := exec.Command("sh", args...) //nolint:noctx // it lives until it is stopped
	input, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return &realServer{addr: addr, stop: sync.OnceFunc(func() {
		_ = input.Close()
		_ = cmd.Wait() // killed: always an error
		_ = os.RemoveAll(dir)
	})}, nil
}

func needReal(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("redis-server"); err != nil {
		t.Skip("NOT RUN: there is no redis-server in PATH, so nothing of this was tested on a real server")
	}
}

// ownReal is a real server that the test may spoil.
func ownReal(t *testing.T, args ...string) *realServer {
	t.Helper()
	needReal(t)
	server, err := startReal(args...)
	require.NoError(t, err)
	t.Cleanup(server.stop)
	return server
}

// realConfig is that of an empty database on a real server.
func realConfig(t *testing.T) Config {
	t.Helper()
	needReal(t)
	shared.once.Do(func() { shared.server, shared.err = startReal() })
	require.NoError(t, shared.err)
	db := int(shared.next.Add(1))
	require.Less(t, db, databases)
	return Config{Addrs: []string{shared.server.addr}, DB: db}
}

// open is Open with a deadline that only matters to tests that set one: what a
// busy machine takes its time for is no failure.
func open(t *testing.T, c Config) *Redis {
	t.Helper()
	if c.Options.CallTimeout == 0 {
		c.Options.CallTimeout = time.Minute
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	r, err := Open(ctx, clock.RealClock{}, c)
	require.NoError(t, err)
	t.Cleanup(func() { _ = r.Close() })
	return r
}

func openMini(t *testing.T) (*Redis, *miniredis.Miniredis) {
	t.Helper()
	server := miniredis.RunT(t)
	return open(t, Config{Addrs: []string{server.Addr()}}), server
}

// subject gives the contract its view past the methods.
func subject(r *Redis) sessiontest.Subject {
	return sessiontest.Subject{
		Store: r,
		Put: func(t *testing.T, s session.Session) {
			t.Helper()
			put(t, r, s)
		},
		Indexes: func(t *testing.T) sessiontest.Indexes {
			t.Helper()
			return sessiontest.Indexes{
				Expiry: index(t, r, "session:expiry"), Activity: index(t, r, "session:last_activity"),
				Due: index(t, r, "agentcube:due"), Creating: index(t, r, "agentcube:creating"),
				Lists: lists(t, r),
			}
		},
		Rows: func(t *testing.T) map[string]session.Session {
			t.Helper()
			return rows(t, r)
		},
	}
}

func put(t *testing.T, r *Redis, s session.Session) {
	t.Helper()
	s, err := s.Canonical()
	require.NoError(t, err)
	row, err := encode(s)
	require.NoError(t, err)
	require.NoError(t, r.client.Set(t.Context(), "session:"+s.ID, row, 0).Err())
}

func index(t *testing.T, r *Redis, key string) map[string]time.Time {
	t.Helper()
	members, err := r.client.ZRangeWithScores(t.Context(), key, 0, -1).Result()
	require.NoError(t, err)
	entries := make(map[string]time.Time, len(members))
	for _, m := range members {
		entries[m.Member.(string)] = time.Unix(int64(m.Score), 0).UTC()
	}
	return entries
}

// lists reads all lists, by their keys and members as they are documented.
func lists(t *testing.T, r *Redis) sessiontest.Lists {
	t.Helper()
	found := sessiontest.Lists{}
	names, err := r.client.Keys(t.Context(), "agentcube:list*").Result()
	require.NoError(t, err)
	for _, name := range names {
		var list session.List
		if rest := strings.TrimPrefix(name, "agentcube:list"); rest != "" {
			parts := strings.SplitN(rest, ":", 3)
			require.Len(t, parts, 3, name)
			list = session.List{Field: parts[1], Value: parts[2]}
		}
		members, err := r.client.ZRangeWithScores(t.Context(), name, 0, -1).Result()
		require.NoError(t, err)
		for _, m := range members {
			require.Zero(t, m.Score)
			at, ok := position(m.Member)
			require.True(t, ok, m.Member)
			found.Put(list, at)
		}
	}
	return found
}

func rows(t *testing.T, r *Redis) map[string]session.Session {
	t.Helper()
	found := map[string]session.Session{}
	keys, err := r.client.Keys(t.Context(), "session:*").Result()
	require.NoError(t, err)
	for _, key := range keys {
		id := strings.TrimPrefix(key, "session:")
		if !session.ValidID(id) {
			continue
		}
		row, err := r.client.Get(t.Context(), key).Bytes()
		require.NoError(t, err)
		found[id], err = decode(id, row)
		require.NoError(t, err)
	}
	return found
}

// loadScripts makes a server know every script, so that an answer that is lost
// is that of the script, not that it is missing.
func loadScripts(t *testing.T, r *Redis) {
	t.Helper()
	for _, s := range []*redis.Script{
		createScript, readScript, updateScript, removeScript, healScript, activityScript, dueScript, listScript, keepScript,
	} {
		require.NoError(t, s.Load(t.Context(), r.client).Err())
	}
}

func TestRedisKeepsTheContract(t *testing.T) {
	t.Parallel()
	t.Run("embedded server", func(t *testing.T) {
		t.Parallel()
		sessiontest.Run(t, func(t *testing.T) sessiontest.Subject {
			r, _ := openMini(t)
			return subject(r)
		})
	})
	t.Run("real server", func(t *testing.T) {
		t.Parallel()
		needReal(t)
		sessiontest.Run(t, func(t *testing.T) sessiontest.Subject {
			return subject(open(t, realConfig(t)))
		})
	})
}
