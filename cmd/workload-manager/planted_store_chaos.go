//go:build chaos

package main

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/agentcube/agentcube/pkg/config"
	"github.com/agentcube/agentcube/pkg/session"
	"github.com/agentcube/agentcube/pkg/store"
)

// plantedStore is the store with the planted bug, if that is one of its own.
type plantedStore struct {
	*crashingStore
	raw    redis.UniversalClient
	unsent sync.Map // object -> the row that is written after it
	first  sync.Map // session -> its first entry points
}

// unwritten finds the rows that are yet to be written.
var unwritten *plantedStore

func newPlantedStore(cfg config.WorkloadManager, s *crashingStore) *plantedStore {
	p := &plantedStore{crashingStore: s}
	if planted == bugRemoveForgetsIndex || planted == bugKeyAfterRow {
		p.raw = store.Client(store.Config{Addrs: []string{cfg.Store.Addr}, Password: cfg.Store.Password})
	}
	unwritten = p
	return p
}

func objectKey(r session.ObjectRef) session.ObjectRef { r.UID = ""; return r }

func (p *plantedStore) Create(ctx context.Context, s session.Session) (session.Session, error) {
	if planted == bugRowAfterObject {
		p.unsent.Store(objectKey(s.Object), s)
		return s, nil
	}
	if planted == bugKeyAfterRow && s.Key != (session.RetryKey{}) {
		return p.createThenKey(ctx, s)
	}
	return p.crashingStore.Create(ctx, s)
}

// beforeKey is how long a key is free after the row was written.
const beforeKey = 200 * time.Millisecond

func (p *plantedStore) createThenKey(ctx context.Context, s session.Session) (session.Session, error) {
	key := s.Key
	s.Key = session.RetryKey{}
	if created, err := p.crashingStore.Create(ctx, s); err != nil {
		return created, err
	}
	time.Sleep(beforeKey)
	p.raw.SetNX(ctx, "agentcube:key:"+key.Name, s.ID+" "+key.Body, 0)
	return p.crashingStore.Update(ctx, s.ID, func(row *session.Session) error {
		row.Key = key
		return nil
	})
}

// write writes the row of an object that exists now.
func (p *plantedStore) write(ctx context.Context, object session.ObjectRef) {
	if s, ok := p.unsent.LoadAndDelete(objectKey(object)); ok {
		_, _ = p.crashingStore.Create(ctx, s.(session.Session))
	}
}

func (p *plantedStore) Update(ctx context.Context, id string, change func(*session.Session) error) (session.Session, error) {
	return p.crashingStore.Update(ctx, id, p.change(change))
}

func (p *plantedStore) End(ctx context.Context, id string, idleSince time.Time, change func(*session.Session) error) (session.Session, error) {
	if planted == bugCollectorIgnoresActivity {
		idleSince = time.Time{}
	}
	return p.crashingStore.End(ctx, id, idleSince, p.change(change))
}

func (p *plantedStore) LastActivity(ctx context.Context, id string) (time.Time, error) {
	if planted == bugCollectorIgnoresActivity {
		return time.Time{}, nil
	}
	return p.crashingStore.LastActivity(ctx, id)
}

func (p *plantedStore) Remove(ctx context.Context, id string, guard func(session.Session) error) error {
	err := p.crashingStore.Remove(ctx, id, guard)
	if planted == bugRemoveForgetsIndex && err == nil {
		p.raw.ZAdd(ctx, "session:last_activity", redis.Z{Score: 1, Member: id})
	}
	return err
}

// change is the change with the bug in it.
func (p *plantedStore) change(change func(*session.Session) error) func(*session.Session) error {
	return func(s *session.Session) error {
		before := s.Clone()
		err := change(s)
		switch {
		case planted == bugCommitWithoutToken && errors.Is(err, session.ErrStale) && before.State == session.StateDeleting:
			// What only a reservation is given, is given to this row too.
			pretended := before.Clone()
			pretended.State = session.StateCreating
			if change(&pretended) == nil {
				*s, err = pretended, nil
			}
		case err == nil && planted == bugRefreshKeepsAddress && len(s.EntryPoints) > 0:
			first, _ := p.first.LoadOrStore(s.ID, s.EntryPoints)
			s.EntryPoints = first.([]session.EntryPoint)
		case err == nil && s.State == session.StateDeleting &&
			(planted == bugDeleteOnlyRow && before.Live() || planted == bugUndoForgets && before.State == session.StateCreating):
			spared.Store(objectKey(s.Object), true)
		}
		return err
	}
}
