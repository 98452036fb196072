package store

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
	"golang.org/x/sync/errgroup"
)

const (
	// invalidations is the channel of that name of the server's.
	invalidations = "__redis__:invalidate"
	// askInterval lies between two questions whether the server still answers.
	askInterval = 250 * time.Millisecond
	// openQuestions bounds those that are not answered yet.
	openQuestions = 64
	// followPause lies between two attempts to connect.
	followPause = 100 * time.Millisecond
)

// Follower is told what happens to rows. Its methods are called by one
// goroutine, in the order in which things happened.
type Follower interface {
	// Connected: the store answers on a new connection a question asked at
	// the given time. What happened before may not have been told. With tells
	// every change is told from here on; without, none is.
	Connected(asked time.Time, tells bool)
	// Answered: the store has answered a question asked at the given time.
	// Every change before that was told.
	Answered(asked time.Time)
	// Changed names rows that were written or removed.
	Changed(ids []string)
	// Lost: the connection is lost, or one could not be made. silent: the
	// server was waited for in vain, rather than refusing or hanging up.
	Lost(silent bool, err error)
	// Unfollowed: the server answers, but refuses to be followed, and Follow
	// ends. Nothing is told from here on.
	Unfollowed()
}

// ErrNotFollowed: the store cannot be followed. It can be read all the same.
var ErrNotFollowed = errors.New("store cannot be followed")

// Follow tells the follower of every change to a row until ctx ends, within
// a moment of it, and returns nil. It keeps one connection to the server, on
// which the server names all rows that anybody writes (client tracking in
// broadcast mode), and a question a few times a second proves that it is
// alive. A server that cannot track only answers the questions. ErrNotFollowed
// at once for a Cluster, and for a server that refuses even those.
//
// Broadcasts are chosen over a client's own cache of replies (that of
// go-redis): it keeps what was sent, which each hit would decode again; it
// forgets everything when the connection is lost, which is when it is needed
// most; and it looks for what the server told on pooled connections from time
// to time. One connection that is always read is told within a millisecond,
// and works with Sentinels; the server need not remember who read what.
func (r *Redis) Follow(ctx context.Context, f Follower) error {
	own, ok := r.client.(*redis.Client)
	if !ok {
		return fmt.Errorf("each node of a Cluster tells of its own rows only: %w", ErrNotFollowed)
	}
	for ctx.Err() == nil {
		connected, err := r.follow(ctx, newLine(own, r.options.Silence), f)
		switch {
		case ctx.Err() != nil:
			return nil //nolint:nilerr // the caller ended it
		case errors.Is(err, ErrNotFollowed):
			f.Unfollowed() // it may have been lost before, and would stay so
			return err
		}
		f.Lost(isSilence(err), translate(ctx, "following the store", err))
		if connected {
			continue // it may have been the connection only
		}
		select {
		case <-ctx.Done():
		case <-r.clock.After(followPause):
		}
	}
	return nil
}

// isSilence reports whether a peer was waited for in vain.
func isSilence(err error) bool {
	var network net.Error
	return errors.As(err, &network) && network.Timeout()
}

// follow reads one connection until it is lost. connected: there was one.
func (r *Redis) follow(ctx context.Context, l *line, f Follower) (connected bool, err error) {
	defer l.close()
	asked := r.clock.Now()
	if err := l.open(ctx); err != nil {
		return false, err
	}
	// The client's own connections may need a little longer: after some failed
	// dials go-redis tries only once a second (internal/pool, tryDial), and fails
	// every call meanwhile. Until they work nothing can be read.
	if err := r.client.Ping(ctx).Err(); err != nil {
		return false, fmt.Errorf("asking on the other connections: %w", err)
	}
	f.Connected(asked, l.tells)

	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return r.ask(ctx, l) })
	group.Go(func() error { return r.listen(ctx, l, f) })
	group.Go(func() error {
		<-ctx.Done() // a read ends with its connection, not with its context
		l.close()
		return nil
	})
	return true, group.Wait()
}

// ask asks a few times a second whether the server is there.
func (r *Redis) ask(ctx context.Context, l *line) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-r.clock.After(askInterval):
		}
		select {
		case l.asked <- r.clock.Now():
		default:
			continue // so many questions are open that silence will end it
		}
		if err := l.sub.Ping(ctx); err != nil {
			return fmt.Errorf("asking whether the server is there: %w", err)
		}
	}
}

// listen reads what the server tells. Answers come in the order of the
// questions.
func (r *Redis) listen(ctx context.Context, l *line, f Follower) error {
	for {
		message, err := l.sub.ReceiveTimeout(ctx, r.options.Silence)
		if err != nil {
			// Also when everything was flushed, which the client cannot read.
			return fmt.Errorf("listening to the server: %w", err)
		}
		switch m := message.(type) {
		case *redis.Pong:
			f.Answered(<-l.asked)
		case *redis.Message:
			if ids := r.keys.ids(m.PayloadSlice); len(ids) > 0 {
				f.Changed(ids)
			}
		}
	}
}

// line is one connection on which a server tells of changes.
type line struct {
	silence time.Duration
	client  *redis.Client
	sub     *redis.PubSub
	// opened: the one connection was made. The client would make another when
	// it is lost, unnoticed.
	opened bool
	// tells: the server tells of changes.
	tells bool
	// asked holds the times of questions that are not answered yet.
	asked chan time.Time
}

// newLine prepares a line to the server of the client.
func newLine(own *redis.Client, silence time.Duration) *line {
	l := &line{silence: silence, asked: make(chan time.Time, openQuestions)}
	o := *own.Options()
	// In this version of the protocol what the server tells is a message.
	o.Protocol = 2
	o.OnConnect = l.track
	o.DialTimeout, o.ReadTimeout, o.WriteTimeout, o.PoolTimeout = silence, silence, silence, silence
	o.MaxRetries, o.PoolSize, o.MinIdleConns = -1, 1, 0
	o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	l.client = redis.NewClient(&o)
	return l
}

// open connects and waits until the server confirms.
func (l *line) open(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, l.silence)
	defer cancel()
	l.sub = l.client.Subscribe(ctx, invalidations)
	message, err := l.sub.ReceiveTimeout(ctx, l.silence)
	switch _, confirmed := message.(*redis.Subscription); {
	case err != nil && isAnswer(err) && !passes(err):
		return fmt.Errorf("%w: %w", ErrNotFollowed, err)
	case err != nil:
		return fmt.Errorf("connecting: %w", err)
	case !confirmed:
		return fmt.Errorf("connecting: the server says %v", message)
	}
	return nil
}

// track makes the server tell of rows on this connection. The prefixes are
// those of ids, so that of the indexes next to nothing is told.
func (l *line) track(ctx context.Context, conn *redis.Conn) error {
	if l.opened {
		return errors.New("the connection was lost")
	}
	l.opened = true
	id, err := conn.ClientID(ctx).Result()
	if err == nil {
		args := []any{"CLIENT", "TRACKING", "ON", "REDIRECT", id, "BCAST"}
		for _, digit := range "0123456789abcdef" {
			args = append(args, "PREFIX", newKeys().row(string(digit)))
		}
		err = conn.Do(ctx, args...).Err()
	}
	if err != nil && isAnswer(err) && !passes(err) {
		return nil // it cannot, or we may not
	}
	l.tells = err == nil
	return err
}

// passes reports whether a refusal has nothing to do with what was asked.
func passes(err error) bool { return isRefusal(err) && !hasCode(err, "NOPERM") }

// close ends the connection. It may be called more than once.
func (l *line) close() {
	if l.sub != nil {
		_ = l.sub.Close() // closed before is closed
	}
	_ = l.client.Close()
}
