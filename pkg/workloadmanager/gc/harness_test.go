package gc_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"k8s.io/utils/clock"

	"github.com/agentcube/agentcube/pkg/sandbox"
	"github.com/agentcube/agentcube/pkg/session"
	"github.com/agentcube/agentcube/pkg/session/sessiontest"
	"github.com/agentcube/agentcube/pkg/workloadmanager/clustertest"
	"github.com/agentcube/agentcube/pkg/workloadmanager/gc"
	"github.com/agentcube/agentcube/pkg/workloadmanager/provision"
)

const (
	interval     = 15 * time.Second
	createBound  = 2 * time.Minute
	unknownBound = 90 * time.Second
	outagePause  = 30 * time.Second
	heartbeat    = 20 * time.Second
)

// world is a collector over a store and a cluster in memory; what it finishes
// is finished by the real Provisioner.
type world struct {
	t       *testing.T
	clock   clock.RealClock
	start   time.Time
	fake    *sessiontest.Fake
	store   *sessiontest.Faulty
	cluster *clustertest.Cluster
	c       *gc.Collector
}

func options() gc.Options {
	return gc.Options{
		Interval: interval, Page: 10, Workers: 4,
		CreateBound: createBound, UnknownBound: unknownBound, OutagePause: outagePause,
	}
}

func in(t *testing.T, test func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t}
		w.start = w.clock.Now()
		w.fake = sessiontest.NewFake(w.clock)
		w.store = sessiontest.NewFaulty(w.fake)
		w.cluster = clustertest.New(w.clock)
		w.c = w.collector(options())
		test(t, w)
	})
}

func (w *world) collector(o gc.Options) *gc.Collector {
	finisher := provision.New(w.clock, zap.NewNop(), w.store, w.cluster, w.cluster.Cache(), w.cluster, nil, provision.Options{})
	return gc.New(w.clock, zap.NewNop(), w.store, w.store, w.store, finisher, o)
}

// session makes a row, with its index entries, and its object. Unless change
// says otherwise it is ready, and was last used now.
func (w *world) session(change func(*session.Session)) session.Session {
	w.t.Helper()
	now := w.clock.Now().UTC().Truncate(time.Millisecond)
	s := session.Session{
		ID: uuid.NewString(), State: session.StateReady, CreatedAt: now,
		IdleTimeout: 15 * time.Minute, ExpiresAt: now.Add(8 * time.Hour),
		Creator: session.Creator{Process: "manager-1", Token: "token"}, Generation: 1,
		Ports: []session.Port{{Path: "/", Protocol: "HTTP", Port: 8080}},
	}
	s.Object = session.ObjectRef{Kind: session.KindSandbox, Namespace: "team", Name: "echo-" + s.ID[:8]}
	o := w.cluster.Put(sandbox.Object{Ref: s.Object, SessionID: s.ID})
	s.Object = o.Ref
	if change != nil {
		change(&s)
	}
	made, err := w.fake.Create(w.t.Context(), s)
	require.NoError(w.t, err)
	return made
}

func (w *world) idle(timeout time.Duration) session.Session {
	w.t.Helper()
	return w.session(func(s *session.Session) { s.IdleTimeout, s.ExpiresAt = timeout, time.Time{} })
}

func creating(s *session.Session) {
	s.State, s.Generation, s.EntryPoints = session.StateCreating, 0, nil
	s.Object.UID = ""
}

func (w *world) pass(d time.Duration) {
	w.t.Helper()
	timer := w.clock.NewTimer(d)
	<-timer.C()
	synctest.Wait()
}

// collect runs one pass.
func (w *world) collect() gc.Stats {
	w.t.Helper()
	stats, err := w.c.Pass(w.t.Context())
	require.NoError(w.t, err)
	w.indexesAgree()
	return stats
}

func (w *world) indexesAgree() {
	w.t.Helper()
	sessiontest.CheckIndexes(w.t, w.fake.Rows(), w.fake.Indexes(), w.clock.Now(), 24*time.Hour)
}

func (w *world) lives(s session.Session, why string) {
	w.t.Helper()
	row, ok := w.fake.Rows()[s.ID]
	assert.True(w.t, ok && row.Live(), why)
}

func (w *world) gone(s session.Session, why string) {
	w.t.Helper()
	assert.NotContains(w.t, w.fake.Rows(), s.ID, why)
	for _, o := range w.cluster.Objects() {
		assert.NotEqual(w.t, s.Object.Name, o.Ref.Name, why)
	}
}

// runFor runs the collector in its own rhythm.
func (w *world) runFor(d time.Duration) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), d)
	defer cancel()
	require.NoError(w.t, w.c.Run(ctx))
}

func (w *world) touch(s session.Session) {
	w.t.Helper()
	require.NoError(w.t, w.fake.Touch(w.t.Context(), map[string]time.Time{s.ID: w.clock.Now()}))
}

func (w *world) beat() {
	w.t.Helper()
	require.NoError(w.t, w.fake.Beat(w.t.Context(), "manager-1"))
}

// corrupt is a store in which some rows cannot be read.
type corrupt struct {
	*sessiontest.Faulty
	ids map[string]bool
}

func (c *corrupt) Get(ctx context.Context, id string) (session.Session, error) {
	if c.ids[id] {
		return session.Session{}, fmt.Errorf("reading session %s: %w", id, session.ErrCorrupt)
	}
	return c.Faulty.Get(ctx, id)
}
