package provision_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"k8s.io/utils/clock"

	"github.com/agentcube/agentcube/pkg/sandbox"
	"github.com/agentcube/agentcube/pkg/session"
	"github.com/agentcube/agentcube/pkg/session/sessiontest"
	"github.com/agentcube/agentcube/pkg/workloadmanager/clustertest"
	"github.com/agentcube/agentcube/pkg/workloadmanager/provision"
)

const (
	namespace    = "team"
	process      = "manager-1"
	installation = "3e6b2a1c-1f5e-4b7a-9d56-0c4f1f1f7a11"
	address      = "10.0.0.7"
	adopted      = "pool-x7k2p"
	adoptedUID   = "uid-of-adopted"
)

// Bounds of the contract.
const (
	createBound  = 110 * time.Second
	probeBound   = 15 * time.Second
	undoBound    = 30 * time.Second
	unknownBound = 90 * time.Second
	// directRead and answerBound are "every few seconds".
	directRead  = 3 * time.Second
	answerBound = 5 * time.Second
)

// world is everything around a Provisioner, in memory.
type world struct {
	t       *testing.T
	clock   clock.RealClock
	fake    *sessiontest.Fake
	store   *sessiontest.Faulty
	cluster *clustertest.Cluster
	prober  *prober
	p       *provision.Provisioner
	start   time.Time
}

// in runs a test in a bubble of its own, where time is free and every
// goroutine must end.
func in(t *testing.T, test func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		test(t, w)
		require.NoError(t, w.p.Wait(t.Context()))
		synctest.Wait()
		assert.Zero(t, w.cluster.Subscribers(), "every subscription ends")
	})
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, prober: &prober{}}
	w.start = w.clock.Now()
	w.fake = sessiontest.NewFake(w.clock)
	w.store = sessiontest.NewFaulty(w.fake)
	w.cluster = clustertest.New(w.clock)
	w.cluster.OnCreate(w.makeReady)
	w.cluster.SetSandbox(namespace, adopted, adoptedUID)
	w.p = provision.New(w.clock, zap.NewNop(), w.store, w.cluster, w.cluster.Cache(), w.cluster, w.prober,
		provision.Options{Process: process, Installation: installation})
	return w
}

// makeReady is what the controllers do with a healthy object.
func (w *world) makeReady(o sandbox.Object) {
	w.cluster.Edit(o.Ref, ready)
}

func ready(o *sandbox.Object) {
	o.Ready, o.Reason, o.Message, o.Addresses = true, "", "", []string{address}
	if o.Ref.Kind == session.KindSandbox {
		o.SandboxName, o.SandboxUID = o.Ref.Name, o.Ref.UID
		return
	}
	o.SandboxName = adopted
}

// never leaves every object as it was created.
func never(sandbox.Object) {}

// after has the controllers do something to the object later.
func (w *world) after(d time.Duration, change func(*sandbox.Object)) func(sandbox.Object) {
	return func(o sandbox.Object) {
		w.clock.AfterFunc(d, func() { w.cluster.Edit(o.Ref, change) })
	}
}

// only is the one object that exists.
func (w *world) only() sandbox.Object {
	w.t.Helper()
	objects := w.cluster.Objects()
	require.Len(w.t, objects, 1)
	return objects[0]
}

// row is the one row that exists.
func (w *world) row() session.Session {
	w.t.Helper()
	rows := w.fake.Rows()
	require.Len(w.t, rows, 1)
	for _, row := range rows {
		return row
	}
	panic("unreachable")
}

// nothingLeft: no row, no index entry, no object.
func (w *world) nothingLeft() {
	w.t.Helper()
	require.NoError(w.t, w.p.Wait(w.t.Context()))
	assert.Empty(w.t, w.fake.Rows())
	w.indexesAgree()
	assert.Empty(w.t, w.cluster.Objects())
}

func (w *world) indexesAgree() {
	w.t.Helper()
	sessiontest.CheckIndexes(w.t, w.fake.Rows(), w.fake.Indexes(), w.clock.Now(), 0)
}

// took is how long the test has lasted.
func (w *world) took() time.Duration { return w.clock.Since(w.start) }

// pass lets time go by.
func (w *world) pass(d time.Duration) {
	w.t.Helper()
	timer := w.clock.NewTimer(d)
	<-timer.C()
	synctest.Wait()
}

// collect is what the collector does with a row whose creator is over.
func (w *world) collect() {
	w.t.Helper()
	for id := range w.fake.Rows() {
		row, err := w.fake.Update(w.t.Context(), id, session.Delete(session.ReasonFailed, time.Time{}))
		require.NoError(w.t, err)
		require.NoError(w.t, w.p.Finish(w.t.Context(), row, true))
	}
}

func direct() provision.Request {
	return provision.Request{
		Workload:    session.WorkloadRef{Kind: session.KindAgentRuntime, Namespace: namespace, Name: "echo"},
		WorkloadUID: "uid-of-workload",
		Ports:       []session.Port{{Path: "/", Protocol: session.ProtocolHTTP, Port: 8080}},
		Pod:         sandbox.PodTemplate{Labels: map[string]string{"app": "echo"}},
		Lifetimes:   session.Lifetimes{Idle: 15 * time.Minute, Max: 8 * time.Hour},
	}
}

func warm() provision.Request {
	r := direct()
	r.Workload.Kind, r.Workload.Name = session.KindCodeInterpreter, "warm"
	r.Warm = true
	return r
}

// kinds are both ways of making a session.
var kinds = map[string]func() provision.Request{session.KindSandbox: direct, session.KindSandboxClaim: warm}

// prober answers as it is told.
type prober struct {
	points atomic.Value // the last entry points probed
	probe  func(context.Context) error
}

func (p *prober) Probe(ctx context.Context, points []session.EntryPoint) error {
	p.points.Store(points)
	if p.probe == nil {
		return nil
	}
	return p.probe(ctx)
}
