package provision

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/agentcube/agentcube/pkg/session"
)

const (
	// lookAgain is how often the row of another's create is read: whether it
	// is ready, and whether its creator lives.
	lookAgain = time.Second
	// silentFor is how long the heartbeat of a creator must be seen to be absent
	// before its create is taken over: two of its periods, since after an outage
	// of the store the living have none either.
	silentFor = 10 * time.Second
)

// Keys tells of the sessions that keys name, and which creators live.
type Keys interface {
	// KeyHolder is session.ErrNotFound for a key that is free.
	KeyHolder(ctx context.Context, name string) (session.KeyHolder, error)
	Alive(ctx context.Context, processes ...string) (map[string]bool, error)
}

// Changes tells of changes of rows, whoever writes them.
type Changes interface {
	// Subscribe signals changes of the row until the func is called. It may miss
	// some, and tell of more than there were.
	Subscribe(id string) (<-chan struct{}, func())
}

// Call is a create that does not end with its request.
type Call struct {
	// Key names it, so that the same call finds what an earlier one made. Zero:
	// none.
	Key session.RetryKey
	// Async: the caller is answered as soon as the session is reserved.
	Async bool
	// Order says what to create. It is asked for each attempt, and not if the
	// key names a session already.
	Order func(context.Context) (Request, error)
}

// Submit returns the session that the key names, or makes one. It comes ready,
// or, if the call is async, at least reserved. A create with a key goes on when
// ctx ends, as does one that was answered; when that fails it is undone like
// any other, and the key is free again.
//
// It waits for a create under way with the same key, whichever process runs
// it, for as long as a create may take, and makes an attempt of its own, in as
// much time, when the creator is dead or has failed.
//
// Errors: those of Create and of Order, ErrKeyReused and ErrEnded.
func (p *Provisioner) Submit(ctx context.Context, call Call) (session.Session, error) {
	bounded, cancel := context.WithTimeoutCause(ctx, p.options.CreateBound, errBound)
	defer cancel()
	for {
		if call.Key != (session.RetryKey{}) {
			row, err := p.find(bounded, call)
			if !errors.Is(err, session.ErrNotFound) {
				return row, err
			}
		}
		// An attempt has its own bound, which says what it waited for.
		row, err := p.makeNew(ctx, call)
		if !errors.Is(err, session.ErrKeyTaken) {
			return row, err
		}
	}
}

func (p *Provisioner) makeNew(ctx context.Context, call Call) (session.Session, error) {
	r, err := call.Order(ctx)
	if err != nil {
		return session.Session{}, err
	}
	r.Key = call.Key
	waiting, cancel := context.WithCancel(ctx) // ends when nobody waits any more
	defer cancel()
	a := p.launch(waiting, r)
	var reserved <-chan struct{} // nil: not enough
	if call.Async {
		reserved = a.reserved
	}
	select {
	case <-a.done:
		return a.ready, a.err
	case <-reserved:
		return a.row, nil
	case <-ctx.Done():
		if call.Key == (session.RetryKey{}) {
			a.cancel(ctx.Err()) // nobody would know the session
		}
		return session.Session{}, fmt.Errorf("%w: %w", ErrClientGone, ctx.Err())
	}
}

// search is how the session of a key is waited for.
type search struct {
	call Call
	// silent is the creator without a heartbeat, and since when it is known to
	// have none.
	silent session.Creator
	since  time.Time
}

// find returns the session that the key names, once it is as the call wants it.
// session.ErrNotFound: the key is free.
func (p *Provisioner) find(ctx context.Context, call Call) (session.Session, error) {
	s := &search{call: call}
	var (
		changed     <-chan struct{} // signals a change of the row; nil: of none
		of          string
		unsubscribe = func() {}
	)
	defer func() { unsubscribe() }()
	for {
		row, found, err := p.lookUp(ctx, s)
		if found || err != nil {
			return row, p.waitFailed(ctx, err)
		}
		if row.ID == "" {
			continue // the key has passed to another meanwhile
		}
		if row.ID != of {
			unsubscribe()
			of = row.ID
			changed, unsubscribe = p.changes.Subscribe(of)
			continue // it may have changed before
		}
		timer := p.clock.NewTimer(lookAgain)
		select {
		case <-changed:
		case <-timer.C():
		case <-ctx.Done():
		}
		timer.Stop()
		if ctx.Err() != nil {
			return session.Session{}, p.waitFailed(ctx, context.Cause(ctx))
		}
	}
}

// waitFailed tells apart the client that went away, our own bound and a failure.
func (p *Provisioner) waitFailed(ctx context.Context, err error) error {
	if err == nil || ctx.Err() == nil {
		return err
	}
	// Without err: whatever the last look found, there is no time left for it.
	return p.outcome(ctx, &creation{waiting: "the create that began with this idempotency key"}, context.Cause(ctx))
}

// lookUp is one look. found: the session is as the call wants it.
func (p *Provisioner) lookUp(ctx context.Context, s *search) (row session.Session, found bool, err error) {
	holder, err := p.store.KeyHolder(ctx, s.call.Key.Name)
	if err != nil {
		return row, false, err
	}
	if holder.Body != s.call.Key.Body {
		return row, false, ErrKeyReused
	}
	row, err = p.store.Get(ctx, holder.ID)
	switch {
	case errors.Is(err, session.ErrNotFound):
		return row, false, p.endedOrFree(ctx, s, holder)
	case err != nil:
		return row, false, err
	case row.Ended(p.clock.Now()):
		return row, false, fmt.Errorf("session %s: %w", row.ID, ErrEnded)
	case row.Live():
		return row, true, nil
	case row.State == session.StateCreating:
		if s.call.Async {
			return row, true, nil
		}
		return row, false, p.takeOver(ctx, s, row)
	default:
		// Its create has failed: the key was freed since it was read.
		return row, false, nil
	}
}

// endedOrFree is why there is no row: the session has ended, or its create has
// failed since the key was read, which has freed the key before the row went.
func (p *Provisioner) endedOrFree(ctx context.Context, s *search, was session.KeyHolder) error {
	is, err := p.store.KeyHolder(ctx, s.call.Key.Name)
	switch {
	case err != nil:
		return err
	case is == was:
		return fmt.Errorf("session %s: %w", is.ID, ErrEnded)
	default:
		return nil // another has it by now
	}
}

// takeOver undoes the create of a dead creator, which frees the key. The
// creator, if it lives after all, finds the mark at its commit; the collector
// deletes what the create has made.
func (p *Provisioner) takeOver(ctx context.Context, s *search, row session.Session) error {
	if row.Creator.Process == p.options.Process {
		return nil // it may have no heartbeat while the store does not take one
	}
	alive, err := p.store.Alive(ctx, row.Creator.Process)
	if err != nil {
		return err
	}
	now := p.clock.Now()
	switch {
	case alive[row.Creator.Process]:
		s.silent = session.Creator{}
		return nil
	case s.silent != row.Creator:
		s.silent, s.since = row.Creator, now
		return nil
	case now.Sub(s.since) < silentFor:
		return nil
	}
	_, err = p.store.Update(ctx, row.ID, session.Abandon(row.Creator, now.Add(p.options.UnknownBound)))
	if err != nil {
		return ignore(err, session.ErrNotFound, session.ErrStale)
	}
	p.log.Info("took over an idempotency key from a creator that is gone",
		zap.String("session", row.ID), zap.String("creator", row.Creator.Process))
	return session.ErrNotFound // the key is free
}
