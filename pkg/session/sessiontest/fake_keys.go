package sessiontest

import (
	"context"
	"fmt"
	"time"

	"github.com/agentcube/agentcube/pkg/session"
)

// fakeKeys are the sessions that keys name, by the keys' names.
type fakeKeys map[string]fakeKey

type fakeKey struct {
	holder session.KeyHolder
	// until is when the key is free again. Zero: while there is a row.
	until time.Time
}

// KeyHolder is that of the store it stands for.
func (f *Fake) KeyHolder(ctx context.Context, name string) (session.KeyHolder, error) {
	if err := ctx.Err(); err != nil {
		return session.KeyHolder{}, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	holder, ok := f.keys.get(name, f.now())
	if !ok {
		return session.KeyHolder{}, fmt.Errorf("reading an idempotency key: %w", session.ErrNotFound)
	}
	return holder, nil
}

// DropKey forgets a key and leaves its row.
func (f *Fake) DropKey(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.keys, name)
}

// DropRow removes a row and nothing else, as a program that knows nothing of
// our keys would.
func (f *Fake) DropRow(id string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.rows, id)
}

func (k fakeKeys) get(name string, now time.Time) (session.KeyHolder, bool) {
	have, ok := k[name]
	if !ok || (!have.until.IsZero() && !now.Before(have.until)) {
		return session.KeyHolder{}, false
	}
	return have.holder, true
}

// take is called while there is no row of the session.
func (k fakeKeys) take(s session.Session, now time.Time) error {
	if s.Key == (session.RetryKey{}) {
		return nil
	}
	if holder, taken := k.get(s.Key.Name, now); taken && holder == holderOf(s) {
		return session.ErrExists // it has ended
	} else if taken {
		return session.ErrKeyTaken
	}
	k[s.Key.Name] = fakeKey{holder: holderOf(s)}
	return nil
}

func (k fakeKeys) free(s session.Session) {
	if k[s.Key.Name].holder == holderOf(s) {
		delete(k, s.Key.Name)
	}
}

func (k fakeKeys) removed(s session.Session, now time.Time) {
	switch {
	case s.Key == (session.RetryKey{}):
	case !s.Committed():
		k.free(s)
	case k[s.Key.Name].holder == holderOf(s):
		k[s.Key.Name] = fakeKey{holder: holderOf(s), until: now.Add(session.KeyLife)}
	}
}

func (k fakeKeys) heal(rows map[string]entry, now time.Time) (healed int) {
	for _, e := range rows {
		s := e.session
		if _, taken := k.get(s.Key.Name, now); !taken && !s.KeyFreed() && s.Key != (session.RetryKey{}) {
			k[s.Key.Name] = fakeKey{holder: holderOf(s)}
			healed++
		}
	}
	for name, have := range k {
		if _, ok := rows[have.holder.ID]; !ok && have.until.IsZero() {
			have.until = now.Add(session.KeyLife)
			k[name] = have
			healed++
		}
	}
	return healed
}

func holderOf(s session.Session) session.KeyHolder {
	return session.KeyHolder{ID: s.ID, Body: s.Key.Body}
}
