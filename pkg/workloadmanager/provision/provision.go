// Package provision owns the two ends of a session's life: it creates one
// (reserve, arm the undo, create the object, wait, probe, commit) and deletes
// one (mark, delete the object, remove the row), each so that whatever fails
// in between, the store still names everything that exists; and it moves the
// end, on both sides.
//
// It does not follow what the cluster does to a live session (reconcile), nor
// decide when one is over (gc).
package provision

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"go.uber.org/zap"
	"k8s.io/utils/clock"

	"github.com/agentcube/agentcube/pkg/sandbox"
	"github.com/agentcube/agentcube/pkg/session"
)

// Store is where sessions are recorded. Its errors are those of pkg/session.
type Store interface {
	Create(ctx context.Context, s session.Session) (session.Session, error)
	Get(ctx context.Context, id string) (session.Session, error)
	Update(ctx context.Context, id string, change func(*session.Session) error) (session.Session, error)
	Remove(ctx context.Context, id string, guard func(session.Session) error) error
	Keys
}

// Cluster creates, reads and deletes the objects that carry sessions. Its
// errors are those of pkg/sandbox.
type Cluster interface {
	Create(ctx context.Context, spec sandbox.Spec) (sandbox.Object, error)
	Get(ctx context.Context, ref session.ObjectRef) (sandbox.Object, error)
	Delete(ctx context.Context, ref session.ObjectRef) error
	SandboxUID(ctx context.Context, namespace, name string) (string, error)
	SetLifetimes(ctx context.Context, ref session.ObjectRef, version string, l sandbox.Lifetimes) error
}

// Watcher is the local view of those objects.
type Watcher interface {
	Get(ref session.ObjectRef) (sandbox.Object, bool)
	// Subscribe signals each change of the object until the func is called.
	Subscribe(ref session.ObjectRef) (<-chan struct{}, func())
}

// Pools tells about the warm pools that claims draw from.
type Pools interface {
	// PoolCreated is when the pool of that name was created, by a direct read.
	PoolCreated(ctx context.Context, namespace, name string) (time.Time, error)
}

// Prober finds out whether a sandbox listens.
type Prober interface {
	// Probe returns once every entry point accepts a connection, or with the
	// last error when ctx ends.
	Probe(ctx context.Context, points []session.EntryPoint) error
}

// Options are the bounds of creating and deleting.
type Options struct {
	// Process names this process's heartbeat in the rows it reserves.
	Process string
	// Installation is written on every object.
	Installation string
	// CreateBound is for everything from reserve to commit.
	CreateBound time.Duration
	// ProbeBound is the part of it that the entry points have to listen.
	ProbeBound time.Duration
	// UndoBound is for the retries of an undo or a deletion.
	UndoBound time.Duration
	// AnswerBound is how long a caller whose create failed waits for the undo
	// before it is told.
	AnswerBound time.Duration
	// DirectRead is the interval of the reads that guard against a watch that
	// has silently stopped.
	DirectRead time.Duration
	// UnknownBound is how long the API server may still apply a create call
	// whose answer was lost.
	UnknownBound time.Duration
	// Changes tell whoever waits for another's create. Nil: it reads the row
	// every second.
	Changes Changes
	// Metrics and Events say how it goes. Nil: to nobody.
	Metrics *Metrics
	Events  Events
}

// WithDefaults fills what is zero.
func (o Options) WithDefaults() Options {
	fill := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	fill(&o.CreateBound, 110*time.Second)
	fill(&o.ProbeBound, 15*time.Second)
	fill(&o.UndoBound, 30*time.Second)
	fill(&o.AnswerBound, 5*time.Second)
	fill(&o.DirectRead, 3*time.Second)
	fill(&o.UnknownBound, 90*time.Second)
	return o
}

// Request says what session to create.
type Request struct {
	Workload    session.WorkloadRef
	WorkloadUID string
	// Warm: by a SandboxClaim on the workload's pool.
	Warm bool
	// Prepare, if set, returns once the pool and template of a claim exist: a
	// claim that comes before them is left alone for up to a minute
	// (agent-sandbox v0.5).
	Prepare   func(context.Context) error
	Ports     []session.Port
	Pod       sandbox.PodTemplate
	Lifetimes session.Lifetimes
	OwnerID   string
	Metadata  json.RawMessage
	AuthMode  string
	KeyID     string
	// Key is taken with the reservation. Zero: none.
	Key session.RetryKey
}

// Provisioner creates and deletes sessions.
type Provisioner struct {
	clock   clock.WithTicker
	log     *zap.Logger
	store   Store
	cluster Cluster
	watcher Watcher
	pools   Pools
	prober  Prober
	options Options

	left leftovers
	// attempts are the creates that do not end with their request.
	attempts attempts
	changes  Changes
	// background holds the undos and deletions that outlive their request.
	background sync.WaitGroup
}

// New returns a Provisioner. It starts nothing.
func New(clk clock.WithTicker, log *zap.Logger, store Store, cluster Cluster, watcher Watcher, pools Pools,
	prober Prober, options Options,
) *Provisioner {
	p := &Provisioner{
		clock: clk, log: log, store: store, cluster: cluster, watcher: watcher, pools: pools,
		prober: prober, options: options.WithDefaults(), attempts: newAttempts(),
		changes: options.Changes,
	}
	if p.changes == nil {
		p.changes = untold{}
	}
	return p
}

// untold tells of no change.
type untold struct{}

func (untold) Subscribe(string) (<-chan struct{}, func()) { return nil, func() {} }

// Wait returns when the undos and deletions that outlived their requests are
// done, or when ctx ends. It is called after the last request.
func (p *Provisioner) Wait(ctx context.Context) error {
	done := make(chan struct{})
	go func() {
		defer close(done)
		p.background.Wait()
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// detached runs work on session id that must outlive the request, and waits
// for it until its caller goes away or the bound has passed. finished tells
// which. What nobody waits for any more is logged if it fails.
func (p *Provisioner) detached(ctx context.Context, id string, bound time.Duration,
	work func(context.Context) error,
) (finished bool, err error) {
	result, left := make(chan error), make(chan struct{})
	defer close(left)
	p.background.Go(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), p.options.UndoBound)
		defer cancel()
		err := work(ctx)
		select {
		case result <- err:
		case <-left:
			if err != nil {
				p.log.Warn("what a request left behind could not be cleaned up yet",
					zap.String("session", id), zap.Error(err))
			}
		}
	})
	timer := p.clock.NewTimer(bound)
	defer timer.Stop()
	select {
	case err := <-result:
		return true, err
	case <-ctx.Done():
		return false, ctx.Err()
	case <-timer.C():
		return false, nil
	}
}
