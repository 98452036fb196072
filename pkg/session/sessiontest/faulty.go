package sessiontest

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/agentcube/agentcube/pkg/session"
)

// Faulty is a store whose calls fail as a test chooses, method by method, and
// which otherwise is the store inside it. Methods are named as in Store; an
// unknown name panics, since a fault that never happens proves nothing.
type Faulty struct {
	inner Store

	mu sync.Mutex
	// before and after hold what the next calls of a method meet, in order.
	before, after map[string][]func(context.Context) error
	blocked       map[string]chan struct{}
	calls         map[string]int
}

// NewFaulty wraps a store. Without a fault it changes nothing.
func NewFaulty(inner Store) *Faulty {
	return &Faulty{
		inner:   inner,
		before:  map[string][]func(context.Context) error{},
		after:   map[string][]func(context.Context) error{},
		blocked: map[string]chan struct{}{},
		calls:   map[string]int{},
	}
}

// FailNext makes the next call of the method fail with err and do nothing.
// Each further FailNext takes one more call.
func (f *Faulty) FailNext(method string, err error) {
	f.arm(f.before, method, func(context.Context) error { return err })
}

// FailAfter makes the next call of the method do its work and lose the answer:
// it returns err all the same.
func (f *Faulty) FailAfter(method string, err error) {
	f.arm(f.after, method, func(context.Context) error { return err })
}

// Before runs fn before the next call of the method does its work: what
// another process does at the worst moment.
func (f *Faulty) Before(method string, fn func()) {
	f.arm(f.before, method, func(context.Context) error { fn(); return nil })
}

// After runs fn when the next call of the method has done its work, before the
// answer arrives.
func (f *Faulty) After(method string, fn func()) {
	f.arm(f.after, method, func(context.Context) error { fn(); return nil })
}

// Block makes every call of the method hang until its context is done, and
// then fail, with ErrUnavailable unless the caller cancelled, or until release
// is called, and then go on.
func (f *Faulty) Block(method string) (release func()) {
	mustExist(method)
	gate := make(chan struct{})
	f.mu.Lock()
	defer f.mu.Unlock()
	f.blocked[method] = gate
	return sync.OnceFunc(func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.blocked[method] == gate {
			delete(f.blocked, method)
		}
		close(gate)
	})
}

// Calls is how often the method was called, failed calls included.
func (f *Faulty) Calls(method string) int {
	mustExist(method)
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls[method]
}

func (f *Faulty) arm(faults map[string][]func(context.Context) error, method string, fault func(context.Context) error) {
	mustExist(method)
	f.mu.Lock()
	defer f.mu.Unlock()
	faults[method] = append(faults[method], fault)
}

var methods = func() []string {
	var names []string
	for m := range reflect.TypeFor[Store]().Methods() {
		names = append(names, m.Name)
	}
	return names
}()

func mustExist(method string) {
	if !slices.Contains(methods, method) {
		panic(fmt.Sprintf("sessiontest: a store has no method %q, only %q", method, methods))
	}
}

// enter is what a call meets before its work.
func (f *Faulty) enter(ctx context.Context, method string) error {
	f.mu.Lock()
	f.calls[method]++
	gate := f.blocked[method]
	f.mu.Unlock()
	if gate != nil {
		select {
		case <-gate:
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.Canceled) {
				return fmt.Errorf("%s: %w", method, ctx.Err())
			}
			return fmt.Errorf("%s: %w: %w", method, session.ErrUnavailable, ctx.Err())
		}
	}
	return f.meet(ctx, f.before, method)
}

func (f *Faulty) meet(ctx context.Context, faults map[string][]func(context.Context) error, method string) error {
	f.mu.Lock()
	var fault func(context.Context) error
	if armed := faults[method]; len(armed) > 0 {
		fault, faults[method] = armed[0], armed[1:]
	}
	f.mu.Unlock()
	if fault == nil {
		return nil
	}
	return fault(ctx) // without mu: it may call the store
}

// through runs one call with its faults. The values of a failed call are zero
// unless the store itself returned the error.
func through[T any](ctx context.Context, f *Faulty, method string, call func() (T, error)) (T, error) {
	var zero T
	if err := f.enter(ctx, method); err != nil {
		return zero, err
	}
	value, err := call()
	if lost := f.meet(ctx, f.after, method); lost != nil {
		return zero, lost
	}
	return value, err
}

func throughErr(ctx context.Context, f *Faulty, method string, call func() error) error {
	_, err := through(ctx, f, method, func() (struct{}, error) { return struct{}{}, call() })
	return err
}

// Create is that of the store inside, with its faults, as are all below.
func (f *Faulty) Create(ctx context.Context, s session.Session) (session.Session, error) {
	return through(ctx, f, "Create", func() (session.Session, error) { return f.inner.Create(ctx, s) })
}

func (f *Faulty) Get(ctx context.Context, id string) (session.Session, error) {
	return through(ctx, f, "Get", func() (session.Session, error) { return f.inner.Get(ctx, id) })
}

func (f *Faulty) Update(ctx context.Context, id string, change func(*session.Session) error) (session.Session, error) {
	return through(ctx, f, "Update", func() (session.Session, error) { return f.inner.Update(ctx, id, change) })
}

func (f *Faulty) End(ctx context.Context, id string, idleSince time.Time, change func(*session.Session) error) (session.Session, error) {
	return through(ctx, f, "End", func() (session.Session, error) { return f.inner.End(ctx, id, idleSince, change) })
}

func (f *Faulty) Remove(ctx context.Context, id string, guard func(session.Session) error) error {
	return throughErr(ctx, f, "Remove", func() error { return f.inner.Remove(ctx, id, guard) })
}

func (f *Faulty) Ended(ctx context.Context, id string) (session.Ending, error) {
	return through(ctx, f, "Ended", func() (session.Ending, error) { return f.inner.Ended(ctx, id) })
}

func (f *Faulty) Look(ctx context.Context, id string) (session.Snapshot, error) {
	return through(ctx, f, "Look", func() (session.Snapshot, error) { return f.inner.Look(ctx, id) })
}

func (f *Faulty) Keep(ctx context.Context, id string, guard func(session.Snapshot) error) error {
	return throughErr(ctx, f, "Keep", func() error { return f.inner.Keep(ctx, id, guard) })
}

func (f *Faulty) Touch(ctx context.Context, activity map[string]time.Time) error {
	return throughErr(ctx, f, "Touch", func() error { return f.inner.Touch(ctx, activity) })
}

func (f *Faulty) LastActivity(ctx context.Context, id string) (time.Time, error) {
	return through(ctx, f, "LastActivity", func() (time.Time, error) { return f.inner.LastActivity(ctx, id) })
}

func (f *Faulty) Due(ctx context.Context, limit int) ([]session.Due, error) {
	return through(ctx, f, "Due", func() ([]session.Due, error) { return f.inner.Due(ctx, limit) })
}

func (f *Faulty) Claim(ctx context.Context, id string, next time.Time) (bool, error) {
	return through(ctx, f, "Claim", func() (bool, error) { return f.inner.Claim(ctx, id, next) })
}

func (f *Faulty) Postpone(ctx context.Context, id string, at time.Time) error {
	return throughErr(ctx, f, "Postpone", func() error { return f.inner.Postpone(ctx, id, at) })
}

func (f *Faulty) Creating(ctx context.Context, after session.Placeholder, limit int) ([]session.Placeholder, error) {
	return through(ctx, f, "Creating", func() ([]session.Placeholder, error) { return f.inner.Creating(ctx, after, limit) })
}

func (f *Faulty) Index(ctx context.Context) (int, error) {
	return through(ctx, f, "Index", func() (int, error) { return f.inner.Index(ctx) })
}

func (f *Faulty) Beat(ctx context.Context, process string) error {
	return throughErr(ctx, f, "Beat", func() error { return f.inner.Beat(ctx, process) })
}

func (f *Faulty) Alive(ctx context.Context, processes ...string) (map[string]bool, error) {
	return through(ctx, f, "Alive", func() (map[string]bool, error) { return f.inner.Alive(ctx, processes...) })
}

func (f *Faulty) Installation(ctx context.Context) (string, error) {
	return through(ctx, f, "Installation", func() (string, error) { return f.inner.Installation(ctx) })
}

func (f *Faulty) SetInstallation(ctx context.Context, id string) error {
	return throughErr(ctx, f, "SetInstallation", func() error { return f.inner.SetInstallation(ctx, id) })
}

func (f *Faulty) Scan(ctx context.Context, cursor uint64) (rows []session.Row, next uint64, err error) {
	rows, err = through(ctx, f, "Scan", func() (rows []session.Row, err error) {
		rows, next, err = f.inner.Scan(ctx, cursor)
		return rows, err
	})
	if err != nil {
		return nil, 0, err
	}
	return rows, next, nil
}

func (f *Faulty) List(ctx context.Context, q session.Query) (session.Page, error) {
	return through(ctx, f, "List", func() (session.Page, error) { return f.inner.List(ctx, q) })
}

func (f *Faulty) States(ctx context.Context) (map[session.State]int, error) {
	return through(ctx, f, "States", func() (map[session.State]int, error) { return f.inner.States(ctx) })
}

func (f *Faulty) Now(ctx context.Context) (time.Time, error) {
	return through(ctx, f, "Now", func() (time.Time, error) { return f.inner.Now(ctx) })
}

func (f *Faulty) Ping(ctx context.Context) error {
	return throughErr(ctx, f, "Ping", func() error { return f.inner.Ping(ctx) })
}
