// Package sessiontest owns what tests need of a store of sessions: a Fake in
// memory, Faulty, which makes any store fail in chosen ways, and Run, the one
// contract that every store must pass.
//
// It holds no rule of its own: what the fake decides is decided by
// pkg/session, as in the store that it stands for.
package sessiontest

import (
	"context"
	"time"

	"github.com/agentcube/agentcube/pkg/session"
)

// Store is everything that a store of sessions does. Consumers declare the few
// methods that they need; only tests need the whole.
type Store interface {
	Create(ctx context.Context, s session.Session) (session.Session, error)
	Get(ctx context.Context, id string) (session.Session, error)
	Update(ctx context.Context, id string, change func(*session.Session) error) (session.Session, error)
	End(ctx context.Context, id string, idleSince time.Time, change func(*session.Session) error) (session.Session, error)
	Remove(ctx context.Context, id string, guard func(session.Session) error) error
	Ended(ctx context.Context, id string) (session.Ending, error)

	Look(ctx context.Context, id string) (session.Snapshot, error)
	Keep(ctx context.Context, id string, guard func(session.Snapshot) error) error
	Touch(ctx context.Context, activity map[string]time.Time) error
	LastActivity(ctx context.Context, id string) (time.Time, error)

	Due(ctx context.Context, limit int) ([]session.Due, error)
	Claim(ctx context.Context, id string, next time.Time) (bool, error)
	Postpone(ctx context.Context, id string, at time.Time) error
	Creating(ctx context.Context, after session.Placeholder, limit int) ([]session.Placeholder, error)
	Index(ctx context.Context) (healed int, err error)
	Scan(ctx context.Context, cursor uint64) (rows []session.Row, next uint64, err error)
	List(ctx context.Context, q session.Query) (session.Page, error)
	States(ctx context.Context) (map[session.State]int, error)

	Beat(ctx context.Context, process string) error
	Alive(ctx context.Context, processes ...string) (map[string]bool, error)
	Installation(ctx context.Context) (string, error)
	SetInstallation(ctx context.Context, id string) error
	Now(ctx context.Context) (time.Time, error)
	Ping(ctx context.Context) error
}

// Indexes are the entries of every index, as they are kept: in full seconds.
type Indexes struct {
	Expiry, Activity, Due, Creating map[string]time.Time
	// Lists that are not empty.
	Lists Lists
}
