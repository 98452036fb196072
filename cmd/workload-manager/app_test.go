package main

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2/server"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/agentcube/agentcube/pkg/api"
	"github.com/agentcube/agentcube/pkg/store"
)

func TestTheListenerIsOpenBeforeAnythingRuns(t *testing.T) {
	t.Parallel()
	p := world(t)
	listens := make(chan error, 1)
	ctx := p.context()
	cfg := p.config()
	go func() {
		p.done <- Run(ctx, cfg, zap.NewNop(), func(a net.Addr) {
			conn, err := new(net.Dialer).DialContext(ctx, "tcp", a.String())
			if err == nil {
				err = conn.Close()
			}
			assert.Zero(t, p.redis.TotalConnectionCount(), "nobody talks to the store")
			p.api.set(func(s *apiServer) { assert.Zero(t, s.calls, "nor to the API server") })
			listens <- err
		})
	}()
	require.NoError(t, <-listens)
	p.end()
}

func TestATakenPortIsAnErrorAtOnce(t *testing.T) {
	t.Parallel()
	p := world(t)
	taken, err := new(net.ListenConfig).Listen(t.Context(), "tcp", ":0")
	require.NoError(t, err)
	defer func() { assert.NoError(t, taken.Close()) }()
	_, port, err := net.SplitHostPort(taken.Addr().String())
	require.NoError(t, err)
	err = Run(t.Context(), p.config("--port="+port), zap.NewNop(), nil)
	require.ErrorContains(t, err, "address already in use")
	assert.Zero(t, p.redis.TotalConnectionCount())
	p.api.set(func(s *apiServer) { assert.Zero(t, s.calls) })
}

func TestItStartsWhileTheStoreIsAway(t *testing.T) {
	t.Parallel()
	p := world(t)
	p.redis.SetError("LOADING")
	p.start()
	assert.Equal(t, http.StatusOK, p.get("/livez").status)
	ready := p.get("/readyz")
	assert.Equal(t, http.StatusServiceUnavailable, ready.status)
	assert.Equal(t, "starting", ready.body.Status)
	assert.Equal(t, "failing", ready.body.Details["store"])
	p.unavailable(p.create(), api.CodeStoreUnavailable)
	p.unavailable(p.call(http.MethodDelete, "/v1/agent-runtime/sessions/aea4cea2-6f42-4fbb-b464-82ddb3a1f64b", ""), api.CodeStoreUnavailable)

	p.redis.SetError("")
	p.waitServing()
	created := p.create()
	assert.Equal(t, http.StatusOK, created.status, created.body.Message)
	p.end()
}

func TestItSaysThatTheAPIServerIsAwayAndThatItIsBack(t *testing.T) {
	t.Parallel()
	p := world(t)
	p.start()
	p.waitServing()
	away := func(r *http.Request) {
		if r.URL.Path == "/readyz" {
			panic(http.ErrAbortHandler)
		}
	}
	p.api.set(func(s *apiServer) { s.before = away })
	ready := p.get("/readyz")
	assert.Equal(t, http.StatusOK, ready.status, "no replica could help")
	assert.Equal(t, map[string]string{"store": "ok", "cluster": "failing", "identity-key": "failing", "resync": "ok"}, ready.body.Details)
	p.api.set(func(s *apiServer) { s.before = nil })
	assert.Equal(t, "ok", p.get("/readyz").body.Details["cluster"])
	p.end()
}

func TestItServesWithoutAgentSandboxAndLaterWithIt(t *testing.T) {
	t.Parallel()
	p := world(t)
	p.api.set(func(s *apiServer) { s.served = false })
	p.start()
	require.Eventually(t, func() bool { return p.get("/readyz").status == http.StatusOK }, deadline, tick)
	require.Eventually(t, func() bool { return p.create().body.Message == "agent-sandbox is not served by the cluster" }, deadline, tick)
	p.unavailable(p.create(), api.CodeClusterUnavailable)
	assert.Equal(t, "failing", p.get("/readyz").body.Details["cluster"])

	p.api.set(func(s *apiServer) { s.served = true })
	p.waitServing()
	created := p.create()
	assert.Equal(t, http.StatusOK, created.status, created.body.Message)
	p.end()
}

func TestItStopsWhateverItWaitsFor(t *testing.T) {
	t.Parallel()
	for name, breakIt := range map[string]func(p *program, reached func()){
		"the store": func(p *program, reached func()) {
			p.redis.SetError("LOADING")
			reached()
		},
		"its first heartbeat": func(p *program, reached func()) {
			p.onBeat(func() bool { reached(); return false })
		},
		"agent-sandbox": func(p *program, reached func()) {
			p.api.served = false
			p.api.before = onPath(coreAPI, func(*http.Request) { reached() })
		},
		"an API server that hangs in discovery": func(p *program, reached func()) {
			p.api.before = onPath(coreAPI, hang(reached))
		},
		"an API server that hangs in the first list": func(p *program, reached func()) {
			p.api.before = onPath(coreAPI+"/sandboxes", hang(reached))
		},
		"a lease that hangs": func(p *program, reached func()) {
			p.api.before = onPath(leasePath, hang(reached))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := world(t)
			reached := make(chan struct{})
			breakIt(p, sync.OnceFunc(func() { close(reached) }))
			p.start("--cluster-timeout=200ms")
			<-reached
			p.end()
		})
	}
}

func onPath(path string, do func(*http.Request)) func(*http.Request) {
	return func(r *http.Request) {
		if r.URL.Path == path {
			do(r)
		}
	}
}

func hang(reached func()) func(*http.Request) {
	return func(r *http.Request) {
		reached()
		<-r.Context().Done()
	}
}

// onBeat is asked at each heartbeat whether the store takes it.
func (p *program) onBeat(takes func() bool) {
	p.redis.Server().SetPreHook(func(c *server.Peer, cmd string, args ...string) bool {
		if cmd != "SET" || len(args) == 0 || !strings.HasPrefix(args[0], "agentcube:process:") || takes() {
			return false
		}
		c.WriteError("ERR no")
		return true
	})
}

// A placeholder of a creator without a heartbeat would be undone.
func TestNothingIsCreatedBeforeTheFirstHeartbeat(t *testing.T) {
	t.Parallel()
	p := world(t)
	var takes atomic.Bool
	asked := make(chan struct{}, 100)
	p.onBeat(func() bool { asked <- struct{}{}; return takes.Load() })
	p.start()
	<-asked
	<-asked // it goes on trying
	assert.Equal(t, http.StatusOK, p.get("/readyz").status)
	p.unavailable(p.create(), api.CodeStoreUnavailable)
	takes.Store(true)
	p.waitServing()
	assert.Equal(t, store.HeartbeatTTL, p.redis.TTL(p.heartbeat()))
	assert.Equal(t, http.StatusOK, p.create().status)
	p.end()
}

func (p *program) heartbeat() string {
	p.t.Helper()
	for _, key := range p.redis.Keys() {
		if strings.HasPrefix(key, "agentcube:process:") {
			return key
		}
	}
	require.FailNow(p.t, "no heartbeat")
	return ""
}

func TestACreateInFlightIsFinishedAtTheEnd(t *testing.T) {
	t.Parallel()
	p := world(t)
	p.api.ready = false
	p.start("--drain-delay=300ms")
	p.waitServing()
	require.Eventually(t, func() bool { return p.api.leaseHolder() != "" }, deadline, tick)
	path, answered := p.creating()

	p.stop()
	require.Eventually(t, func() bool { return p.get("/readyz").body.Status == "draining" }, deadline, time.Millisecond,
		"readiness fails while requests are still taken")
	assert.Empty(t, p.done, "a request is in flight")
	p.api.makeReady(path)
	created := <-answered
	assert.Equal(t, http.StatusOK, created.status, created.body.Message)
	require.NoError(t, <-p.done)
	row, err := p.redis.Get("session:" + created.body.SessionID)
	require.NoError(t, err)
	assert.Contains(t, row, `"status":"ready"`)
	assert.Equal(t, []string{path}, p.api.sandboxes())
	assert.Empty(t, p.api.leaseHolder(), "the lease is given back")
	assert.Zero(t, p.get("/livez").status, "nobody listens any more")
}

func TestACreateInFlightIsUndoneAtTheEnd(t *testing.T) {
	t.Parallel()
	p := world(t)
	p.api.ready = false
	undoing, release := p.holdDeletes()
	p.start("--drain-timeout=50ms")
	p.waitServing()
	path, answered := p.creating()

	p.stop()
	<-undoing
	assert.Zero(t, (<-answered).status, "its client was cut off")
	assert.Empty(t, p.done, "the undo is waited for")
	assert.NotContains(t, p.api.happened(), "watch ended sandboxes")
	assert.Contains(t, p.row(), `"status":"deleting"`)
	assert.Equal(t, []string{path}, p.api.sandboxes())
	close(release)
	require.NoError(t, <-p.done)
	assert.Empty(t, p.api.sandboxes())
	assert.Empty(t, p.row(), "the store was there to the end")
	require.Eventually(t, func() bool { return len(p.api.happened()) > 2 }, deadline, tick, "both watches end")
	assert.Equal(t, "deleted", p.api.happened()[0], "before any watch ended")
}

// holdDeletes tells of the first delete and lets none be done until release is
// closed.
func (p *program) holdDeletes() (undoing, release chan struct{}) {
	undoing, release = make(chan struct{}), make(chan struct{})
	first := sync.OnceFunc(func() { close(undoing) })
	p.api.set(func(s *apiServer) {
		s.before = func(r *http.Request) {
			if r.Method == http.MethodDelete {
				_, _ = io.Copy(io.Discard, r.Body) // or its context would not end with the connection
				first()
				select {
				case <-release:
				case <-r.Context().Done():
					panic(http.ErrAbortHandler) // nobody waits for it, and it is not carried out
				}
			}
		}
	})
	return undoing, release
}

func TestAnUndoThatCouldNotBeFinishedGoesOn(t *testing.T) {
	t.Parallel()
	p := world(t)
	p.api.ready = false
	p.api.before = func(r *http.Request) {
		if r.Method == http.MethodDelete {
			panic(http.ErrAbortHandler) // the connection breaks
		}
	}
	p.start("--create-timeout=300ms", "--probe-timeout=300ms", "--undo-timeout=300ms", "--collect-interval=1h")
	p.waitServing()
	_, answered := p.creating()
	assert.Equal(t, http.StatusGatewayTimeout, (<-answered).status)
	assert.Len(t, p.api.sandboxes(), 1)
	p.api.set(func(s *apiServer) { s.before = nil })
	require.Eventually(t, func() bool { return len(p.api.sandboxes()) == 0 && p.row() == "" }, deadline, tick)
	p.end()
}

// row is the one session there is, or empty.
func (p *program) row() string {
	p.t.Helper()
	for _, key := range p.redis.Keys() {
		if id, ok := strings.CutPrefix(key, "session:"); ok && len(id) == 36 {
			row, err := p.redis.Get(key)
			require.NoError(p.t, err)
			return row
		}
	}
	return ""
}

// Without it another replica takes over what is being undone here.
func TestTheHeartbeatGoesOnUntilTheUndosAreDone(t *testing.T) {
	t.Parallel()
	p := world(t)
	p.api.ready = false
	undoing, release := p.holdDeletes()
	var beats atomic.Int64
	p.onBeat(func() bool { beats.Add(1); return true })
	clk := clocktesting.NewFakeClock(time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC))
	a := p.startOn(clk)
	p.waitServing()
	_, answered := p.creating()
	beatsGoOn := func(when string) {
		t.Helper()
		before := beats.Load()
		require.Eventually(t, func() bool { clk.Step(heartbeatPeriod); return beats.Load() > before }, deadline, tick, when)
	}
	beatsGoOn("while a create waits")
	p.stop()
	require.Eventually(t, func() bool { clk.Step(a.cfg.DrainTimeout); return len(answered) == 1 }, deadline, tick)
	<-undoing
	for range 3 {
		beatsGoOn("while it is undone")
	}
	assert.Empty(t, p.done)
	close(release)
	require.NoError(t, <-p.done)
	ended := beats.Load()
	clk.Step(time.Minute)
	assert.Equal(t, ended, beats.Load())
}

func TestAHeartbeatThatFailedIsNotLeftToItsTime(t *testing.T) {
	t.Parallel()
	p := world(t)
	clk := clocktesting.NewFakeClock(time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC))
	options := store.Options{}
	s := store.New(clk, store.Client(store.Config{Addrs: []string{p.redis.Addr()}, Options: options}), options)
	t.Cleanup(func() { assert.NoError(t, s.Close()) })
	a := &app{log: zap.NewNop(), clock: clk, store: s, process: "p"}
	var takes atomic.Bool
	asked := make(chan struct{}, 10)
	p.onBeat(func() bool { defer func() { asked <- struct{}{} }(); return takes.Load() })
	ctx := p.context()
	go func() { p.done <- a.heartbeat(ctx) }()
	step := func(d time.Duration) {
		t.Helper()
		require.Eventually(t, clk.HasWaiters, deadline, time.Millisecond)
		clk.Step(d - 1)
		assert.True(t, clk.HasWaiters(), "not before its time")
		clk.Step(1)
		<-asked
	}
	step(heartbeatPeriod)
	step(retryInterval)
	takes.Store(true)
	step(retryInterval)
	step(heartbeatPeriod)
	p.end()
}

func TestWhatFailsForGoodStopsTheProgram(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	g := &group{failed: stop}
	g.Go(func() error { return nil })
	require.NoError(t, g.Wait())
	require.NoError(t, ctx.Err(), "an end is no failure")
	broken := errors.New("broken")
	g.Go(func() error { return broken })
	<-ctx.Done()
	require.ErrorIs(t, g.Wait(), broken)
}

func TestNoTwoProcessesShareAnID(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for range 10 {
		id := processID()
		assert.False(t, seen[id], id)
		seen[id] = true
	}
}
