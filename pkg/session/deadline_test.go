package session

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

var born = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)

func TestLifetimes(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		given Lifetimes
		want  time.Time
	}{
		"neither a bound nor a wish is unlimited": {Lifetimes{}, time.Time{}},
		"without a wish the bound counts":         {Lifetimes{Max: time.Hour}, born.Add(time.Hour)},
		"a shorter wish counts":                   {Lifetimes{Max: time.Hour, TTL: time.Minute}, born.Add(time.Minute)},
		"a longer wish is capped":                 {Lifetimes{Max: time.Hour, TTL: 25 * time.Hour}, born.Add(time.Hour)},
		"a wish as long as the bound is both":     {Lifetimes{Max: time.Hour, TTL: time.Hour}, born.Add(time.Hour)},
		"a wish without a bound counts":           {Lifetimes{TTL: time.Minute}, born.Add(time.Minute)},
		"the idle timeout does not matter":        {Lifetimes{Idle: time.Second, Max: time.Hour}, born.Add(time.Hour)},
	}
	for rule, c := range cases {
		t.Run(rule, func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, c.want, c.given.ExpiresAt(born))
		})
	}
}

func TestExpired(t *testing.T) {
	t.Parallel()
	limited, unlimited := Session{ExpiresAt: born}, Session{}
	assert.False(t, limited.Expired(born.Add(-1)))
	assert.True(t, limited.Expired(born))
	assert.True(t, limited.Expired(born.Add(1)))
	assert.False(t, unlimited.Expired(born.AddDate(1000, 0, 0)), "unlimited never expires")
}

func TestDeadline(t *testing.T) {
	t.Parallel()
	const idle = 15 * time.Minute
	idleEnd := born.Add(time.Minute + idle + 5*time.Second)
	cases := map[string]struct {
		given    Session
		activity time.Time
		want     time.Time
		reason   string
	}{
		"neither limit: never":                      {Session{CreatedAt: born}, born, time.Time{}, ""},
		"idle only: the last activity and a grace":  {Session{IdleTimeout: idle}, born.Add(time.Minute), idleEnd, "idle"},
		"idle, no activity known: since creation":   {Session{CreatedAt: born.Add(time.Minute), IdleTimeout: idle}, time.Time{}, idleEnd, "idle"},
		"idle, nothing known: never":                {Session{IdleTimeout: idle}, time.Time{}, time.Time{}, ""},
		"a negative idle timeout is none":           {Session{IdleTimeout: -1}, born, time.Time{}, ""},
		"expiry only":                               {Session{ExpiresAt: born}, born, born, "expired"},
		"idle before expiry":                        {Session{IdleTimeout: idle, ExpiresAt: idleEnd.Add(1)}, born.Add(time.Minute), idleEnd, "idle"},
		"expiry before idle":                        {Session{IdleTimeout: idle, ExpiresAt: idleEnd.Add(-1)}, born.Add(time.Minute), idleEnd.Add(-1), "expired"},
		"both at once: expired":                     {Session{IdleTimeout: idle, ExpiresAt: idleEnd}, born.Add(time.Minute), idleEnd, "expired"},
		"idle, nothing known, but an expiry":        {Session{IdleTimeout: idle, ExpiresAt: born}, time.Time{}, born, "expired"},
		"the shortest idle timeout has a grace too": {Session{IdleTimeout: 1}, born, born.Add(5*time.Second + 1), "idle"},
	}
	for rule, c := range cases {
		t.Run(rule, func(t *testing.T) {
			t.Parallel()
			at, reason := c.given.Deadline(c.activity)
			assert.Equal(t, c.want, at)
			assert.Equal(t, c.reason, reason)
		})
	}
}

func TestNextLook(t *testing.T) {
	t.Parallel()
	const bound = 2 * time.Minute
	now := born.Add(time.Hour)
	base := Session{CreatedAt: born, IdleTimeout: time.Minute, ExpiresAt: born.Add(8 * time.Hour)}
	in := func(state State, attempts int) Session {
		s := base
		s.State, s.Attempts = state, attempts
		return s
	}
	unknown := func(until time.Time) Session {
		s := in(StateDeleting, 1)
		s.UnknownUntil = until
		return s
	}
	cases := map[string]struct {
		given Session
		want  time.Time
	}{
		"deleting, what became of it known sooner: then":       {unknown(now.Add(time.Second)), now.Add(time.Second)},
		"deleting, what became of it known later: the attempt": {unknown(now.Add(time.Minute)), now.Add(30 * time.Second)},
		"deleting, what became of it known now: the attempt":   {unknown(now), now.Add(30 * time.Second)},
		"creating: at the create bound":                        {in(StateCreating, 0), born.Add(bound)},
		"deleting: at the next attempt":                        {in(StateDeleting, 0), now.Add(15 * time.Second)},
		"deleting, failed once: later":                         {in(StateDeleting, 1), now.Add(30 * time.Second)},
		"ready: at the first deadline":                         {in(StateReady, 0), now.Add(time.Minute + 5*time.Second)},
		"not ready: lifetimes go on":                           {in(StateNotReady, 0), now.Add(time.Minute + 5*time.Second)},
		"suspended: lifetimes go on":                           {in(StateSuspended, 0), now.Add(time.Minute + 5*time.Second)},
		"a state of a newer build: they go on":                 {in("parked", 0), now.Add(time.Minute + 5*time.Second)},
		"ready without limits: never":                          {Session{State: StateReady, CreatedAt: born}, time.Time{}},
		"ready, expiring first: at the hard end":               {Session{State: StateReady, ExpiresAt: born, IdleTimeout: time.Hour}, born},
	}
	for rule, c := range cases {
		t.Run(rule, func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, c.want, c.given.NextLook(now, now, bound))
		})
	}
}

func TestRetryAfterDoublesUpToItsBound(t *testing.T) {
	t.Parallel()
	for attempts, want := range map[int]time.Duration{
		-1: 15 * time.Second, 0: 15 * time.Second, 1: 30 * time.Second, 2: time.Minute, 3: 2 * time.Minute, 4: 2 * time.Minute, 1 << 40: 2 * time.Minute,
	} {
		assert.Equal(t, want, RetryAfter(attempts), attempts)
	}
}
