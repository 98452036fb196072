package resync_test

import (
	"context"
	"maps"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	"k8s.io/utils/clock"

	"github.com/agentcube/agentcube/pkg/sandbox"
	"github.com/agentcube/agentcube/pkg/session"
	"github.com/agentcube/agentcube/pkg/session/sessiontest"
	"github.com/agentcube/agentcube/pkg/workloadmanager/clustertest"
	"github.com/agentcube/agentcube/pkg/workloadmanager/resync"
)

const (
	grace  = 30 * time.Second
	ours   = "11111111-1111-4111-8111-111111111111"
	theirs = "22222222-2222-4222-8222-222222222222"
)

// world is a Resyncer over a store and a cluster in memory.
type world struct {
	t        *testing.T
	clock    clock.RealClock
	fake     *sessiontest.Fake
	store    *sessiontest.Faulty
	all      resync.Store // store, or what a test wraps it into
	cluster  *clustertest.Cluster
	lister   *lister
	record   *record
	events   *events
	registry *prometheus.Registry
	logs     *observer.ObservedLogs
	r        *resync.Resyncer
}

// in runs a test on a world whose first object is older than the grace period.
func in(t *testing.T, test func(w *world), change ...func(*resync.Options)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.r = w.resyncer(ours, change...)
		require.NoError(t, w.fake.SetInstallation(t.Context(), ours))
		test(w)
	})
}

func newWorld(t *testing.T) *world {
	w := &world{t: t}
	w.fake = sessiontest.NewFake(w.clock)
	w.store = sessiontest.NewFaulty(w.fake)
	w.all = w.store
	w.cluster = clustertest.New(w.clock)
	w.lister = &lister{cluster: w.cluster}
	w.record = &record{}
	w.events = &events{}
	return w
}

func (w *world) resyncer(installation string, change ...func(*resync.Options)) *resync.Resyncer {
	w.registry = prometheus.NewRegistry()
	core, logs := observer.New(zap.InfoLevel)
	w.logs = logs
	o := resync.Options{Installation: installation, Namespace: "agentcube", Name: "agentcube-workload-manager"}
	for _, c := range change {
		c(&o)
	}
	return resync.New(w.clock, zap.New(core), w.all, w.cluster, w.lister, w.record, w.events, resync.NewMetrics(w.registry), o)
}

// object is one of ours, an hour old.
func (w *world) object(change func(*sandbox.Object)) sandbox.Object {
	id := uuid.NewString()
	o := sandbox.Object{
		Ref:       session.ObjectRef{Kind: session.KindSandbox, Namespace: "team", Name: "echo-" + id[:8]},
		SessionID: id, Installation: ours, CreatedAt: w.clock.Now().Add(-time.Hour),
	}
	if change != nil {
		change(&o)
	}
	return w.cluster.Put(o)
}

// row is one that names the object; it is ready and an hour old.
func (w *world) row(o sandbox.Object, change func(*session.Session)) session.Session {
	w.t.Helper()
	s := session.Session{
		ID: o.SessionID, Object: o.Ref, State: session.StateReady, CreatedAt: w.clock.Now().Add(-time.Hour),
		Creator: session.Creator{Process: "p", Token: "t"}, Generation: 1, IdleTimeout: time.Hour,
	}
	if change != nil {
		change(&s)
	}
	made, err := w.fake.Create(w.t.Context(), s)
	require.NoError(w.t, err)
	return made
}

// session is a row and its object.
func (w *world) session() session.Session {
	w.t.Helper()
	return w.row(w.object(nil), nil)
}

// lost is a row whose object is gone.
func (w *world) lost() session.Session {
	w.t.Helper()
	s := w.session()
	w.cluster.Kill(s.Object)
	return s
}

func (w *world) many(n int, what func()) {
	for range n {
		what()
	}
}

func (w *world) pass() resync.Report {
	w.t.Helper()
	report, err := w.r.Pass(w.t.Context())
	require.NoError(w.t, err)
	sessiontest.CheckIndexes(w.t, w.fake.Rows(), w.fake.Indexes(), w.clock.Now(), 24*time.Hour)
	return report
}

func (w *world) rowIs(s session.Session, there bool, why string) {
	w.t.Helper()
	_, ok := w.fake.Rows()[s.ID]
	assert.Equal(w.t, there, ok, why)
}

func (w *world) objectIs(o sandbox.Object, there bool, why string) {
	w.t.Helper()
	found := false
	for _, have := range w.cluster.Objects() {
		found = found || have.Ref == o.Ref
	}
	assert.Equal(w.t, there, found, why)
}

// sleep lets time pass, in the bubble.
func (w *world) sleep(d time.Duration) {
	timer := w.clock.NewTimer(d)
	<-timer.C()
	synctest.Wait()
}

func (w *world) gauge(name string) float64 {
	w.t.Helper()
	families, err := w.registry.Gather()
	require.NoError(w.t, err)
	for _, f := range families {
		if f.GetName() == name {
			m := f.GetMetric()[0]
			return m.GetGauge().GetValue() + m.GetCounter().GetValue()
		}
	}
	w.t.Fatalf("no metric %s", name)
	return 0
}

// lister lists the cluster's objects that bear the session's label, two to a
// page.
type lister struct {
	cluster *clustertest.Cluster

	mu         sync.Mutex
	controlled map[string]bool // by name
	calls      int
	expire     int    // so many lists expire after their first page
	after      func() // after a whole list
	during     func() // after each page
}

// lists is how many were begun.
func (l *lister) lists() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.calls
}

func (l *lister) List(ctx context.Context, visit func([]sandbox.Metadata) error) error {
	l.mu.Lock()
	l.calls++
	expire := l.expire > 0
	if expire {
		l.expire--
	}
	after, during := l.after, l.during
	l.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	var all []sandbox.Metadata
	for _, o := range l.cluster.Objects() {
		if o.SessionID != "" {
			all = append(all, sandbox.Metadata{
				Ref: o.Ref, SessionID: o.SessionID, Installation: o.Installation,
				CreatedAt: o.CreatedAt, Deleting: o.Deleting, Controlled: l.controlled[o.Ref.Name],
			})
		}
	}
	for from := 0; from < len(all); from += 2 {
		if err := visit(all[from:min(from+2, len(all))]); err != nil {
			return err
		}
		if during != nil {
			during()
		}
		if expire {
			return sandbox.ErrExpired
		}
	}
	if after != nil {
		after()
	}
	return nil
}

// record is a ConfigMap in memory.
type record struct {
	mu   sync.Mutex
	note *sandbox.Note
	fail map[string]error // by method; once each
}

func (r *record) failing(method string) error {
	err := r.fail[method]
	delete(r.fail, method)
	return err
}

func copied(n sandbox.Note) sandbox.Note {
	n.Data, n.Annotations = maps.Clone(n.Data), maps.Clone(n.Annotations)
	return n
}

func (r *record) Get(context.Context) (sandbox.Note, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.failing("Get"); err != nil {
		return sandbox.Note{}, err
	}
	if r.note == nil {
		return sandbox.Note{}, sandbox.ErrNotFound
	}
	return copied(*r.note), nil
}

func (r *record) Create(_ context.Context, n sandbox.Note) (sandbox.Note, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.failing("Create"); err != nil {
		return sandbox.Note{}, err
	}
	if r.note != nil {
		return sandbox.Note{}, sandbox.ErrExists
	}
	kept := copied(n)
	r.note = &kept
	return copied(n), nil
}

func (r *record) Update(_ context.Context, n sandbox.Note) (sandbox.Note, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.failing("Update"); err != nil {
		return sandbox.Note{}, err
	}
	kept := copied(n)
	r.note = &kept
	return copied(n), nil
}

func (r *record) data(key string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.note.Data[key]
}

// confirm is the operator's annotation.
func (r *record) confirm(token string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.note.Annotations == nil {
		r.note.Annotations = map[string]string{}
	}
	r.note.Annotations[resync.AnnotationConfirm] = token
}

// events are what the reconciler was told.
type events struct {
	mu  sync.Mutex
	all []sandbox.Event
}

func (e *events) Enqueue(event sandbox.Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.all = append(e.all, event)
}
