package session

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// lasting is a ready session that was born an hour ago, ends in an hour, and
// may last eight.
func lasting(change ...func(*Session)) Session {
	s := in(StateReady)
	s.CreatedAt, s.ExpiresAt = born, born.Add(2*time.Hour)
	s.MaxDuration, s.IdleTimeout = 8*time.Hour, 15*time.Minute
	for _, c := range change {
		c(&s)
	}
	return s
}

func TestCeilings(t *testing.T) {
	t.Parallel()
	theirs := func(s *Session) { s.Creator, s.MaxDuration = Creator{}, 0 }
	for sentence, c := range map[string]struct {
		given Session
		want  time.Time
	}{
		"the template's maximum from the creation on":               {lasting(), born.Add(8 * time.Hour)},
		"none of an unlimited template, whatever was asked for":     {lasting(func(s *Session) { s.MaxDuration = 0 }), time.Time{}},
		"none of an unlimited session":                              {lasting(func(s *Session) { s.MaxDuration, s.ExpiresAt = 0, time.Time{} }), time.Time{}},
		"a row that records no maximum was given all of it":         {lasting(theirs), born.Add(2 * time.Hour)},
		"a row that records none and is unlimited has none":         {lasting(theirs, func(s *Session) { s.ExpiresAt = time.Time{} }), time.Time{}},
		"a row that does not say when it was made lasts as it does": {lasting(theirs, func(s *Session) { s.CreatedAt = time.Time{} }), born.Add(2 * time.Hour)},
		"a row that records none remembers it once it has been lowered": {func() Session {
			s := lasting(theirs)
			_ = Announce("t", Change{ExpiresAt: born.Add(time.Minute)})(&s)
			return s
		}(), born.Add(2 * time.Hour)},
	} {
		t.Run(sentence, func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, c.want, c.given.Ceiling())
		})
	}
}

func TestAnnouncements(t *testing.T) {
	t.Parallel()
	for sentence, c := range map[string]struct {
		given  Session
		change Change
		want   func(*Session)
		goal   time.Time
	}{
		"a shorter life is so at once": {
			lasting(),
			Change{ExpiresAt: born.Add(90 * time.Minute)},
			func(s *Session) { s.ExpiresAt, s.Pending.Life = born.Add(90*time.Minute), true }, born.Add(90 * time.Minute),
		},
		"a longer life waits for the object": {
			lasting(),
			Change{ExpiresAt: born.Add(3 * time.Hour)},
			func(s *Session) { s.Pending.Life = true }, born.Add(3 * time.Hour),
		},
		"a life longer than allowed is capped": {
			lasting(),
			Change{ExpiresAt: born.Add(25 * time.Hour)},
			func(s *Session) { s.Pending.Life = true }, born.Add(8 * time.Hour),
		},
		"an unlimited life becomes a limited one at once": {
			lasting(func(s *Session) { s.ExpiresAt, s.MaxDuration = time.Time{}, 0 }),
			Change{ExpiresAt: born.Add(25 * time.Hour)},
			func(s *Session) { s.ExpiresAt, s.Pending.Life = born.Add(25*time.Hour), true }, born.Add(25 * time.Hour),
		},
		"an idle timeout is so at once, and the life as it was": {
			lasting(),
			Change{Idle: time.Minute},
			func(s *Session) { s.IdleTimeout, s.Pending.Idle = time.Minute, true }, born.Add(2 * time.Hour),
		},
		"both": {
			lasting(),
			Change{ExpiresAt: born.Add(3 * time.Hour), Idle: time.Minute},
			func(s *Session) { s.IdleTimeout, s.Pending.Idle, s.Pending.Life = time.Minute, true, true }, born.Add(3 * time.Hour),
		},
		"an earlier one that is not settled is taken over": {
			lasting(func(s *Session) { s.Pending = Pending{Token: "theirs", Life: true} }),
			Change{Idle: time.Minute},
			func(s *Session) { s.IdleTimeout, s.Pending.Idle = time.Minute, true }, born.Add(2 * time.Hour),
		},
		"nothing new takes an earlier one over": {
			lasting(func(s *Session) { s.Pending = Pending{Token: "theirs", Life: true} }),
			Change{},
			func(*Session) {}, born.Add(2 * time.Hour),
		},
		"of a session that is not ready": {
			lasting(func(s *Session) { s.State = StateNotReady }),
			Change{Idle: time.Minute},
			func(s *Session) { s.IdleTimeout, s.Pending.Idle = time.Minute, true }, born.Add(2 * time.Hour),
		},
		"of a suspended session": {
			lasting(func(s *Session) { s.State = StateSuspended }),
			Change{Idle: time.Minute},
			func(s *Session) { s.IdleTimeout, s.Pending.Idle = time.Minute, true }, born.Add(2 * time.Hour),
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			t.Parallel()
			want, got := c.given, c.given
			c.want(&want)
			want.Pending.Token = "mine"
			c.change.At = born.Add(time.Hour)
			announce := Announce("mine", c.change)
			require.NoError(t, announce(&got))
			assert.Equal(t, want, got)
			assert.Equal(t, c.goal, got.Goal(c.change))
			require.ErrorIs(t, announce(&got), ErrUnchanged, "it may be repeated")
			assert.Equal(t, want, got)
		})
	}
}

func TestWhatIsOverIsNotChanged(t *testing.T) {
	t.Parallel()
	change := Change{At: born.Add(time.Hour), ExpiresAt: born.Add(5 * time.Hour)}
	for sentence, s := range map[string]Session{
		"creating":          lasting(func(s *Session) { s.State = StateCreating }),
		"deleting":          lasting(func(s *Session) { s.State = StateDeleting }),
		"expired just then": lasting(func(s *Session) { s.ExpiresAt = born.Add(time.Hour) }),
	} {
		t.Run(sentence, func(t *testing.T) {
			t.Parallel()
			got := s
			require.ErrorIs(t, Announce("mine", change)(&got), ErrStale)
			assert.Equal(t, s, got)
		})
	}
}

func TestSettlements(t *testing.T) {
	t.Parallel()
	const mine, theirs = "mine", "theirs"
	longer := born.Add(3 * time.Hour)
	pending := func(token string) func(*Session) {
		return func(s *Session) { s.Pending, s.Attempts = Pending{Token: token, Life: true}, 2 }
	}
	for sentence, c := range map[string]struct {
		given Session
		life  time.Time
		err   error
		want  func(*Session)
	}{
		"a longer life is so once the object says it": {lasting(pending(mine)), longer, nil, func(s *Session) {
			s.ExpiresAt, s.Pending, s.Attempts = longer, Pending{}, 0
		}},
		"a life that was not asked for stays": {lasting(pending(mine)), time.Time{}, nil, func(s *Session) {
			s.Pending, s.Attempts = Pending{}, 0
		}},
		"another change that was announced since goes on": {lasting(pending(theirs)), longer, ErrStale, nil},
		"another change that was settled since counts":    {lasting(), longer, ErrStale, nil},
		"its own success is found":                        {lasting(func(s *Session) { s.ExpiresAt = longer }), longer, ErrUnchanged, nil},
		"a session that ended meanwhile stays ended":      {lasting(pending(mine), func(s *Session) { s.State = StateDeleting }), longer, ErrStale, nil},
	} {
		t.Run(sentence, func(t *testing.T) {
			t.Parallel()
			got, want := c.given, c.given
			err := Settle(mine, c.life)(&got)
			require.ErrorIs(t, err, c.err)
			if c.want != nil {
				c.want(&want)
			}
			assert.Equal(t, want, got)
		})
	}
}

func TestAPendingChangeIsLookedAtSoon(t *testing.T) {
	t.Parallel()
	now := born.Add(time.Minute)
	s := lasting(func(s *Session) { s.Pending = Pending{Token: "t", Life: true} })
	assert.Equal(t, now.Add(15*time.Second), s.NextLook(now, now, time.Minute))
	s.Attempts = 2
	assert.Equal(t, now.Add(time.Minute), s.NextLook(now, now, time.Minute))
	s.ExpiresAt = now.Add(time.Second)
	assert.Equal(t, now.Add(time.Second), s.NextLook(now, now, time.Minute), "its end comes first")
	s.ExpiresAt, s.IdleTimeout = time.Time{}, 0
	assert.Equal(t, now.Add(time.Minute), s.NextLook(now, now, time.Minute))
}
