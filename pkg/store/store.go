// Package store keeps sessions in Redis or Valkey, 6.2 or later. It owns
// everything that knows Redis: the key space, the scripts, the form of a row,
// and what an answer or its absence means.
//
// It does not own what a session may become: every change is a function of
// pkg/session, run here by compare-and-set. A script never decodes a row. It
// compares the whole old value, byte by byte, and writes the new one with its
// index entries, so that row and indexes cannot disagree.
package store

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"
	"k8s.io/utils/clock"

	"github.com/agentcube/agentcube/pkg/session"
)

// Defaults of Options.
const (
	// DefaultCallTimeout bounds a call, its retries included.
	DefaultCallTimeout = 3 * time.Second
	// DefaultCreateBound is the create bound of 110 s and a margin for the
	// undo that its creator runs.
	DefaultCreateBound = 2 * time.Minute
	// DefaultMaxSkew is how far ahead of the store's clock an activity may lie.
	DefaultMaxSkew = 60 * time.Second
	// DefaultPage is how many rows one step of Index or Scan reads.
	DefaultPage = 500
	// DefaultSilence is how long a server that is followed may be silent.
	DefaultSilence = time.Second
	// HeartbeatTTL is how long a process counts as alive after a Beat.
	HeartbeatTTL = 20 * time.Second

	// conflicts bounds how often one Update loses before it gives up.
	conflicts = 200
	// waitPause lies between two attempts of Wait.
	waitPause = 500 * time.Millisecond
)

// Options of a store. Zero values mean the defaults.
type Options struct {
	// CallTimeout bounds each call; Index, Wait: each step of it.
	CallTimeout time.Duration
	// CreateBound is the age at which the collector looks at a placeholder.
	CreateBound time.Duration
	// MaxSkew is how far ahead of the store's clock an activity may lie before
	// it counts as now.
	MaxSkew time.Duration
	// Page is how many rows or index members one step of Index or Scan reads.
	Page int
	// Silence is how long a server that is followed may be silent before it
	// counts as not answering.
	Silence time.Duration
	// Metrics count the calls. Nil: nobody does.
	Metrics *Metrics
}

func (o Options) withDefaults() Options {
	if o.CallTimeout <= 0 {
		o.CallTimeout = DefaultCallTimeout
	}
	if o.CreateBound <= 0 {
		o.CreateBound = DefaultCreateBound
	}
	if o.MaxSkew <= 0 {
		o.MaxSkew = DefaultMaxSkew
	}
	if o.Page <= 0 {
		o.Page = DefaultPage
	}
	if o.Silence <= 0 {
		o.Silence = DefaultSilence
	}
	return o
}

// Redis is a store of sessions. Its methods are safe for concurrent use.
//
// Besides the errors their comments name, all methods return ErrUnavailable
// when the store did not answer as it should, and the context's error alone
// when the caller cancelled.
type Redis struct {
	clock   clock.Clock
	client  redis.UniversalClient
	options Options
	keys    keys
}

// New returns a store on the client, which it owns from here on. The client
// must have ContextTimeoutEnabled, or else no deadline reaches a socket that
// hangs; Client builds one. The clock only paces Wait: whatever is decided by
// time is decided by the store's own clock.
func New(clk clock.Clock, client redis.UniversalClient, o Options) *Redis {
	if o.Metrics != nil {
		client.AddHook(o.Metrics)
	}
	return &Redis{clock: clk, client: client, options: o.withDefaults(), keys: newKeys()}
}

// Ping asks the store for an answer.
func (r *Redis) Ping(ctx context.Context) error {
	return r.do(ctx, "pinging", func(ctx context.Context) error {
		return r.client.Ping(ctx).Err()
	})
}

// Wait returns when the store answers, or with the last failure when ctx ends.
func (r *Redis) Wait(ctx context.Context) error {
	for {
		err := r.Ping(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return err
		case <-r.clock.After(waitPause):
		}
	}
}

// Now is the store's clock.
func (r *Redis) Now(ctx context.Context) (time.Time, error) {
	var now time.Time
	err := r.do(ctx, "reading the store's clock", func(ctx context.Context) (err error) {
		now, err = r.client.Time(ctx).Result()
		return err
	})
	return now.UTC(), err
}

// Close closes the connections. Calls in flight fail.
func (r *Redis) Close() error { return r.client.Close() }

// do runs one call within the call timeout and translates its failure.
func (r *Redis) do(ctx context.Context, what string, call func(context.Context) error) error {
	bounded, cancel := context.WithTimeout(ctx, r.options.CallTimeout)
	defer cancel()
	return translate(ctx, what, call(bounded))
}

// Due and Placeholder are what the indexes return.
type (
	Due         = session.Due
	Placeholder = session.Placeholder
)
