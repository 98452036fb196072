package store

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/utils/clock"

	"github.com/agentcube/agentcube/pkg/session"
	"github.com/agentcube/agentcube/pkg/session/sessiontest"
)

// told is one call of a follower.
type told struct {
	what   string // connected, changed, lost or unfollowed
	tells  bool
	ids    []string
	silent bool
	err    error
}

// follower hands over what it is told. Answers are counted apart.
type follower struct {
	t      *testing.T
	events chan told
	// answers holds the latest.
	answers chan time.Time
	// stopped is what Follow returned.
	stopped chan error
	cancel  context.CancelFunc
}

func (f *follower) Connected(_ time.Time, tells bool) {
	f.events <- told{what: "connected", tells: tells}
}
func (f *follower) Changed(ids []string) { f.events <- told{what: "changed", ids: ids} }
func (f *follower) Lost(silent bool, err error) {
	f.events <- told{what: "lost", silent: silent, err: err}
}

func (f *follower) Unfollowed() { f.events <- told{what: "unfollowed"} }

func (f *follower) Answered(asked time.Time) {
	select {
	case f.answers <- asked:
	default:
	}
}

// follow follows the store until the test ends.
func follow(t *testing.T, r *Redis) *follower {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	f := &follower{
		t: t, events: make(chan told, 10_000), answers: make(chan time.Time, 1),
		stopped: make(chan error, 1), cancel: cancel,
	}
	done := make(chan struct{})
	go func() {
		f.stopped <- r.Follow(ctx, f)
		close(done)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	return f
}

// next is what the follower is told next.
func (f *follower) next() told {
	f.t.Helper()
	select {
	case e := <-f.events:
		return e
	case <-clock.RealClock{}.After(20 * time.Second): // only when something is broken
		require.Fail(f.t, "the follower is told nothing")
		return told{}
	}
}

// until is the next event of that kind; others in between are dropped.
func (f *follower) until(what string) told {
	f.t.Helper()
	for {
		if e := f.next(); e.what == what {
			return e
		}
	}
}

func TestAFollowerIsToldOfEveryWriteToARow(t *testing.T) {
	t.Parallel()
	server := ownReal(t) // tracking tells of all databases
	r := open(t, Config{Addrs: []string{server.addr}})
	f := follow(t, r)
	assert.Equal(t, told{what: "connected", tells: true}, f.next())

	row, err := r.Create(t.Context(), sessiontest.Reserved(1, time.Now()))
	require.NoError(t, err)
	assert.Equal(t, told{what: "changed", ids: []string{row.ID}}, f.next())
	_, err = r.Update(t.Context(), row.ID, session.Commit(row.Creator.Token, sessiontest.Ready(row, "10.0.0.7")))
	require.NoError(t, err)
	assert.Equal(t, told{what: "changed", ids: []string{row.ID}}, f.next())

	require.NoError(t, r.Touch(t.Context(), map[string]time.Time{row.ID: time.Now()}))
	require.NoError(t, r.Beat(t.Context(), "p"))
	require.NoError(t, r.Remove(t.Context(), row.ID, func(session.Session) error { return nil }))
	assert.Equal(t, told{what: "changed", ids: []string{row.ID}}, f.next(), "of the indexes it is told nothing")

	// A program that knows nothing of us writes too.
	other := sessiontest.ID(2)
	require.NoError(t, r.client.Set(t.Context(), "session:"+other, "{}", 0).Err())
	assert.Equal(t, told{what: "changed", ids: []string{other}}, f.next())
}

func TestAnAnswerProvesThatWhatHappenedBeforeWasTold(t *testing.T) {
	t.Parallel()
	r := open(t, Config{Addrs: []string{ownReal(t).addr}})
	f := follow(t, r)
	f.until("connected")
	for i := range 20 {
		require.NoError(t, r.client.Set(t.Context(), "session:"+sessiontest.ID(i), "{}", 0).Err())
		written := time.Now()
		for asked := range f.answers {
			if asked.After(written) {
				break
			}
		}
		require.NotEmpty(t, f.events)
		assert.Equal(t, told{what: "changed", ids: []string{sessiontest.ID(i)}}, f.next())
	}
}

func TestAServerThatCannotTrackOnlyAnswers(t *testing.T) {
	t.Parallel()
	r, _ := openMini(t)
	f := follow(t, r)
	assert.Equal(t, told{what: "connected"}, f.next())
	<-f.answers
	put(t, r, sessiontest.Reserved(1, time.Now()))
	<-f.answers
	assert.Empty(t, f.events)
}

func TestAUserWhoMayNot(t *testing.T) {
	t.Parallel()
	server := ownReal(t)
	admin := open(t, Config{Addrs: []string{server.addr}})
	for user, rule := range map[string]string{"untold": "-client|tracking", "mute": "resetchannels"} {
		require.NoError(t, admin.client.Do(t.Context(),
			"ACL", "SETUSER", user, "on", ">secret", "~*", "&*", "+@all", rule).Err())
	}
	t.Run("track is only answered", func(t *testing.T) {
		t.Parallel()
		f := follow(t, open(t, Config{Addrs: []string{server.addr}, Username: "untold", Password: "secret"}))
		assert.Equal(t, told{what: "connected"}, f.next())
		<-f.answers
	})
	t.Run("listen cannot follow", func(t *testing.T) {
		t.Parallel()
		f := follow(t, open(t, Config{Addrs: []string{server.addr}, Username: "mute", Password: "secret"}))
		require.ErrorIs(t, <-f.stopped, ErrNotFollowed)
		f.stopped <- nil
	})
}

func TestAUserWhoMayNotAnyMore(t *testing.T) {
	t.Parallel()
	server := ownReal(t)
	admin := open(t, Config{Addrs: []string{server.addr}})
	user := func(rules ...any) {
		require.NoError(t, admin.client.Do(t.Context(), append([]any{"ACL", "SETUSER", "u"}, rules...)...).Err())
	}
	user("on", ">secret", "~*", "&*", "+@all")
	f := follow(t, open(t, Config{Addrs: []string{server.addr}, Username: "u", Password: "secret"}))
	assert.Equal(t, told{what: "connected", tells: true}, f.next())
	user("resetchannels") // the server hangs up on those who listen
	assert.Equal(t, "lost", f.next().what)
	assert.Equal(t, told{what: "unfollowed"}, f.next(), "or else it would stay lost")
	require.ErrorIs(t, <-f.stopped, ErrNotFollowed)
	f.stopped <- nil
}

func TestAClusterIsNotFollowed(t *testing.T) {
	t.Parallel()
	r := New(clock.RealClock{}, redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"127.0.0.1:1"}}), Options{})
	t.Cleanup(func() { _ = r.Close() })
	require.ErrorIs(t, r.Follow(t.Context(), nil), ErrNotFollowed)
}

func TestALostConnectionIsMadeAnew(t *testing.T) {
	t.Parallel()
	for sentence, lose := range map[string]func(*testing.T, *Redis){
		"the server hangs up": func(t *testing.T, r *Redis) {
			require.NoError(t, r.client.Do(t.Context(), "CLIENT", "KILL", "TYPE", "pubsub").Err())
		},
		"everything is flushed": func(t *testing.T, r *Redis) { require.NoError(t, r.client.FlushAll(t.Context()).Err()) },
	} {
		t.Run(sentence, func(t *testing.T) {
			t.Parallel()
			r := open(t, Config{Addrs: []string{ownReal(t).addr}})
			f := follow(t, r)
			f.until("connected")
			lose(t, r)
			lost := f.next()
			assert.Equal(t, "lost", lost.what)
			assert.False(t, lost.silent)
			require.ErrorIs(t, lost.err, ErrUnavailable)
			assert.Equal(t, told{what: "connected", tells: true}, f.next())
			require.NoError(t, r.client.Set(t.Context(), "session:"+sessiontest.ID(1), "{}", 0).Err())
			assert.Equal(t, told{what: "changed", ids: []string{sessiontest.ID(1)}}, f.next())
		})
	}
}

func TestAServerThatIsKilledIsLostAtOnce(t *testing.T) {
	t.Parallel()
	server := ownReal(t)
	f := follow(t, open(t, Config{Addrs: []string{server.addr}, Options: Options{Silence: time.Minute}}))
	f.until("connected")
	server.stop()
	for range 3 { // and it stays lost
		lost := f.next()
		assert.Equal(t, "lost", lost.what)
		assert.False(t, lost.silent)
	}
}

// processID of the server.
func processID(t *testing.T, r *Redis) int {
	t.Helper()
	info, err := r.client.Info(t.Context(), "server").Result()
	require.NoError(t, err)
	pid, err := strconv.Atoi(regexp.MustCompile(`process_id:(\d+)`).FindStringSubmatch(info)[1])
	require.NoError(t, err)
	return pid
}

func TestAServerThatHangsIsLostWhenItWasSilentForTooLong(t *testing.T) {
	t.Parallel()
	const silence = 500 * time.Millisecond
	r := open(t, Config{Addrs: []string{ownReal(t).addr}, Options: Options{Silence: silence}})
	pid := processID(t, r)
	f := follow(t, r)
	f.until("connected")
	<-f.answers
	require.NoError(t, syscall.Kill(pid, syscall.SIGSTOP))
	t.Cleanup(func() { _ = syscall.Kill(pid, syscall.SIGCONT) })
	stopped := time.Now()
	lost := f.until("lost")
	took := time.Since(stopped)
	assert.True(t, lost.silent)
	assert.Greater(t, took, silence-askInterval)
	lost = f.next()
	assert.Equal(t, "lost", lost.what, "an attempt fails as well")
	assert.True(t, lost.silent)

	require.NoError(t, syscall.Kill(pid, syscall.SIGCONT))
	assert.True(t, f.until("connected").tells)
}

func TestManyChangesAtOnceAreAllTold(t *testing.T) {
	t.Parallel()
	r := open(t, Config{Addrs: []string{ownReal(t).addr}})
	f := follow(t, r)
	f.until("connected")
	const many = 5000
	_, err := r.client.Pipelined(t.Context(), func(p redis.Pipeliner) error {
		for i := range many {
			p.Set(t.Context(), "session:"+sessiontest.ID(i), fmt.Sprint(i), 0)
		}
		return nil
	})
	require.NoError(t, err)
	seen := map[string]bool{}
	for len(seen) < many {
		for _, id := range f.until("changed").ids {
			seen[id] = true
		}
	}
}

func TestWhatIsNoRowIsNotTold(t *testing.T) {
	t.Parallel()
	assert.Equal(t, []string{sessiontest.ID(1)}, newKeys().ids([]string{
		"session:expiry", "session:e", "session:", "", "agentcube:due", sessiontest.ID(1),
		"session:" + sessiontest.ID(1), "xsession:" + sessiontest.ID(1),
	}))
}

// The client stops dialling for a while when dials have failed again and again.
func TestAStoreThatIsConnectedCanBeRead(t *testing.T) {
	t.Parallel()
	first := ownReal(t)
	r := open(t, Config{Addrs: []string{first.addr}})
	f := follow(t, r)
	f.until("connected")
	first.stop()
	f.until("lost")
	for range 200 {
		_, err := r.Get(t.Context(), sessiontest.ID(1))
		require.ErrorIs(t, err, ErrUnavailable)
	}
	require.NoError(t, os.MkdirAll(filepath.Dir(first.addr), 0o700))
	t.Cleanup(func() { _ = os.RemoveAll(filepath.Dir(first.addr)) })
	ownReal(t, "--unixsocket", first.addr)
	f.until("connected")
	_, err := r.Get(t.Context(), sessiontest.ID(1))
	require.ErrorIs(t, err, session.ErrNotFound)
}

func TestAServerThatReadsItsDataIsNotConnectedYet(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first := ownReal(t, "--dir", dir)
	r := open(t, Config{Addrs: []string{first.addr}})
	f := follow(t, r)
	f.until("connected")
	const many = 3000 // a millisecond each
	_, err := r.client.Pipelined(t.Context(), func(p redis.Pipeliner) error {
		for i := range many {
			p.Set(t.Context(), "session:"+sessiontest.ID(i), fmt.Sprint(i), 0)
		}
		return nil
	})
	require.NoError(t, err)
	require.NoError(t, r.client.Save(t.Context()).Err())
	first.stop()
	f.until("lost")

	require.NoError(t, os.MkdirAll(filepath.Dir(first.addr), 0o700))
	t.Cleanup(func() { _ = os.RemoveAll(filepath.Dir(first.addr)) })
	ownReal(t, "--unixsocket", first.addr, "--dir", dir,
		"--key-load-delay", "1000", "--loading-process-events-interval-bytes", "1024")
	other := redis.NewClient(&redis.Options{Network: "unix", Addr: first.addr, MaxRetries: -1})
	t.Cleanup(func() { _ = other.Close() })
	require.Eventually(t, func() bool {
		err := other.Ping(t.Context()).Err()
		return err != nil && hasCode(err, "LOADING")
	}, 20*time.Second, time.Millisecond)
	f.until("connected")
	row, err := r.client.Get(t.Context(), "session:"+sessiontest.ID(many-1)).Result()
	require.NoError(t, err)
	assert.Equal(t, fmt.Sprint(many-1), row)
}
