package store

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/agentcube/agentcube/pkg/session"
	"github.com/agentcube/agentcube/pkg/session/sessiontest"
)

// calls are all methods that reach the server.
var calls = map[string]func(context.Context, *Redis) error{
	"Create": func(ctx context.Context, r *Redis) error {
		_, err := r.Create(ctx, sessiontest.Reserved(2, lostTime))
		return err
	},
	"Get": func(ctx context.Context, r *Redis) error { _, err := r.Get(ctx, sessiontest.ID(1)); return err },
	"Update": func(ctx context.Context, r *Redis) error {
		_, err := r.Update(ctx, sessiontest.ID(1), func(s *session.Session) error { s.Attempts++; return nil })
		return err
	},
	"End": func(ctx context.Context, r *Redis) error {
		_, err := r.End(ctx, sessiontest.ID(1), lostTime, session.Delete(session.ReasonIdle, time.Time{}))
		return err
	},
	"Remove": func(ctx context.Context, r *Redis) error {
		return r.Remove(ctx, sessiontest.ID(1), func(session.Session) error { return nil })
	},
	"Touch": func(ctx context.Context, r *Redis) error {
		return r.Touch(ctx, map[string]time.Time{sessiontest.ID(1): lostTime})
	},
	"LastActivity": func(ctx context.Context, r *Redis) error {
		_, err := r.LastActivity(ctx, sessiontest.ID(1))
		return err
	},
	"Due": func(ctx context.Context, r *Redis) error { _, err := r.Due(ctx, 1); return err },
	"Claim": func(ctx context.Context, r *Redis) error {
		claimed, err := r.Claim(ctx, sessiontest.ID(1), lostTime)
		if err != nil && claimed {
			return errors.New("claimed without an answer")
		}
		return err
	},
	"Postpone": func(ctx context.Context, r *Redis) error { return r.Postpone(ctx, sessiontest.ID(1), lostTime) },
	"Creating": func(ctx context.Context, r *Redis) error { _, err := r.Creating(ctx, Placeholder{}, 1); return err },
	"Index":    func(ctx context.Context, r *Redis) error { _, err := r.Index(ctx); return err },
	"Beat":     func(ctx context.Context, r *Redis) error { return r.Beat(ctx, "p") },
	"Alive": func(ctx context.Context, r *Redis) error {
		alive, err := r.Alive(ctx, "p")
		if err != nil && alive != nil {
			return errors.New("an answer that is missing looks like a death")
		}
		return err
	},
	"Installation": func(ctx context.Context, r *Redis) error {
		id, err := r.Installation(ctx)
		if err != nil && id != "" {
			return errors.New("an id without an answer")
		}
		return err
	},
	"SetInstallation": func(ctx context.Context, r *Redis) error { return r.SetInstallation(ctx, sessiontest.ID(9)) },
	"Scan": func(ctx context.Context, r *Redis) error {
		rows, next, err := r.Scan(ctx, 0)
		if err != nil && (rows != nil || next != 0) {
			return errors.New("rows without an answer")
		}
		return err
	},
	"Now":  func(ctx context.Context, r *Redis) error { _, err := r.Now(ctx); return err },
	"Ping": func(ctx context.Context, r *Redis) error { return r.Ping(ctx) },
}

// toNowhere is a store whose server is the given one, without waiting for it.
func toNowhere(t *testing.T, addr string, timeout time.Duration) *Redis {
	t.Helper()
	c := Config{Addrs: []string{addr}, Options: Options{CallTimeout: timeout}}
	r := New(clock.RealClock{}, Client(c), c.Options)
	t.Cleanup(func() { _ = r.Close() })
	return r
}

// silent is a server that accepts connections and never answers.
func silent(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	return listener.Addr().String() // the kernel accepts; nobody reads
}

func TestAServerThatIsAwayIsUnavailable(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	addr := listener.Addr().String()
	require.NoError(t, listener.Close())
	for method, call := range calls {
		t.Run(method, func(t *testing.T) {
			t.Parallel()
			r := toNowhere(t, addr, time.Minute)
			begin := time.Now()
			err := call(t.Context(), r)
			require.ErrorIs(t, err, ErrUnavailable)
			require.NotErrorIs(t, err, ErrNotFound)
			assert.Less(t, time.Since(begin), 10*time.Second, "a refusal is known long before the deadline")
		})
	}
}

func TestAServerThatHangsIsUnavailableWithinTheDeadline(t *testing.T) {
	t.Parallel()
	addr := silent(t)
	for method, call := range calls {
		t.Run(method, func(t *testing.T) {
			t.Parallel()
			const timeout = 500 * time.Millisecond
			r := toNowhere(t, addr, timeout)
			begin := time.Now()
			err := call(t.Context(), r)
			took := time.Since(begin)
			require.ErrorIs(t, err, ErrUnavailable)
			assert.GreaterOrEqual(t, took, timeout*9/10)
			assert.Less(t, took, 2*timeout, "one deadline for all tries together")
		})
	}
}

func TestTheCallersDeadlineCountsToo(t *testing.T) {
	t.Parallel()
	r := toNowhere(t, silent(t), time.Hour)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	err := r.Ping(ctx)
	require.ErrorIs(t, err, ErrUnavailable)
	require.ErrorIs(t, err, context.DeadlineExceeded)
}

func TestACallerThatCancelsLearnsNothingAboutTheStore(t *testing.T) {
	t.Parallel()
	addr := silent(t)
	for method, call := range calls {
		t.Run(method, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancel(t.Context())
			answer := make(chan error, 1)
			go func() { answer <- call(ctx, toNowhere(t, addr, time.Minute)) }()
			cancel()
			err := <-answer
			require.ErrorIs(t, err, context.Canceled)
			require.NotErrorIs(t, err, ErrUnavailable)
			assert.NotErrorIs(t, err, ErrNotFound)
		})
	}
}

func TestAServerThatRefusesIsUnavailable(t *testing.T) {
	t.Parallel()
	answers := map[string]bool{
		"BUSY Redis is busy running a script": true, "CLUSTERDOWN The cluster is down": true,
		"LOADING Redis is loading the dataset in memory": true, "MASTERDOWN Link with MASTER is down": true,
		"MISCONF Redis is configured to save": true, "NOAUTH Authentication required.": true,
		"NOPERM this user has no permissions": true, "NOREPLICAS Not enough good replicas": true,
		"OOM command not allowed when used memory > 'maxmemory'.": true, "READONLY You can't write": true,
		"TRYAGAIN Multiple keys request": true, "WRONGPASS invalid username-password pair": true,
		"ERR max number of clients reached": true,
		"ERR Error running script (call to f_1): @user_script:3: @user_script: 3: -OOM command not allowed": true,

		"ERR unknown command":                   false,
		"ERR the word OOM in the midst of text": false,
		"OOMPH is another code":                 false,
	}
	for answer, unavailable := range answers {
		t.Run(answer, func(t *testing.T) {
			t.Parallel()
			r, server := openMini(t)
			server.SetError(answer)
			for method, call := range calls {
				err := call(t.Context(), r)
				require.Error(t, err, method)
				assert.Equal(t, unavailable, errors.Is(err, ErrUnavailable), "%s: %v", method, err)
				assert.NotErrorIs(t, err, ErrNotFound, method)
			}
		})
	}
}

func TestAFullMemoryRefusesWholeAndLetsRemove(t *testing.T) {
	t.Parallel()
	server := ownReal(t)
	r := open(t, Config{Addrs: []string{server.addr}})
	row, err := r.Create(t.Context(), sessiontest.Reserved(1, time.Now()))
	require.NoError(t, err)
	before := subject(r).Indexes(t)
	require.NoError(t, r.client.ConfigSet(t.Context(), "maxmemory", "1").Err())

	_, err = r.Create(t.Context(), sessiontest.Reserved(2, time.Now()))
	require.ErrorIs(t, err, ErrUnavailable)
	_, err = r.Update(t.Context(), row.ID, session.Delete(session.ReasonDeleted, time.Time{}))
	require.ErrorIs(t, err, ErrUnavailable)
	assert.Equal(t, map[string]session.Session{row.ID: row}, rows(t, r))
	assert.Equal(t, before, subject(r).Indexes(t))

	require.NoError(t, r.Remove(t.Context(), row.ID, func(session.Session) error { return nil }))
	assert.Empty(t, rows(t, r))
	sessiontest.CheckIndexes(t, nil, subject(r).Indexes(t), time.Now(), 0)
	ending, err := r.Ended(t.Context(), row.ID)
	require.NoError(t, err, "what is kept is less than what went")
	assert.Equal(t, session.ReasonDeletedInCluster, ending.Reason)
}

func TestAReplicaIsUnavailableForWrites(t *testing.T) {
	t.Parallel()
	server := ownReal(t)
	r := open(t, Config{Addrs: []string{server.addr}})
	row, err := r.Create(t.Context(), sessiontest.Reserved(1, time.Now()))
	require.NoError(t, err)
	require.NoError(t, r.client.SlaveOf(t.Context(), "127.0.0.1", "1").Err())
	_, err = r.Update(t.Context(), row.ID, session.Delete(session.ReasonDeleted, time.Time{}))
	require.ErrorIs(t, err, ErrUnavailable)
	_, err = r.Create(t.Context(), sessiontest.Reserved(2, time.Now()))
	require.ErrorIs(t, err, ErrUnavailable)
	_, err = r.Get(t.Context(), row.ID)
	require.NoError(t, err)
}

func TestAPasswordIsNeededWhereOneIsSet(t *testing.T) {
	t.Parallel()
	server := ownReal(t, "--requirepass", "secret")
	r := open(t, Config{Addrs: []string{server.addr}, Password: "secret"})
	require.NoError(t, r.Ping(t.Context()))
	for _, password := range []string{"", "wrong"} {
		c := Config{Addrs: []string{server.addr}, Password: password}
		other := New(clock.RealClock{}, Client(c), c.Options)
		require.ErrorIs(t, other.Ping(t.Context()), ErrUnavailable)
		require.NoError(t, other.Close())
	}
}

func TestAClosedStoreIsUnavailable(t *testing.T) {
	t.Parallel()
	r, _ := openMini(t)
	require.NoError(t, r.Close())
	require.ErrorIs(t, r.Ping(t.Context()), ErrUnavailable)
}

func TestWaitEndsWhenTheServerAnswers(t *testing.T) {
	t.Parallel()
	server := miniredis.NewMiniRedis()
	require.NoError(t, server.Start())
	t.Cleanup(server.Close)
	server.SetError("LOADING the data set")
	clk := clocktesting.NewFakeClock(lostTime)
	r := New(clk, Client(Config{Addrs: []string{server.Addr()}}), Options{})
	t.Cleanup(func() { _ = r.Close() })
	answer := make(chan error, 1)
	go func() { answer <- r.Wait(t.Context()) }()
	require.Eventually(t, clk.HasWaiters, 10*time.Second, time.Millisecond, "it never paused")
	server.SetError("")
	clk.Step(waitPause)
	require.NoError(t, <-answer)
}

func TestOpenFailsWithTheLastFailureWhenItsContextEnds(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err := Open(ctx, clock.RealClock{}, Config{Addrs: []string{silent(t)}, Options: Options{CallTimeout: 50 * time.Millisecond}})
	require.ErrorIs(t, err, ErrUnavailable)
}

func TestOptionsHaveDefaults(t *testing.T) {
	t.Parallel()
	want := Options{CallTimeout: 3 * time.Second, CreateBound: 120 * time.Second, MaxSkew: 60 * time.Second, Page: 500, Silence: time.Second}
	assert.Equal(t, want, Options{}.withDefaults())
	assert.Equal(t, want, Options{CallTimeout: -1, CreateBound: -1, MaxSkew: -1, Page: -1, Silence: -1}.withDefaults())
	mine := Options{CallTimeout: 1, CreateBound: 1, MaxSkew: 1, Page: 1, Silence: 1}
	assert.Equal(t, mine, mine.withDefaults())
}
