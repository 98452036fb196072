package lookup

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/agentcube/agentcube/pkg/session"
	"github.com/agentcube/agentcube/pkg/session/sessiontest"
)

// rig is a cache on a store in memory, whose connection the test plays.
type rig struct {
	*Cache
	t     *testing.T
	clock *clocktesting.FakeClock
	rows  *sessiontest.Fake
	store *sessiontest.Faulty
	logs  *observer.ObservedLogs
}

func newRig(t *testing.T, o Options) *rig {
	t.Helper()
	clk := clocktesting.NewFakeClock(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	rows := sessiontest.NewFake(clk)
	store := sessiontest.NewFaulty(rows)
	core, logs := observer.New(zap.DebugLevel)
	if o.MaxStaleness == 0 {
		o.MaxStaleness = 30 * time.Second
	}
	return &rig{New(clk, store, o, zap.New(core)), t, clk, rows, store, logs}
}

var object = session.ObjectRef{Kind: session.KindSandbox, Namespace: "default", Name: "echo-0w6nv4p1"}

// put writes a row whose generation tells it from others, and tells nobody.
func (r *rig) put(n int, generation int64) string {
	r.t.Helper()
	require.NoError(r.t, r.rows.Put(session.Session{
		ID: sessiontest.ID(n), Object: object, State: session.StateReady, Generation: generation, Revision: generation, CreatedAt: r.clock.Now(),
		EntryPoints: []session.EntryPoint{{Path: "/", Protocol: session.ProtocolHTTP, Endpoint: "10.0.0.7:80"}},
	}))
	return sessiontest.ID(n)
}

// generation that a look-up tells.
func (r *rig) generation(id string) int64 {
	r.t.Helper()
	row, err := r.Get(r.t.Context(), id)
	require.NoError(r.t, err)
	require.Equal(r.t, id, row.ID)
	return row.Generation
}

// connect plays a store that tells of changes.
func (r *rig) connect() { r.Connected(r.clock.Now(), true) }

// reads counts how often the store was asked.
func (r *rig) reads() int { return r.store.Calls("Get") }

func TestARowIsReadOnceUntilItChanges(t *testing.T) {
	t.Parallel()
	r := newRig(t, Options{})
	r.connect()
	id, other := r.put(1, 1), r.put(2, 1)
	for range 5 {
		assert.EqualValues(t, 1, r.generation(id))
		assert.EqualValues(t, 1, r.generation(other))
	}
	assert.Equal(t, 2, r.reads())

	r.put(1, 2)
	r.Changed([]string{id})
	assert.EqualValues(t, 2, r.generation(id))
	r.generation(other)
	assert.Equal(t, 3, r.reads(), "the other has not changed")
}

func TestAnAbsenceIsNotRemembered(t *testing.T) {
	t.Parallel()
	r := newRig(t, Options{})
	r.connect()
	_, err := r.Get(t.Context(), sessiontest.ID(1))
	require.ErrorIs(t, err, session.ErrNotFound)
	id := r.put(1, 1) // and nobody has been told yet
	assert.EqualValues(t, 1, r.generation(id))
}

func TestAFreshReadPassesTheMemory(t *testing.T) {
	t.Parallel()
	r := newRig(t, Options{})
	r.connect()
	id := r.put(1, 1)
	r.generation(id)
	r.put(1, 2)
	row, err := r.Fresh(t.Context(), id)
	require.NoError(t, err)
	assert.EqualValues(t, 2, row.Generation)
	assert.EqualValues(t, 2, r.generation(id), "and what it found is remembered")
	r.rows.Wipe()
	_, err = r.Fresh(t.Context(), id)
	require.ErrorIs(t, err, session.ErrNotFound)
	_, err = r.Get(t.Context(), id)
	require.ErrorIs(t, err, session.ErrNotFound, "also that it is gone")
}

func TestWhatWasReadBeforeAChangeIsNotKept(t *testing.T) {
	t.Parallel()
	for sentence, happens := range map[string]func(*rig, string){
		"a change":              func(r *rig, id string) { r.Changed([]string{id}) },
		"a new connection":      func(r *rig, _ string) { r.connect() },
		"a connection is lost":  func(r *rig, _ string) { r.Lost(false, errors.New("lost")) },
		"lost and found":        func(r *rig, _ string) { r.Lost(false, errors.New("lost")); r.connect() },
		"a change, then a read": func(r *rig, id string) { r.Changed([]string{id}); r.generation(id); r.Changed([]string{id}) },
	} {
		t.Run(sentence, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, Options{})
			r.connect()
			id := r.put(1, 1)
			r.store.After("Get", func() { // the store has answered, the answer is on its way
				r.put(1, 2)
				happens(r, id)
			})
			assert.EqualValues(t, 1, r.generation(id))
			r.connect()
			r.put(1, 3)
			assert.EqualValues(t, 3, r.generation(id))
			assert.Empty(t, r.Cache.reads, "no read is left behind")
		})
	}
}

func TestAChangeDuringOneOfTwoReadsSpoilsBoth(t *testing.T) {
	t.Parallel()
	r := newRig(t, Options{})
	r.connect()
	id := r.put(1, 1)
	read, goOn := make(chan struct{}), make(chan struct{})
	r.store.After("Get", func() { close(read); <-goOn })
	done := make(chan error, 1)
	go func() {
		_, err := r.Get(t.Context(), id)
		done <- err
	}()
	<-read
	r.store.After("Get", func() {
		r.put(1, 2)
		r.Changed([]string{id})
	})
	assert.EqualValues(t, 1, r.generation(id))
	close(goOn)
	require.NoError(t, <-done)
	assert.EqualValues(t, 2, r.generation(id))
	assert.Empty(t, r.Cache.reads)
}

func TestARowIsServedOnlyWhileItIsProvedThatNothingWasMissed(t *testing.T) {
	t.Parallel()
	r := newRig(t, Options{Proof: 2 * time.Second})
	r.connect()
	id := r.put(1, 1)
	r.generation(id)
	r.clock.Step(1999 * time.Millisecond)
	r.generation(id)
	assert.Equal(t, 1, r.reads())
	r.clock.Step(time.Millisecond) // as when this process was stopped for a while
	r.put(1, 2)
	assert.EqualValues(t, 2, r.generation(id))
	r.Answered(r.clock.Now())
	r.generation(id)
	assert.Equal(t, 2, r.reads())
	r.Answered(r.clock.Now().Add(-time.Hour)) // a late answer disproves nothing
	r.generation(id)
	assert.Equal(t, 2, r.reads())
}

func TestWithoutAConnectionNothingIsKept(t *testing.T) {
	t.Parallel()
	r := newRig(t, Options{})
	id := r.put(1, 1)
	r.generation(id)
	r.put(1, 2)
	assert.EqualValues(t, 2, r.generation(id))
	assert.Zero(t, r.Len())
}

func TestAStoreThatTellsNothingIsReadEachTime(t *testing.T) {
	t.Parallel()
	r := newRig(t, Options{})
	for range 3 {
		r.Connected(r.clock.Now(), false)
	}
	id := r.put(1, 1)
	r.generation(id)
	r.put(1, 2)
	assert.EqualValues(t, 2, r.generation(id))
	assert.Equal(t, 1, r.logs.Len(), "it is said once")

	r.store.FailNext("Get", fmt.Errorf("no answer: %w", session.ErrUnavailable))
	assert.EqualValues(t, 2, r.generation(id), "what was read last is good enough when there is nothing else")
}

func TestWhileTheStoreIsGoneWhatWasKnownIsServedForAWhile(t *testing.T) {
	t.Parallel()
	for sentence, silent := range map[string]bool{"it hangs": true, "it was killed": false} {
		for tells := range map[bool]bool{true: true, false: true} {
			t.Run(fmt.Sprint(sentence, ", telling: ", tells), func(t *testing.T) {
				t.Parallel()
				r := newRig(t, Options{MaxStaleness: 30 * time.Second})
				r.Connected(r.clock.Now(), tells)
				served, never, gone := r.put(1, 1), r.put(2, 1), r.put(3, 1)
				r.generation(served)
				r.generation(gone)
				r.Changed([]string{gone})
				asked := r.reads()
				r.Lost(silent, errors.New("lost"))
				r.Lost(silent, errors.New("no connection"))

				r.clock.Step(30*time.Second - 1)
				assert.EqualValues(t, 1, r.generation(served))
				for _, id := range []string{never, gone} {
					_, err := r.Get(t.Context(), id)
					require.ErrorIs(t, err, session.ErrUnavailable)
					require.NotErrorIs(t, err, session.ErrNotFound)
				}
				_, err := r.Fresh(t.Context(), served)
				require.ErrorIs(t, err, session.ErrUnavailable)
				assert.Equal(t, asked, r.reads(), "nobody waits for the store")

				r.clock.Step(1)
				_, err = r.Get(t.Context(), served)
				require.ErrorIs(t, err, session.ErrUnavailable)
				r.Lost(silent, errors.New("no connection"))
				assert.Zero(t, r.Len(), "what will not be served takes no memory")

				r.connect()
				r.put(1, 2)
				assert.EqualValues(t, 2, r.generation(served))
				assert.Equal(t, 1, r.logs.FilterLevelExact(zap.ErrorLevel).Len(), "an outage is one record")
				assert.Equal(t, 1, r.logs.FilterLevelExact(zap.InfoLevel).Len())
			})
		}
	}
}

func TestAfterAnOutageNothingOfBeforeIsServed(t *testing.T) {
	t.Parallel()
	r := newRig(t, Options{})
	r.connect()
	id := r.put(1, 1)
	r.generation(id)
	r.Lost(true, errors.New("lost"))
	r.rows.Wipe() // and nobody could tell
	r.connect()
	_, err := r.Get(t.Context(), id)
	require.ErrorIs(t, err, session.ErrNotFound)
}

func TestWhenChangesMayHaveBeenMissedSomebodyIsTold(t *testing.T) {
	t.Parallel()
	var r *rig
	told := 0
	r = newRig(t, Options{Forgotten: func() {
		told++
		assert.Zero(t, r.Len()) // and it may ask
	}})
	r.connect()
	r.generation(r.put(1, 1))
	assert.Equal(t, 1, told)
	r.Lost(true, errors.New("lost"))
	assert.Equal(t, 1, told, "the store cannot be asked")
	r.connect()
	assert.Equal(t, 2, told)
}

func TestAConnectionThatOnlyBrokeIsWaitedFor(t *testing.T) {
	t.Parallel()
	for sentence, c := range map[string]struct {
		then func(*rig)
		want error
	}{
		"and comes back":  {func(r *rig) { r.connect() }, nil},
		"and is refused":  {func(r *rig) { r.Unfollowed() }, nil},
		"and is not back": {func(r *rig) { r.Lost(false, errors.New("refused")) }, session.ErrUnavailable},
	} {
		t.Run(sentence, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, Options{})
			r.connect()
			known, id := r.put(1, 1), r.put(2, 1)
			r.generation(known)
			r.Lost(false, errors.New("lost"))
			assert.EqualValues(t, 1, r.generation(known), "what is known waits for nobody")
			done := make(chan error, 1)
			go func() {
				_, err := r.Get(t.Context(), id)
				done <- err
			}()
			c.then(r)
			require.ErrorIs(t, <-done, c.want)
		})
	}
}

func TestAStoreThatWillNotBeFollowedAnyMoreIsReadEachTime(t *testing.T) {
	t.Parallel()
	r := newRig(t, Options{})
	r.connect()
	id := r.put(1, 1)
	r.generation(id)
	r.Lost(false, errors.New("lost"))
	r.Lost(false, errors.New("lost"))
	r.Unfollowed()
	r.put(1, 2) // and nobody is told
	assert.EqualValues(t, 2, r.generation(id))
	r.put(1, 3)
	assert.EqualValues(t, 3, r.generation(id))
	assert.Zero(t, r.Len())
}

func TestACallerThatLeavesDoesNotWait(t *testing.T) {
	t.Parallel()
	r := newRig(t, Options{})
	r.connect()
	r.Lost(false, errors.New("lost"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := r.Get(ctx, sessiontest.ID(1))
	require.ErrorIs(t, err, context.Canceled)
	require.NotErrorIs(t, err, session.ErrNotFound)
}

func TestAReadIsBounded(t *testing.T) {
	t.Parallel()
	r := newRig(t, Options{ReadTimeout: 20 * time.Millisecond})
	r.connect()
	release := r.store.Block("Get")
	defer release()
	_, err := r.Get(t.Context(), r.put(1, 1))
	require.ErrorIs(t, err, session.ErrUnavailable)
}

func TestMemoryIsBounded(t *testing.T) {
	t.Parallel()
	r := newRig(t, Options{MaxRows: 10})
	r.connect()
	for i := range 100 {
		r.generation(r.put(i, 1))
	}
	assert.Equal(t, 10, r.Len())
	for i := range maxWords + 10 {
		r.word(fmt.Sprint(i))
	}
	assert.LessOrEqual(t, len(r.words), maxWords)
}

func TestALargeRowIsNotKept(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", maxRow)
	for field, enlarge := range map[string]func(*session.Session){
		"path":               func(s *session.Session) { s.EntryPoints[0].Path = long },
		"protocol":           func(s *session.Session) { s.EntryPoints[0].Protocol = long },
		"endpoint":           func(s *session.Session) { s.EntryPoints[0].Endpoint = long },
		"many empty points":  func(s *session.Session) { s.EntryPoints = make([]session.EntryPoint, maxRow) },
		"owner":              func(s *session.Session) { s.OwnerID = long },
		"workload kind":      func(s *session.Session) { s.Workload.Kind = long },
		"workload namespace": func(s *session.Session) { s.Workload.Namespace = long },
		"workload name":      func(s *session.Session) { s.Workload.Name = long },
		"auth mode":          func(s *session.Session) { s.AuthMode = long },
		"key":                func(s *session.Session) { s.KeyID = long },
		"state":              func(s *session.Session) { s.State = session.State(long) },
	} {
		t.Run(field, func(t *testing.T) {
			t.Parallel()
			s := session.Session{
				ID: sessiontest.ID(1), Object: object, State: session.StateReady,
				EntryPoints: []session.EntryPoint{{Path: "/"}},
			}
			assert.True(t, small(session.RouteOf(s)))
			enlarge(&s)
			assert.False(t, small(session.RouteOf(s)))
		})
	}
	r := newRig(t, Options{})
	r.connect()
	require.NoError(t, r.rows.Put(session.Session{
		ID: sessiontest.ID(1), Object: object, State: session.StateReady,
		EntryPoints: []session.EntryPoint{{Path: "/" + long}},
	}))
	r.generation(sessiontest.ID(1))
	before := r.reads()
	r.generation(sessiontest.ID(1))
	assert.Equal(t, before+1, r.reads())
}

func TestARowThatIsKeptSaysWhatItSaid(t *testing.T) {
	t.Parallel()
	r := newRig(t, Options{})
	r.connect()
	s := session.Session{
		ID: sessiontest.ID(1), Object: object, State: session.StateReady, OwnerID: "ann", ExpiresAt: r.clock.Now().Add(time.Hour),
		Workload: session.WorkloadRef{Kind: "AgentRuntime", Namespace: "n", Name: "w"}, AuthMode: "picod", KeyID: "k", Generation: 3,
		EntryPoints: []session.EntryPoint{{Path: "/", Protocol: "HTTP", Endpoint: "10.0.0.7:80"}, {Path: "/a", Protocol: "HTTPS", Endpoint: "10.0.0.7:81"}},
	}
	require.NoError(t, r.rows.Put(s))
	first, err := r.Get(t.Context(), s.ID)
	require.NoError(t, err)
	second, err := r.Get(t.Context(), s.ID)
	require.NoError(t, err)
	assert.Equal(t, session.RouteOf(s), second)
	assert.Equal(t, first, second)
	assert.Equal(t, 1, r.reads())
}

func TestAHitAllocatesNothing(t *testing.T) { //nolint:paralleltest // it counts the process's allocations
	r := newRig(t, Options{})
	r.connect()
	id := r.put(1, 1)
	r.generation(id)
	assert.Zero(t, testing.AllocsPerRun(100, func() { _, _ = r.Get(t.Context(), id) }))
}

func TestReadersAndChangesAtOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t, Options{})
	r.connect()
	const last = 500
	id := r.put(1, 0)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			seen := int64(0)
			for seen < last {
				row, err := r.Get(t.Context(), id)
				if err != nil || row.Generation < seen {
					t.Errorf("%v, or a row went back from %d to %d", err, seen, row.Generation)
					return
				}
				seen = row.Generation
			}
		})
	}
	for i := range last {
		r.put(1, int64(i+1))
		r.Changed([]string{id})
	}
	wg.Wait()
}

// slowRows answers a read when it is told to, with what the row said before.
type slowRows struct {
	Store
	asked, answer chan struct{}
	slow          atomic.Bool
}

func (s *slowRows) Get(ctx context.Context, id string) (session.Session, error) {
	row, err := s.Store.Get(ctx, id)
	if s.slow.CompareAndSwap(true, false) {
		s.asked <- struct{}{}
		<-s.answer
	}
	return row, err
}

// The change of the row is yet to be told.
func TestAnAnswerThatComesLateDoesNotReplaceALaterOne(t *testing.T) {
	t.Parallel()
	r := newRig(t, Options{})
	rows := &slowRows{Store: r.store, asked: make(chan struct{}), answer: make(chan struct{})}
	r.Cache.store = rows
	r.connect()
	id := r.put(1, 1)
	rows.slow.Store(true)
	first := make(chan int64)
	go func() {
		row, err := r.Get(t.Context(), id)
		assert.NoError(t, err)
		first <- row.Generation
	}()
	<-rows.asked
	r.put(1, 2)
	require.EqualValues(t, 2, r.generation(id))
	close(rows.answer)
	require.EqualValues(t, 1, <-first)
	assert.EqualValues(t, 2, r.generation(id))
}

// rowsOf makes a row up for each id, as it comes out of a real store.
type rowsOf struct{ clock *clocktesting.FakeClock }

func (r rowsOf) Get(_ context.Context, id string) (session.Session, error) {
	text := strings.Clone
	return session.Session{
		ID: text(id), Object: object, State: session.State(text("ready")), AuthMode: text("picod"), KeyID: text("0123456789abcdef"),
		Workload:    session.WorkloadRef{Kind: text("AgentRuntime"), Namespace: text("default"), Name: text("echo")},
		EntryPoints: []session.EntryPoint{{Path: text("/"), Protocol: text("HTTP"), Endpoint: "10.20.30.40:8080"[:16]}},
		ExpiresAt:   r.clock.Now(), Metadata: make([]byte, 4<<10), Message: text("not needed"),
	}, nil
}

func TestAHundredThousandRowsTakeLittleMemory(t *testing.T) { //nolint:paralleltest // it measures the heap
	clk := clocktesting.NewFakeClock(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	c := New(clk, rowsOf{clk}, Options{}, zap.NewNop())
	c.Connected(clk.Now(), true)
	before := heap()
	const many = 100_000
	for i := range many {
		_, err := c.Get(t.Context(), sessiontest.ID(i))
		require.NoError(t, err)
	}
	grown := heap() - before
	require.Equal(t, many, c.Len())
	t.Logf("%d rows take %d MB", many, grown>>20)
	assert.Less(t, grown, int64(60<<20))
	runtime.KeepAlive(c)
}

// heap is what is alive, in bytes.
func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
