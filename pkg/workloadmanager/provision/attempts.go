package provision

import (
	"context"
	"errors"
	"sync"

	"go.uber.org/zap"

	"github.com/agentcube/agentcube/pkg/session"
)

// errStopped is the cause of the end of a create that the end of the program
// did not wait for any longer.
var errStopped = errors.New("the program ends")

// attempts are the creates that do not end with their request.
type attempts struct {
	running  sync.WaitGroup
	stop     func()
	stopping <-chan struct{}
}

func newAttempts() attempts {
	stopping := make(chan struct{})
	return attempts{stop: sync.OnceFunc(func() { close(stopping) }), stopping: stopping}
}

// attempt is one create that does not end with its request.
type attempt struct {
	// cancel ends it, as a client that goes away ends a create.
	cancel context.CancelCauseFunc
	// reserved is closed once the row exists, which is then in row.
	reserved chan struct{}
	row      session.Session
	// done is closed at the end, and the outcome is then in ready and err.
	done  chan struct{}
	ready session.Session
	err   error
}

// launch begins a create. What becomes of it when nobody waits for it is in the
// row, and in the log.
func (p *Provisioner) launch(ctx context.Context, r Request) *attempt {
	detached, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	a := &attempt{cancel: cancel, reserved: make(chan struct{}), done: make(chan struct{})}
	p.attempts.running.Go(func() {
		defer cancel(nil)
		a.ready, a.err = p.run(detached, r, func(row session.Session) {
			a.row = row
			close(a.reserved)
		})
		if a.err != nil && ctx.Err() != nil && !errors.Is(a.err, session.ErrKeyTaken) {
			p.log.Warn("create that nobody waits for any more failed",
				zap.String("session", a.row.ID), zap.String("workload", r.Workload.Namespace+"/"+r.Workload.Name), zap.Error(a.err))
		}
		close(a.done)
	})
	p.attempts.running.Go(func() {
		select {
		case <-p.attempts.stopping:
			cancel(errStopped)
		case <-a.done:
		}
	})
	return a
}

// Drain returns when no create goes on without a request. Those under way when
// ctx ends are ended, and their undos are what Wait waits for. It is called
// after the last request.
func (p *Provisioner) Drain(ctx context.Context) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		p.attempts.running.Wait()
	}()
	select {
	case <-done:
	case <-ctx.Done():
		p.attempts.stop()
		<-done
	}
}
