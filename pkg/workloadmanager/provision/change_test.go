package provision_test

import (
	"context"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentcube/agentcube/pkg/sandbox"
	"github.com/agentcube/agentcube/pkg/session"
	"github.com/agentcube/agentcube/pkg/workloadmanager/provision"
)

// lasting makes a session that ends in two hours and may last eight.
func (w *world) lasting(request func() provision.Request) session.Session {
	w.t.Helper()
	r := request()
	r.Lifetimes.TTL = 2 * time.Hour
	s, err := w.p.Create(w.t.Context(), r)
	require.NoError(w.t, err)
	return s
}

// in asks for the session to end so long from now.
func (w *world) ending(d time.Duration) session.Change {
	now := w.clock.Now().UTC().Truncate(time.Millisecond)
	return session.Change{At: now, ExpiresAt: now.Add(d)}
}

// mended is what the collector does about changes that were cut off.
func (w *world) mended() {
	w.t.Helper()
	for _, row := range w.fake.Rows() {
		if row.Pending != (session.Pending{}) {
			require.NoError(w.t, w.p.Mend(w.t.Context(), row))
		}
	}
}

// agrees wants row, indexes and object to say the same.
func (w *world) agrees() session.Session {
	w.t.Helper()
	row := w.row()
	assert.Equal(w.t, session.Pending{}, row.Pending)
	assert.Equal(w.t, sandbox.Lifetimes{ShutdownTime: row.ExpiresAt, Idle: row.IdleTimeout}, w.cluster.Lifetimes(row.Object.UID))
	w.indexesAgree()
	return row
}

func TestALifeMoves(t *testing.T) {
	t.Parallel()
	for kind, request := range kinds {
		for sentence, c := range map[string]struct{ ask, want time.Duration }{
			"nearer":                            {time.Minute, time.Minute},
			"farther":                           {5 * time.Hour, 5 * time.Hour},
			"no farther than the template says": {25 * time.Hour, 8 * time.Hour},
			"by nothing":                        {2 * time.Hour, 2 * time.Hour},
		} {
			t.Run(kind+" "+sentence, func(t *testing.T) {
				t.Parallel()
				in(t, func(t *testing.T, w *world) {
					s := w.lasting(request)
					var before session.Session
					w.cluster.Before("SetLifetimes", func() { before = w.row() })
					changed, err := w.p.Change(t.Context(), s.ID, w.ending(c.ask))
					require.NoError(t, err)
					row := w.agrees()
					assert.Equal(t, row, changed)
					assert.Equal(t, s.CreatedAt.Add(c.want), row.ExpiresAt)
					assert.Equal(t, s.IdleTimeout, row.IdleTimeout)
					// The object never says an earlier end than the row.
					assert.Equal(t, s.CreatedAt.Add(min(c.want, 2*time.Hour)), before.ExpiresAt)
				})
			})
		}
	}
}

func TestAnIdleTimeoutMovesAlone(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, w *world) {
		s := w.lasting(direct)
		// Somebody in the cluster has set another end.
		sooner := w.clock.Now().Add(time.Minute)
		require.NoError(t, w.cluster.SetLifetimes(t.Context(), s.Object, w.only().ResourceVersion, sandbox.Lifetimes{ShutdownTime: sooner}))
		changed, err := w.p.Change(t.Context(), s.ID, session.Change{At: w.clock.Now(), Idle: time.Hour})
		require.NoError(t, err)
		assert.Equal(t, time.Hour, changed.IdleTimeout)
		assert.Equal(t, s.ExpiresAt, changed.ExpiresAt)
		assert.Equal(t, sandbox.Lifetimes{ShutdownTime: sooner, Idle: time.Hour}, w.cluster.Lifetimes(s.Object.UID))
	})
}

func TestALifeMovesAlone(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, w *world) {
		s := w.lasting(direct)
		require.NoError(t, w.cluster.SetLifetimes(t.Context(), s.Object, w.only().ResourceVersion, sandbox.Lifetimes{Idle: time.Second}))
		w.changed(s.ID, w.ending(5*time.Hour))
		assert.Equal(t, time.Second, w.cluster.Lifetimes(s.Object.UID).Idle, "somebody in the cluster has written that")
	})
}

func TestAnObjectWithoutItsLabelIsTold(t *testing.T) {
	t.Parallel()
	in(t, func(_ *testing.T, w *world) {
		s := w.lasting(direct)
		w.cluster.Edit(s.Object, func(o *sandbox.Object) { o.SessionID = "" })
		w.changed(s.ID, w.ending(5*time.Hour))
		w.agrees()
	})
}

func TestChangesAtOnce(t *testing.T) {
	t.Parallel()
	t.Run("of one lifetime each leave the other's alone", func(t *testing.T) {
		t.Parallel()
		in(t, func(t *testing.T, w *world) {
			s := w.lasting(direct)
			w.together(
				func() { w.changed(s.ID, w.ending(5*time.Hour)) },
				func() { w.changed(s.ID, session.Change{At: w.clock.Now(), Idle: time.Hour}) },
			)
			row := w.agrees()
			assert.Equal(t, time.Hour, row.IdleTimeout)
			assert.Equal(t, s.CreatedAt.Add(5*time.Hour), row.ExpiresAt)
		})
	})
	t.Run("one wins and both sides say so", func(t *testing.T) {
		t.Parallel()
		in(t, func(_ *testing.T, w *world) {
			s := w.lasting(direct)
			var all []func()
			for _, life := range []time.Duration{time.Hour, 3 * time.Hour, 4 * time.Hour, 5 * time.Hour, 25 * time.Hour} {
				all = append(all, func() { w.changed(s.ID, w.ending(life)) })
			}
			w.together(all...)
			w.agrees()
		})
	})
	t.Run("whoever announced itself last writes last", func(t *testing.T) {
		t.Parallel()
		in(t, func(t *testing.T, w *world) {
			s := w.lasting(direct)
			// A shorter life is announced and settled between the look of a
			// longer one at the object and its write.
			w.cluster.Before("SetLifetimes", func() { w.changed(s.ID, w.ending(time.Minute)) })
			w.changed(s.ID, w.ending(5*time.Hour))
			row := w.agrees()
			assert.Equal(t, s.CreatedAt.Add(5*time.Hour), row.ExpiresAt)
		})
	})
	t.Run("whoever was overtaken before it looked at the object does not write it", func(t *testing.T) {
		t.Parallel()
		in(t, func(t *testing.T, w *world) {
			s := w.lasting(direct)
			w.cluster.Before("Get", func() { w.changed(s.ID, w.ending(5*time.Hour)) })
			w.changed(s.ID, w.ending(time.Minute))
			assert.Equal(t, s.CreatedAt.Add(5*time.Hour), w.agrees().ExpiresAt)
		})
	})
}

// changed makes a change that must work.
func (w *world) changed(id string, c session.Change) {
	_, err := w.p.Change(w.t.Context(), id, c)
	assert.NoError(w.t, err)
}

func (w *world) together(all ...func()) {
	var running sync.WaitGroup
	for _, do := range all {
		running.Go(do)
	}
	running.Wait()
}

// TestAProcessDiesWithinAChange ends the goroutine where the process would die.
func TestAProcessDiesWithinAChange(t *testing.T) {
	t.Parallel()
	nothing := func() {}
	points := map[string]func(w *world){
		"before it is announced":        func(w *world) { w.store.Before("Update", runtime.Goexit) },
		"once it is announced":          func(w *world) { w.store.After("Update", runtime.Goexit) },
		"before the object is read":     func(w *world) { w.cluster.Before("Get", runtime.Goexit) },
		"before the row is read again":  func(w *world) { w.store.Before("Get", runtime.Goexit) },
		"before the object is told":     func(w *world) { w.cluster.Before("SetLifetimes", runtime.Goexit) },
		"once the object has been told": func(w *world) { w.store.Before("Update", nothing); w.store.Before("Update", runtime.Goexit) },
		"once it is settled":            func(w *world) { w.store.After("Update", nothing); w.store.After("Update", runtime.Goexit) },
	}
	for point, arm := range points {
		for sentence, life := range map[string]time.Duration{"a shorter life": time.Hour, "a longer life": 5 * time.Hour} {
			t.Run(sentence+", "+point, func(t *testing.T) {
				t.Parallel()
				in(t, func(t *testing.T, w *world) {
					s := w.lasting(direct)
					c := w.ending(life)
					arm(w)
					_, err := w.p.Change(t.Context(), s.ID, c)
					require.Error(t, err, "the process is dead")
					row := w.row()
					assert.Contains(t, []time.Time{s.ExpiresAt, c.ExpiresAt}, row.ExpiresAt)
					assert.False(t, w.cluster.Lifetimes(s.Object.UID).ShutdownTime.Before(row.ExpiresAt),
						"an object that ends before its row ends a session that was promised to last")
					w.mended()
					w.agrees()
				})
			})
		}
	}
}

func TestAChangeWithoutTheCluster(t *testing.T) {
	t.Parallel()
	t.Run("a longer life is refused, and nothing is true that was not", func(t *testing.T) {
		t.Parallel()
		in(t, func(t *testing.T, w *world) {
			s := w.lasting(direct)
			w.cluster.Down(sandbox.ErrUnavailable)
			_, err := w.p.Change(t.Context(), s.ID, w.ending(5*time.Hour))
			require.ErrorIs(t, err, sandbox.ErrUnavailable)
			assert.Equal(t, s.ExpiresAt, w.row().ExpiresAt)
			w.indexesAgree()
			w.cluster.Down(nil)
			w.mended()
			assert.Equal(t, s.ExpiresAt, w.agrees().ExpiresAt)
		})
	})
	t.Run("everything else is so, and the object is told later", func(t *testing.T) {
		t.Parallel()
		in(t, func(t *testing.T, w *world) {
			s := w.lasting(direct)
			c := w.ending(time.Hour)
			c.Idle = time.Minute
			w.cluster.Down(sandbox.ErrUnavailable)
			began := w.clock.Now()
			changed, err := w.p.Change(t.Context(), s.ID, c)
			require.NoError(t, err)
			assert.LessOrEqual(t, w.clock.Since(began), answerBound)
			assert.Equal(t, c.ExpiresAt, changed.ExpiresAt)
			w.cluster.Down(nil)
			w.mended()
			assert.Equal(t, time.Minute, w.agrees().IdleTimeout)
		})
	})
	t.Run("a server that hangs is one that does not answer", func(t *testing.T) {
		t.Parallel()
		in(t, func(t *testing.T, w *world) {
			s := w.lasting(direct)
			w.cluster.On("Get", func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
			_, err := w.p.Change(t.Context(), s.ID, w.ending(5*time.Hour))
			require.ErrorIs(t, err, sandbox.ErrUnavailable)
		})
	})
	t.Run("what fails for good is told as it is", func(t *testing.T) {
		t.Parallel()
		in(t, func(t *testing.T, w *world) {
			s := w.lasting(direct)
			w.cluster.FailNext("SetLifetimes", sandbox.ErrForbidden)
			_, err := w.p.Change(t.Context(), s.ID, w.ending(5*time.Hour))
			require.ErrorIs(t, err, sandbox.ErrForbidden)
			assert.Equal(t, s.ExpiresAt, w.row().ExpiresAt)
		})
	})
}

func TestAMendingThatFailsIsTriedLessOften(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, w *world) {
		s := w.lasting(direct)
		w.cluster.Down(sandbox.ErrUnavailable)
		w.changed(s.ID, w.ending(time.Hour))
		for want := range 3 {
			assert.Equal(t, want, w.row().Attempts)
			began := w.clock.Now()
			require.ErrorIs(t, w.p.Mend(t.Context(), w.row()), sandbox.ErrUnavailable)
			assert.Equal(t, began, w.clock.Now(), "it holds nobody up")
		}
		w.indexesAgree()
		w.cluster.Down(nil)
		w.mended()
		assert.Zero(t, w.agrees().Attempts)
	})
}

func TestAChangeOfAnObjectThatOthersWrite(t *testing.T) {
	t.Parallel()
	in(t, func(_ *testing.T, w *world) {
		s := w.lasting(direct)
		for range 3 {
			w.cluster.Before("SetLifetimes", func() { w.cluster.Edit(s.Object, func(o *sandbox.Object) { o.Message = "busy" }) })
		}
		w.changed(s.ID, w.ending(5*time.Hour))
		w.agrees()
	})
}

func TestChangesOfWhatIsNotThere(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, w *world) {
		s := w.lasting(direct)
		_, err := w.p.Change(t.Context(), "00000000-0000-4000-8000-000000000000", w.ending(time.Hour))
		require.ErrorIs(t, err, session.ErrNotFound)

		late := w.ending(time.Hour)
		late.At = s.ExpiresAt
		_, err = w.p.Change(t.Context(), s.ID, late)
		require.ErrorIs(t, err, session.ErrStale, "it has expired")

		_, err = w.fake.Update(t.Context(), s.ID, session.Delete(session.ReasonIdle, time.Time{}))
		require.NoError(t, err)
		_, err = w.p.Change(t.Context(), s.ID, w.ending(time.Hour))
		require.ErrorIs(t, err, session.ErrStale, "it is being deleted")
		assert.Zero(t, w.cluster.Calls("SetLifetimes"))
	})
	in(t, func(t *testing.T, w *world) {
		s := w.lasting(direct)
		w.cluster.Before("SetLifetimes", func() {
			_, err := w.fake.Update(t.Context(), s.ID, session.Delete(session.ReasonIdle, time.Time{}))
			assert.NoError(t, err)
		})
		_, err := w.p.Change(t.Context(), s.ID, w.ending(5*time.Hour))
		require.ErrorIs(t, err, session.ErrStale, "it ended while its object was told")
	})
}

func TestAStrangersObjectIsNotTold(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, w *world) {
		s := w.lasting(direct)
		w.cluster.Kill(s.Object)
		other := s.Object
		other.UID = ""
		w.cluster.Put(sandbox.Object{Ref: other, SessionID: s.ID})
		w.changed(s.ID, w.ending(5*time.Hour))
		assert.Zero(t, w.cluster.Calls("SetLifetimes"))
	})
}

func TestACallerThatHangsUpDoesNotStopAChange(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, w *world) {
		s := w.lasting(direct)
		ctx, leave := context.WithCancel(t.Context())
		w.cluster.Before("SetLifetimes", func() { leave(); synctest.Wait() })
		_, err := w.p.Change(ctx, s.ID, w.ending(5*time.Hour))
		require.ErrorIs(t, err, provision.ErrClientGone)
		require.NoError(t, w.p.Wait(t.Context()))
		assert.Equal(t, s.CreatedAt.Add(5*time.Hour), w.agrees().ExpiresAt)
	})
}
