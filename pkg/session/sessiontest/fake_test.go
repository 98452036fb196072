package sessiontest_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/agentcube/agentcube/pkg/session"
	"github.com/agentcube/agentcube/pkg/session/sessiontest"
)

var start = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)

func subject(t *testing.T, store sessiontest.Store, fake *sessiontest.Fake) sessiontest.Subject {
	t.Helper()
	return sessiontest.Subject{
		Store:   store,
		Put:     func(t *testing.T, s session.Session) { t.Helper(); require.NoError(t, fake.Put(s)) },
		Indexes: func(*testing.T) sessiontest.Indexes { return fake.Indexes() },
		Rows:    func(*testing.T) map[string]session.Session { return fake.Rows() },
	}
}

func TestFakeKeepsTheContract(t *testing.T) {
	t.Parallel()
	sessiontest.Run(t, func(t *testing.T) sessiontest.Subject {
		fake := sessiontest.NewFake(clocktesting.NewFakePassiveClock(start))
		return subject(t, fake, fake)
	})
}

func TestFaultyWithoutFaultsKeepsTheContract(t *testing.T) {
	t.Parallel()
	sessiontest.Run(t, func(t *testing.T) sessiontest.Subject {
		fake := sessiontest.NewFake(clocktesting.NewFakePassiveClock(start))
		return subject(t, sessiontest.NewFaulty(fake), fake)
	})
}

func TestFakeFollowsItsClock(t *testing.T) {
	t.Parallel()
	clk := clocktesting.NewFakePassiveClock(start)
	fake := sessiontest.NewFake(clk)
	row, err := fake.Create(t.Context(), sessiontest.Reserved(1, start))
	require.NoError(t, err)
	require.NoError(t, fake.Beat(t.Context(), "p"))

	clk.SetTime(start.Add(2*time.Minute - time.Nanosecond))
	due, err := fake.Due(t.Context(), 1)
	require.NoError(t, err)
	assert.Empty(t, due)
	clk.SetTime(start.Add(2 * time.Minute))
	due, err = fake.Due(t.Context(), 1)
	require.NoError(t, err)
	assert.Equal(t, []session.Due{{ID: row.ID, At: start.Add(2 * time.Minute)}}, due)

	clk.SetTime(start.Add(20*time.Second - 1))
	alive, err := fake.Alive(t.Context(), "p")
	require.NoError(t, err)
	assert.True(t, alive["p"])
	clk.SetTime(start.Add(20 * time.Second))
	alive, err = fake.Alive(t.Context(), "p")
	require.NoError(t, err)
	assert.False(t, alive["p"])
}

func TestFakeIsWipedAndLosesEntriesOnDemand(t *testing.T) {
	t.Parallel()
	fake := sessiontest.NewFake(clocktesting.NewFakePassiveClock(start))
	row, err := fake.Create(t.Context(), sessiontest.Reserved(1, start))
	require.NoError(t, err)
	require.NoError(t, fake.SetInstallation(t.Context(), "id"))
	fake.Drop(row.ID)
	assert.Empty(t, fake.Indexes().Due)
	assert.Len(t, fake.Rows(), 1)
	fake.Wipe()
	assert.Empty(t, fake.Rows())
	id, err := fake.Installation(t.Context())
	require.NoError(t, err)
	assert.Empty(t, id, "an emptied store belongs to nobody")
}

func TestFaultyFailsAsChosen(t *testing.T) {
	t.Parallel()
	boom := errors.New("boom")
	cases := map[string]func(*testing.T, *sessiontest.Faulty, *sessiontest.Fake){
		"a call that fails does nothing, and the next one works": func(t *testing.T, f *sessiontest.Faulty, fake *sessiontest.Fake) {
			f.FailNext("Create", boom)
			_, err := f.Create(t.Context(), sessiontest.Reserved(1, start))
			require.ErrorIs(t, err, boom)
			assert.Empty(t, fake.Rows())
			_, err = f.Create(t.Context(), sessiontest.Reserved(1, start))
			require.NoError(t, err)
			assert.Equal(t, 2, f.Calls("Create"))
		},
		"a call whose answer is lost has done its work": func(t *testing.T, f *sessiontest.Faulty, fake *sessiontest.Fake) {
			f.FailAfter("Create", boom)
			_, err := f.Create(t.Context(), sessiontest.Reserved(1, start))
			require.ErrorIs(t, err, boom)
			assert.Len(t, fake.Rows(), 1)
			_, err = f.Create(t.Context(), sessiontest.Reserved(1, start))
			require.NoError(t, err, "the reservation finds itself")
		},
		"failures queue": func(t *testing.T, f *sessiontest.Faulty, _ *sessiontest.Fake) {
			f.FailNext("Ping", boom)
			f.FailNext("Ping", boom)
			require.ErrorIs(t, f.Ping(t.Context()), boom)
			require.ErrorIs(t, f.Ping(t.Context()), boom)
			require.NoError(t, f.Ping(t.Context()))
		},
		"a blocked call hangs until its deadline": func(t *testing.T, f *sessiontest.Faulty, _ *sessiontest.Fake) {
			f.Block("Ping")
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
			defer cancel()
			err := f.Ping(ctx)
			require.ErrorIs(t, err, session.ErrUnavailable)
			require.ErrorIs(t, err, context.DeadlineExceeded)
		},
		"a blocked call whose caller cancels says so": func(t *testing.T, f *sessiontest.Faulty, _ *sessiontest.Fake) {
			f.Block("Ping")
			ctx, cancel := context.WithCancel(t.Context())
			answer := make(chan error, 1)
			go func() { answer <- f.Ping(ctx) }()
			cancel()
			err := <-answer
			require.ErrorIs(t, err, context.Canceled)
			assert.NotErrorIs(t, err, session.ErrUnavailable)
		},
		"a released call goes on": func(t *testing.T, f *sessiontest.Faulty, _ *sessiontest.Fake) {
			release := f.Block("Ping")
			answer := make(chan error, 1)
			go func() { answer <- f.Ping(t.Context()) }()
			release()
			require.NoError(t, <-answer)
			require.NoError(t, f.Ping(t.Context()))
		},
		"another process acts just before and just after": func(t *testing.T, f *sessiontest.Faulty, fake *sessiontest.Fake) {
			_, err := f.Create(t.Context(), sessiontest.Reserved(1, start))
			require.NoError(t, err)
			var order []string
			f.Before("Remove", func() { order = append(order, "before"); assert.Len(t, fake.Rows(), 1) })
			f.After("Remove", func() { order = append(order, "after"); assert.Empty(t, fake.Rows()) })
			require.NoError(t, f.Remove(t.Context(), sessiontest.ID(1), func(session.Session) error { return nil }))
			assert.Equal(t, []string{"before", "after"}, order)
		},
		"a method that does not exist is a mistake of the test": func(t *testing.T, f *sessiontest.Faulty, _ *sessiontest.Fake) {
			assert.Panics(t, func() { f.FailNext("Comit", boom) })
		},
	}
	for behaviour, check := range cases {
		t.Run(behaviour, func(t *testing.T) {
			t.Parallel()
			fake := sessiontest.NewFake(clocktesting.NewFakePassiveClock(start))
			check(t, sessiontest.NewFaulty(fake), fake)
		})
	}
}

func TestCallsWithAnEndedContextDoNothing(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	fake := sessiontest.NewFake(clocktesting.NewFakePassiveClock(start))
	calls := map[string]func() error{
		"Touch":           func() error { return fake.Touch(ctx, nil) },
		"LastActivity":    func() error { _, err := fake.LastActivity(ctx, ""); return err },
		"Due":             func() error { _, err := fake.Due(ctx, 1); return err },
		"Postpone":        func() error { return fake.Postpone(ctx, "", start) },
		"Creating":        func() error { _, err := fake.Creating(ctx, session.Placeholder{}, 1); return err },
		"Index":           func() error { _, err := fake.Index(ctx); return err },
		"Beat":            func() error { return fake.Beat(ctx, "") },
		"Alive":           func() error { _, err := fake.Alive(ctx, ""); return err },
		"Installation":    func() error { _, err := fake.Installation(ctx); return err },
		"SetInstallation": func() error { return fake.SetInstallation(ctx, "") },
		"Scan":            func() error { _, _, err := fake.Scan(ctx, 0); return err },
		"Now":             func() error { _, err := fake.Now(ctx); return err },
		"Ping":            func() error { return fake.Ping(ctx) },
	}
	for method, call := range calls {
		assert.ErrorIs(t, call(), context.Canceled, method)
	}
}
