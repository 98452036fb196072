// Package resync brings the store and the cluster back into agreement after
// whatever was missed: events that nobody saw, writes that were lost, crashes.
// It compares all rows with a fresh list of the objects, in both directions,
// and the indexes with the rows.
//
// Nothing is removed on the word of a list. A row goes when a direct read shows
// that its object is gone, an object when two direct reads some time apart show
// that no row names it. And when a pass would remove much, or the store is not
// the one that this installation knew, nothing at all is removed until an
// operator says so: a wiped store must not empty a cluster.
//
// It does not follow single changes (reconcile), watch the clock (gc), or say
// what a session becomes: an object that is there is left to the reconciler.
package resync

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"k8s.io/utils/clock"

	"github.com/agentcube/agentcube/pkg/sandbox"
	"github.com/agentcube/agentcube/pkg/session"
)

// Rows reads and removes sessions.
type Rows interface {
	// Now is the store's clock.
	Now(ctx context.Context) (time.Time, error)
	// Scan returns a page of rows; the cursor 0 begins, and ends.
	Scan(ctx context.Context, cursor uint64) (rows []session.Row, next uint64, err error)
	Get(ctx context.Context, id string) (session.Session, error)
	Remove(ctx context.Context, id string, guard func(session.Session) error) error
}

// Index mends the indexes of the store.
type Index interface {
	// Index makes the indexes agree with the rows, both ways, and returns how
	// many entries it mended.
	Index(ctx context.Context) (int, error)
}

// Identity is the id of the installation that the store belongs to.
type Identity interface {
	// Installation is empty in a store that belongs to nobody.
	Installation(ctx context.Context) (string, error)
	SetInstallation(ctx context.Context, id string) error
}

// Store is all that a Resyncer needs of the store.
type Store interface {
	Rows
	Index
	Identity
}

// Objects reads the cluster past every cache, and deletes.
type Objects interface {
	Get(ctx context.Context, ref session.ObjectRef) (sandbox.Object, error)
	Delete(ctx context.Context, ref session.ObjectRef) error
}

// Lister lists the metadata of all objects that carry a session.
type Lister interface {
	// List returns sandbox.ErrExpired when it must be begun anew.
	List(ctx context.Context, visit func([]sandbox.Metadata) error) error
}

// Record keeps the installation's id, and the brake, where operators see them.
type Record interface {
	Get(ctx context.Context) (sandbox.Note, error)
	Create(ctx context.Context, note sandbox.Note) (sandbox.Note, error)
	Update(ctx context.Context, note sandbox.Note) (sandbox.Note, error)
}

// Reconciler looks at one object and makes its session agree.
type Reconciler interface {
	Enqueue(e sandbox.Event)
}

// Defaults of Options.
const (
	DefaultInterval = 5 * time.Minute
	DefaultGrace    = 30 * time.Second
	DefaultWorkers  = 16
)

// Options of a Resyncer. Zero values mean the defaults.
type Options struct {
	// Installation is the id that this process's objects bear.
	Installation string
	// Namespace and Name of the ConfigMap behind the Record, for messages.
	Namespace, Name string
	// Interval between two passes.
	Interval time.Duration
	// Grace lies between the two looks for the row of an object, and younger
	// objects are not judged.
	Grace time.Duration
	// AdoptUnmarked takes objects that bear no installation's id for ours:
	// those that an older release left behind. Only for a cluster with one
	// installation.
	AdoptUnmarked bool
	// Workers make so many calls at a time.
	Workers int
	// Events tells of the brake, on the ConfigMap. Nil: to nobody.
	Events Events
}

func (o Options) withDefaults() Options {
	if o.Interval <= 0 {
		o.Interval = DefaultInterval
	}
	if o.Grace <= 0 {
		o.Grace = DefaultGrace
	}
	if o.Workers <= 0 {
		o.Workers = DefaultWorkers
	}
	return o
}

const (
	// retryPause follows a pass that could not be finished.
	retryPause = 10 * time.Second
	// settlePause follows a trigger, so that several are one.
	settlePause = time.Second
	// confirmPause lies between two looks for an operator's confirmation.
	confirmPause = 5 * time.Second
)

// Resyncer compares the store with the cluster, pass by pass. Only one in an
// installation should run; two do no harm.
type Resyncer struct {
	clock      clock.WithTicker
	log        *zap.Logger
	store      Store
	objects    Objects
	lister     Lister
	record     Record
	reconciler Reconciler
	metrics    *Metrics
	options    Options

	trigger chan struct{}
	running atomic.Bool
	brake   atomic.Pointer[Brake] // nil: nothing is held by this replica
}

// New returns a Resyncer. It starts nothing.
func New(clk clock.WithTicker, log *zap.Logger, store Store, objects Objects, lister Lister, record Record,
	reconciler Reconciler, metrics *Metrics, options Options,
) *Resyncer {
	return &Resyncer{
		clock: clk, log: log, store: store, objects: objects, lister: lister, record: record,
		reconciler: reconciler, metrics: metrics, options: options.withDefaults(),
		trigger: make(chan struct{}, 1),
	}
}

// Trigger asks for a pass soon, after contact to either side was lost. It does
// not block.
func (r *Resyncer) Trigger() {
	select {
	case r.trigger <- struct{}{}:
	default: // one is asked for already
	}
}

// Held says why nothing is removed, if so: a detail of the readiness. A replica
// that does not make the passes reads what the one that does has recorded; if
// it cannot, the cluster is what is wrong.
func (r *Resyncer) Held(ctx context.Context) error {
	b := r.brake.Load()
	if b == nil && !r.running.Load() {
		if note, err := r.record.Get(ctx); err == nil {
			b = brakeOf(note)
		}
	}
	if b != nil {
		return b
	}
	return nil
}

// Run makes a pass at once, at each interval, and when one is asked for, until
// ctx ends. A pass under way is given up then.
func (r *Resyncer) Run(ctx context.Context) error {
	r.running.Store(true)
	defer func() {
		// What another replica finds from here on is only in the record.
		r.running.Store(false)
		r.brake.Store(nil)
		r.metrics.brake.Set(0)
	}()
	for {
		wait := r.options.Interval
		if _, err := r.Pass(ctx); err != nil {
			wait = retryPause
		}
		if !r.pause(ctx, wait) {
			return nil
		}
	}
}

// pause returns when the next pass is to be made; false: when ctx has ended.
func (r *Resyncer) pause(ctx context.Context, wait time.Duration) bool {
	next := r.clock.NewTimer(wait)
	defer next.Stop()
	look := r.clock.NewTicker(confirmPause)
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return false
		case <-next.C():
			return true
		case <-r.trigger:
			return r.sleep(ctx, settlePause) == nil
		case <-look.C():
			if r.confirmed(ctx) {
				return true
			}
		}
	}
}

// confirmed reports whether an operator has confirmed what the brake holds.
func (r *Resyncer) confirmed(ctx context.Context) bool {
	b := r.brake.Load()
	if b == nil {
		return false
	}
	note, err := r.record.Get(ctx)
	return err == nil && b.confirmedBy(note)
}

func (r *Resyncer) sleep(ctx context.Context, d time.Duration) error {
	timer := r.clock.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C():
		return nil
	}
}

// unreachable reports whether err says that one of both sides cannot be asked,
// so that a pass cannot go on.
func unreachable(err error) bool {
	return errors.Is(err, session.ErrUnavailable) || errors.Is(err, sandbox.ErrUnavailable) ||
		errors.Is(err, sandbox.ErrNotServed) ||
		errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}
