package sessiontest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"github.com/agentcube/agentcube/pkg/session"
)

// What the fake takes from the store that it stands for.
const (
	createBound  = 2 * time.Minute
	maxSkew      = 60 * time.Second
	heartbeatTTL = 20 * time.Second
	// scanPage is small, so that tests see several pages.
	scanPage = 10
)

// Fake is a store in memory whose time is the clock's. Its methods are safe
// for concurrent use, and a change or guard may call the store again.
type Fake struct {
	clock clock.PassiveClock

	mu           sync.Mutex
	rows         map[string]entry
	versions     int
	indexes      Indexes
	beats        map[string]time.Time
	installation string
	ended        map[string]ended
}

// entry is a row with what tells it from any other that bore its id.
type entry struct {
	session session.Session
	version int
}

// NewFake returns an empty store.
func NewFake(clk clock.PassiveClock) *Fake {
	return &Fake{
		clock: clk,
		rows:  map[string]entry{},
		beats: map[string]time.Time{},
		ended: map[string]ended{},
		indexes: Indexes{
			Expiry: map[string]time.Time{}, Activity: map[string]time.Time{},
			Due: map[string]time.Time{}, Creating: map[string]time.Time{}, Lists: Lists{},
		},
	}
}

// Put writes a row as it is and no index entry, as a program that knows
// nothing of our indexes would.
func (f *Fake) Put(s session.Session) error {
	s, err := s.Canonical()
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.write(s)
	return nil
}

// Rows returns every row by its id.
func (f *Fake) Rows() map[string]session.Session {
	f.mu.Lock()
	defer f.mu.Unlock()
	rows := make(map[string]session.Session, len(f.rows))
	for id, e := range f.rows {
		rows[id] = e.session.Clone()
	}
	return rows
}

// Indexes returns a copy of all index entries.
func (f *Fake) Indexes() Indexes {
	f.mu.Lock()
	defer f.mu.Unlock()
	return Indexes{
		Expiry: maps.Clone(f.indexes.Expiry), Activity: maps.Clone(f.indexes.Activity),
		Due: maps.Clone(f.indexes.Due), Creating: maps.Clone(f.indexes.Creating), Lists: f.indexes.Lists.clone(),
	}
}

// Drop removes all index entries of an id and leaves its row.
func (f *Fake) Drop(id string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.dropEntries(id)
}

// Wipe empties the store, the installation's id included.
func (f *Fake) Wipe() {
	f.mu.Lock()
	defer f.mu.Unlock()
	fresh := NewFake(f.clock)
	f.rows, f.indexes, f.beats, f.installation, f.ended = fresh.rows, fresh.indexes, fresh.beats, "", fresh.ended
}

// Create is that of the store it stands for, as are all methods below.
func (f *Fake) Create(ctx context.Context, s session.Session) (session.Session, error) {
	if err := ctx.Err(); err != nil {
		return session.Session{}, err
	}
	s.Revision = 1
	s, err := s.Canonical()
	if err != nil {
		return session.Session{}, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if have, ok := f.rows[s.ID]; ok {
		if equal(have.session, s) {
			return s, nil
		}
		return session.Session{}, fmt.Errorf("creating session %s: %w", s.ID, session.ErrExists)
	}
	f.write(s)
	f.indexes.Lists.add(s)
	f.indexes.Activity[s.ID] = floor(s.CreatedAt)
	f.enter(s, f.indexes.Activity[s.ID], s.CreatedAt)
	return s.Clone(), nil
}

func (f *Fake) Get(ctx context.Context, id string) (session.Session, error) {
	e, err := f.read(ctx, id)
	return e.session, err
}

func (f *Fake) Update(ctx context.Context, id string, change func(*session.Session) error) (session.Session, error) {
	return f.End(ctx, id, time.Time{}, change)
}

func (f *Fake) End(ctx context.Context, id string, idleSince time.Time, change func(*session.Session) error) (session.Session, error) {
	for {
		have, err := f.read(ctx, id)
		if err != nil {
			return session.Session{}, err
		}
		next := have.session.Clone()
		if err := change(&next); errors.Is(err, session.ErrUnchanged) {
			return have.session, nil
		} else if err != nil {
			return have.session, err
		}
		if next.ID != id {
			return session.Session{}, fmt.Errorf("turning %s into session %q: %w", id, next.ID, session.ErrInvalid)
		}
		next.Revision = have.session.Revision + 1
		if next, err = next.Canonical(); err != nil {
			return session.Session{}, err
		}
		swapped, err := f.swap(have, next, idleSince)
		if err != nil {
			return session.Session{}, err
		}
		if swapped {
			return next.Clone(), nil
		}
	}
}

// swap writes next if the row still is what was read.
func (f *Fake) swap(have entry, next session.Session, idleSince time.Time) (bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.rows[next.ID].version != have.version {
		return false, nil
	}
	activity, known := f.indexes.Activity[next.ID]
	if known && !idleSince.IsZero() && activity.After(floor(idleSince)) {
		return false, fmt.Errorf("session %s was active meanwhile: %w", next.ID, session.ErrStale)
	}
	now := f.now()
	if activity.After(floor(now).Add(maxSkew)) {
		activity = floor(now)
	}
	if have.session.State == session.StateCreating && next.Live() {
		activity = floor(now)
		f.indexes.Activity[next.ID] = activity
	}
	f.write(next)
	f.indexes.Lists.move(have.session, next)
	f.enter(next, activity, now)
	return true, nil
}

func (f *Fake) Remove(ctx context.Context, id string, guard func(session.Session) error) error {
	for {
		have, err := f.read(ctx, id)
		if err == nil {
			if err := guard(have.session); err != nil {
				return err
			}
		} else if !errors.Is(err, session.ErrNotFound) {
			return err
		}
		f.mu.Lock()
		same := f.rows[id].version == have.version
		if same {
			if err == nil {
				f.ended[id] = ended{session.EndingOf(have.session), f.now().Add(session.EndingKept)}
			}
			delete(f.rows, id)
			f.dropEntries(id)
		}
		f.mu.Unlock()
		if same {
			return err
		}
	}
}

func (f *Fake) Touch(ctx context.Context, activity map[string]time.Time) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for id, at := range activity {
		if last, ok := f.indexes.Activity[id]; ok && floor(at).After(last) {
			f.indexes.Activity[id] = floor(at)
		}
	}
	return nil
}

func (f *Fake) LastActivity(ctx context.Context, id string) (time.Time, error) {
	if err := ctx.Err(); err != nil {
		return time.Time{}, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	last := f.indexes.Activity[id]
	if last.After(floor(f.now()).Add(maxSkew)) {
		last = floor(f.now())
		f.indexes.Activity[id] = last
	}
	return last, nil
}

func (f *Fake) Due(ctx context.Context, limit int) ([]session.Due, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	var due []session.Due
	for id, at := range f.indexes.Due {
		if !at.After(f.now()) {
			due = append(due, session.Due{ID: id, At: at})
		}
	}
	slices.SortFunc(due, func(a, b session.Due) int {
		return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.ID, b.ID))
	})
	return due[:min(limit, len(due))], nil
}

func (f *Fake) Claim(ctx context.Context, id string, next time.Time) (bool, error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	if next.IsZero() {
		return false, fmt.Errorf("claiming session %s: no next time given", id)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	at, ok := f.indexes.Due[id]
	if !ok || at.After(f.now()) {
		return false, nil
	}
	f.indexes.Due[id] = ceil(next)
	return true, nil
}

func (f *Fake) Postpone(ctx context.Context, id string, at time.Time) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if at.IsZero() {
		return fmt.Errorf("postponing session %s: no time given", id)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, ok := f.indexes.Due[id]; ok {
		f.indexes.Due[id] = ceil(at)
	}
	return nil
}

func (f *Fake) Creating(ctx context.Context, after session.Placeholder, limit int) ([]session.Placeholder, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	order := func(a, b session.Placeholder) int {
		return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), cmp.Compare(a.ID, b.ID))
	}
	var page []session.Placeholder
	for id, at := range f.indexes.Creating {
		if p := (session.Placeholder{ID: id, CreatedAt: at}); after == (session.Placeholder{}) || order(p, after) > 0 {
			page = append(page, p)
		}
	}
	slices.SortFunc(page, order)
	return page[:min(limit, len(page))], nil
}

func (f *Fake) Index(ctx context.Context) (int, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	healed, now := 0, f.now()
	for id, e := range f.rows {
		activity, ok := f.indexes.Activity[id]
		if !ok {
			activity = floor(now)
		}
		want := entriesOf(e.session, activity, now)
		want[1] = activity
		for i, index := range f.indexes.all() {
			healed += healEntry(index, id, want[i])
		}
	}
	for _, index := range f.indexes.all() {
		for id := range index {
			if _, ok := f.rows[id]; !ok {
				healed += healEntry(index, id, time.Time{})
			}
		}
	}
	return healed + f.indexes.Lists.heal(f.rows), nil
}

func (f *Fake) Beat(ctx context.Context, process string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.beats[process] = f.now().Add(heartbeatTTL)
	return nil
}

func (f *Fake) Alive(ctx context.Context, processes ...string) (map[string]bool, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	alive := make(map[string]bool, len(processes))
	for _, p := range processes {
		alive[p] = f.now().Before(f.beats[p])
	}
	return alive, nil
}

func (f *Fake) Installation(ctx context.Context) (string, error) {
	if err := ctx.Err(); err != nil {
		return "", err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.installation, nil
}

func (f *Fake) SetInstallation(ctx context.Context, id string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.installation = id
	return nil
}

// Scan returns pages of scanPage rows in the order of their ids; the cursor is
// the place in that order, so rows that come or go meanwhile may shift it.
func (f *Fake) Scan(ctx context.Context, cursor uint64) (rows []session.Row, next uint64, err error) {
	if err := ctx.Err(); err != nil {
		return nil, 0, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	ids := slices.Sorted(maps.Keys(f.rows))
	from := min(int(cursor), len(ids))
	to := min(from+scanPage, len(ids))
	for _, id := range ids[from:to] {
		rows = append(rows, session.RowOf(f.rows[id].session))
	}
	if to < len(ids) {
		next = uint64(to)
	}
	return rows, next, nil
}

func (f *Fake) Now(ctx context.Context) (time.Time, error) { return f.now(), ctx.Err() }

func (f *Fake) Ping(ctx context.Context) error { return ctx.Err() }

func (f *Fake) now() time.Time { return f.clock.Now().Round(0).UTC() }

// read returns a copy; no row has version 0.
func (f *Fake) read(ctx context.Context, id string) (entry, error) {
	if err := ctx.Err(); err != nil {
		return entry{}, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	e, ok := f.rows[id]
	if !ok {
		return entry{}, fmt.Errorf("reading session %s: %w", id, session.ErrNotFound)
	}
	e.session = e.session.Clone()
	return e, nil
}

// write needs mu.
func (f *Fake) write(s session.Session) {
	f.versions++
	f.rows[s.ID] = entry{session: s.Clone(), version: f.versions}
}

// enter sets the entries that follow from the row. It needs mu.
func (f *Fake) enter(s session.Session, activity, now time.Time) {
	want := entriesOf(s, activity, now)
	for i, index := range f.indexes.all() {
		switch {
		case i == 1: // the last activity does not follow from the row
		case want[i].IsZero():
			delete(index, s.ID)
		default:
			index[s.ID] = want[i]
		}
	}
}

// dropEntries needs mu.
func (f *Fake) dropEntries(id string) {
	for _, index := range f.indexes.all() {
		delete(index, id)
	}
	f.indexes.Lists.dropID(id)
}
