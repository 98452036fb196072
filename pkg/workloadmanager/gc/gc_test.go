package gc_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/agentcube/agentcube/pkg/sandbox"
	"github.com/agentcube/agentcube/pkg/session"
	"github.com/agentcube/agentcube/pkg/workloadmanager/clustertest"
	"github.com/agentcube/agentcube/pkg/workloadmanager/gc"
	"github.com/agentcube/agentcube/pkg/workloadmanager/provision"
)

func TestDeadlines(t *testing.T) {
	t.Parallel()
	const minute, hour = time.Minute, time.Hour
	for name, c := range map[string]struct {
		idle, life time.Duration // zero: none
		active     time.Duration // last activity, after the start
		end        time.Duration // zero: never
		reason     string
	}{
		"idle since it was made":            {idle: 5 * minute, end: 5*minute + session.IdleGrace, reason: session.ReasonIdle},
		"idle since its last activity":      {idle: 5 * minute, active: 3 * minute, end: 8*minute + session.IdleGrace, reason: session.ReasonIdle},
		"a long timeout":                    {idle: 2 * hour, active: minute, end: 2*hour + minute + session.IdleGrace, reason: session.ReasonIdle},
		"an hour of life":                   {idle: 2 * hour, life: hour, end: hour, reason: session.ReasonExpired},
		"a life that activity prolongs not": {idle: 45 * minute, life: hour, active: 30 * minute, end: hour, reason: session.ReasonExpired},
		"a day of life, never idle":         {life: 24 * hour, end: 24 * hour, reason: session.ReasonExpired},
		"unlimited and never idle":          {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in(t, func(t *testing.T, w *world) {
				s := w.session(func(s *session.Session) {
					s.IdleTimeout, s.ExpiresAt = c.idle, time.Time{}
					if c.life > 0 {
						s.ExpiresAt = s.CreatedAt.Add(c.life)
					}
				})
				if c.active > 0 {
					w.clock.AfterFunc(c.active, func() { w.touch(s) })
				}
				if c.end == 0 {
					w.runFor(48 * time.Hour)
					w.lives(s, "nothing ends it")
					return
				}
				w.cluster.Before("Delete", func() {
					assert.GreaterOrEqual(t, w.clock.Since(w.start), c.end, "never too early")
					assert.LessOrEqual(t, w.clock.Since(w.start), c.end+interval, "in the next pass")
					assert.Equal(t, c.reason, w.fake.Rows()[s.ID].Reason)
				})
				w.runFor(c.end + interval)
				w.gone(s, "its time is over")
				w.indexesAgree()
			})
		})
	}
}

func TestAPassReadsOnlyWhatIsDue(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, w *world) {
		for range 10_000 {
			w.idle(24 * time.Hour)
		}
		due := w.idle(5 * time.Minute)
		w.pass(2 * time.Hour)
		stats, err := w.c.Pass(t.Context())
		require.NoError(t, err)
		assert.Equal(t, gc.Stats{Due: 1, Ended: 1}, stats)
		w.gone(due, "it was idle for long enough")
		assert.Len(t, w.fake.Rows(), 10_000)
		assert.Equal(t, 1, w.store.Calls("Get"))
		assert.Equal(t, 1, w.store.Calls("LastActivity"))
		assert.Equal(t, 2, w.store.Calls("Due"))
	})
}

func TestEveryPageIsRead(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 9, 10, 11, 35} {
		in(t, func(t *testing.T, w *world) {
			for range n {
				w.idle(time.Minute)
			}
			w.pass(time.Hour)
			assert.Equal(t, gc.Stats{Due: n, Ended: n}, w.collect())
			assert.Empty(t, w.fake.Rows())
			assert.Empty(t, w.cluster.Objects())
			assert.Equal(t, gc.Stats{}, w.collect())
		})
	}
}

func TestActivityInBetweenWins(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, w *world) {
		s := w.idle(5 * time.Minute)
		w.pass(time.Hour)
		w.store.Before("End", func() { w.touch(s) })
		assert.Equal(t, gc.Stats{Due: 1}, w.collect())
		w.lives(s, "it was used after the collector had looked")
		assert.Zero(t, w.cluster.Calls("Delete"))
		w.pass(5*time.Minute + session.IdleGrace - time.Second)
		w.collect()
		w.lives(s, "its timeout began anew")
		w.pass(interval)
		w.collect()
		w.gone(s, "nobody used it since")
	})
}

func TestLifetimesChangedInBetweenWin(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*session.Session){
		"idle timeout": func(s *session.Session) { s.IdleTimeout = 2 * time.Hour },
		"life":         func(s *session.Session) { s.ExpiresAt = s.ExpiresAt.Add(24 * time.Hour) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in(t, func(t *testing.T, w *world) {
				s := w.session(func(s *session.Session) {
					s.IdleTimeout, s.ExpiresAt = 0, s.CreatedAt.Add(5*time.Minute)
					if name == "idle timeout" {
						s.IdleTimeout, s.ExpiresAt = 5*time.Minute, time.Time{}
					}
				})
				w.pass(time.Hour)
				w.store.Before("End", func() {
					_, err := w.fake.Update(t.Context(), s.ID, func(s *session.Session) error { change(s); return nil })
					require.NoError(t, err)
				})
				assert.Equal(t, gc.Stats{Due: 1}, w.collect())
				w.lives(s, "it may live longer by now")
			})
		})
	}
}

func TestWhatIsNotDueYetIsPutBackToItsDeadline(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, w *world) {
		s := w.idle(5 * time.Minute)
		w.pass(4 * time.Minute)
		w.touch(s)
		active := w.clock.Now()
		w.pass(2 * time.Minute)
		assert.Equal(t, gc.Stats{Due: 1}, w.collect())
		deadline := active.Add(5*time.Minute + session.IdleGrace)
		assert.Equal(t, deadline.UTC(), w.fake.Indexes().Due[s.ID])
		assert.Equal(t, gc.Stats{}, w.collect(), "and does not come up before")
	})
}

func TestARowThatNothingEndsIsLookedAtAgainInADay(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, w *world) {
		s := w.idle(5 * time.Minute)
		_, err := w.fake.Update(t.Context(), s.ID, func(s *session.Session) error { s.IdleTimeout = 0; return nil })
		require.NoError(t, err)
		require.NoError(t, w.fake.Put(func() session.Session { s.IdleTimeout = time.Minute; return s }()))
		_, err = w.fake.Index(t.Context())
		require.NoError(t, err)
		s.IdleTimeout = 0
		require.NoError(t, w.fake.Put(s))
		w.pass(time.Hour)
		stats, err := w.c.Pass(t.Context())
		require.NoError(t, err)
		assert.Equal(t, gc.Stats{Due: 1}, stats)
		assert.Equal(t, w.clock.Now().Add(24*time.Hour).UTC(), w.fake.Indexes().Due[s.ID])
	})
}

func TestTwoCollectorsAtOnceEndEachSessionOnce(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, w *world) {
		for range 50 {
			w.idle(5 * time.Minute)
		}
		w.pass(time.Hour)
		other := w.collector(options())
		results := make(chan gc.Stats)
		for _, c := range []*gc.Collector{w.c, other} {
			go func() {
				stats, err := c.Pass(t.Context())
				assert.NoError(t, err)
				results <- stats
			}()
		}
		one, two := <-results, <-results
		assert.Equal(t, 50, one.Ended+two.Ended)
		assert.Zero(t, one.Failed+two.Failed)
		assert.Equal(t, 50, w.cluster.Calls("Delete"))
		assert.Empty(t, w.fake.Rows())
		assert.Empty(t, w.cluster.Objects())
	})
	t.Run("also when both have read the row", func(t *testing.T) {
		t.Parallel()
		in(t, func(t *testing.T, w *world) {
			w.idle(5 * time.Minute)
			w.pass(time.Hour)
			other := w.collector(options())
			w.store.Before("End", func() {
				stats, err := w.collectorPassFromDue(other)
				if err != nil {
					t.Error(err) // in a goroutine of the collector's
				}
				assert.Equal(t, 1, stats.Ended)
			})
			stats := w.collect()
			assert.Zero(t, stats.Ended+stats.Failed)
			assert.Equal(t, 1, w.cluster.Calls("Delete"))
			assert.Empty(t, w.fake.Rows())
		})
	})
}

// collectorPassFromDue makes the row that is being handled due again, as it
// was when the other collector read it.
func (w *world) collectorPassFromDue(c *gc.Collector) (gc.Stats, error) {
	for id := range w.fake.Rows() {
		if err := w.fake.Postpone(w.t.Context(), id, w.clock.Now()); err != nil {
			return gc.Stats{}, err
		}
	}
	return c.Pass(w.t.Context())
}

func TestAFailingDeletionBacksOffAndHoldsUpNobody(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, w *world) {
		var all []session.Session
		for range 25 { // more than two pages
			all = append(all, w.idle(5*time.Minute))
		}
		last := w.idle(6 * time.Minute)
		w.pass(time.Hour)
		w.cluster.Down(clustertest.ErrDown)
		assert.Equal(t, gc.Stats{Due: 26, Failed: 26}, w.collect())
		assert.Zero(t, w.clock.Since(w.start)-time.Hour, "nothing is waited for")
		row := w.fake.Rows()[last.ID]
		assert.Equal(t, session.StateDeleting, row.State)
		assert.Equal(t, 1, row.Attempts)
		assert.Equal(t, w.clock.Now().Add(session.RetryAfter(1)).UTC(), w.fake.Indexes().Due[last.ID])

		w.pass(session.RetryAfter(1) - time.Second)
		assert.Equal(t, gc.Stats{}, w.collect())
		w.pass(time.Second)
		assert.Equal(t, gc.Stats{Due: 26, Failed: 26}, w.collect())
		assert.Equal(t, 2, w.fake.Rows()[last.ID].Attempts)

		w.cluster.Down(nil)
		w.pass(session.RetryAfter(2))
		assert.Equal(t, gc.Stats{Due: 26, Ended: 26}, w.collect())
		for _, s := range all {
			w.gone(s, "the API server is back")
		}
	})
}

func TestARowThatCannotBeMovedDoesNotSpin(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, w *world) {
		s := w.idle(5 * time.Minute)
		w.pass(time.Hour)
		w.store.FailNext("Claim", errors.New("no space"))
		assert.Equal(t, gc.Stats{Due: 1, Failed: 1}, w.collect())
		assert.Equal(t, 1, w.store.Calls("Due"))
		w.lives(s, "nothing was done before it was moved")
		assert.Equal(t, gc.Stats{Due: 1, Ended: 1}, w.collect())
	})
	t.Run("nor does an entry without a row that cannot be removed", func(t *testing.T) {
		t.Parallel()
		in(t, func(t *testing.T, w *world) {
			w.idle(5 * time.Minute)
			w.pass(time.Hour)
			w.store.FailNext("Get", session.ErrNotFound)
			w.store.FailNext("Remove", errors.New("no space"))
			assert.Equal(t, gc.Stats{Due: 1, Failed: 1}, w.collect())
			assert.Equal(t, 2, w.store.Calls("Due"), "the second page is empty")
		})
	})
}

func TestAnEntryWithoutARowIsRemoved(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, w *world) {
		s := w.idle(5 * time.Minute)
		w.pass(time.Hour)
		w.store.Before("Get", func() {
			require.NoError(t, w.fake.Remove(t.Context(), s.ID, func(session.Session) error { return nil }))
		})
		assert.Equal(t, gc.Stats{Due: 1}, w.collect())
		assert.Equal(t, 1, w.store.Calls("Remove"))
	})
}

func TestAnUnreadableRowBlocksNothing(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, w *world) {
		store := &corrupt{Faulty: w.store, ids: map[string]bool{}}
		finisher := provision.New(w.clock, zap.NewNop(), store, w.cluster, w.cluster.Cache(), w.cluster, nil, provision.Options{})
		w.c = gc.New(w.clock, zap.NewNop(), store, store, store, finisher, options())
		for range 15 { // more than a page
			store.ids[w.idle(5*time.Minute).ID] = true
		}
		store.ids[w.session(creating).ID] = true
		healthy := w.idle(6 * time.Minute)
		w.pass(time.Hour)
		stats := w.collect()
		assert.Equal(t, gc.Stats{Due: 17, Ended: 1, Failed: 16}, stats)
		w.gone(healthy, "others' rows are no reason to keep it")
		for id := range store.ids {
			assert.Equal(t, w.clock.Now().Add(5*time.Minute).UTC(), w.fake.Indexes().Due[id])
		}
		assert.Len(t, w.fake.Rows(), 16, "what cannot be read is not taken for absent")
		assert.Equal(t, gc.Stats{}, w.collect())
	})
}

func TestPlaceholders(t *testing.T) {
	t.Parallel()
	t.Run("of a living creator are left alone until the create bound", func(t *testing.T) {
		t.Parallel()
		in(t, func(t *testing.T, w *world) {
			s := w.session(creating)
			for w.clock.Since(w.start) < createBound {
				w.beat()
				assert.Equal(t, gc.Stats{}, w.collect())
				assert.Contains(t, w.fake.Rows(), s.ID)
				w.pass(5 * time.Second)
			}
			w.beat()
			assert.Equal(t, gc.Stats{Due: 1, Ended: 1}, w.collect())
			w.gone(s, "no create lasts longer")
		})
	})
	t.Run("of a dead one are undone within a minute", func(t *testing.T) {
		t.Parallel()
		in(t, func(_ *testing.T, w *world) {
			w.beat()
			var all []session.Session
			for range 25 { // more than two pages
				all = append(all, w.session(creating))
			}
			w.runFor(heartbeat + interval)
			for _, s := range all {
				w.gone(s, "its creator is dead")
			}
			w.indexesAgree()
		})
	})
	t.Run("of a dead one whose object is not there yet wait for it", func(t *testing.T) {
		t.Parallel()
		in(t, func(t *testing.T, w *world) {
			s := w.session(creating)
			o := w.cluster.Objects()[0]
			w.cluster.Kill(o.Ref)
			assert.Equal(t, gc.Stats{Due: 1, Failed: 1}, w.collect())
			row := w.fake.Rows()[s.ID]
			assert.Equal(t, session.StateDeleting, row.State)
			assert.Equal(t, session.ReasonFailed, row.Reason)
			assert.Equal(t, w.clock.Now().Add(unknownBound).UTC(), row.UnknownUntil)
			w.pass(30 * time.Second)
			w.cluster.Put(o) // the API server was slow
			assert.Equal(t, gc.Stats{Due: 1, Ended: 1}, w.collect())
			w.gone(s, "")
		})
	})
	t.Run("of a dead one whose object never comes go when it cannot come any more", func(t *testing.T) {
		t.Parallel()
		in(t, func(t *testing.T, w *world) {
			s := w.session(creating)
			w.cluster.Kill(w.cluster.Objects()[0].Ref)
			w.runFor(unknownBound - interval)
			assert.Contains(t, w.fake.Rows(), s.ID)
			w.runFor(5 * time.Minute)
			w.gone(s, "")
		})
	})
	t.Run("without a creator are undone after the create bound", func(t *testing.T) {
		t.Parallel()
		in(t, func(t *testing.T, w *world) {
			s := w.session(func(s *session.Session) { creating(s); s.Creator = session.Creator{} })
			w.pass(createBound - time.Second)
			assert.Equal(t, gc.Stats{}, w.collect())
			assert.Contains(t, w.fake.Rows(), s.ID)
			w.pass(time.Second)
			assert.Equal(t, gc.Stats{Due: 1, Ended: 1}, w.collect())
			w.gone(s, "")
		})
	})
	t.Run("that are committed in between live", func(t *testing.T) {
		t.Parallel()
		in(t, func(t *testing.T, w *world) {
			s := w.session(creating)
			w.store.Before("End", func() {
				_, err := w.fake.Update(t.Context(), s.ID, session.Commit("token", session.Observed{
					State: session.StateReady, Address: "10.0.0.7", Object: w.cluster.Objects()[0].Ref,
				}))
				require.NoError(t, err)
			})
			assert.Equal(t, gc.Stats{Due: 1}, w.collect())
			w.lives(s, "its creator lived after all")
		})
	})
}

func TestTombstones(t *testing.T) {
	t.Parallel()
	tombstone := func(s *session.Session) { creating(s); s.State = session.StateDeleting }
	t.Run("stay for a creator that lives, and their object goes", func(t *testing.T) {
		t.Parallel()
		in(t, func(t *testing.T, w *world) {
			s := w.session(tombstone)
			w.pass(session.RetryAfter(0))
			w.beat()
			assert.Equal(t, gc.Stats{Due: 1}, w.collect())
			assert.Contains(t, w.fake.Rows(), s.ID)
			assert.Empty(t, w.cluster.Objects())
		})
	})
	t.Run("go once their creator is dead", func(t *testing.T) {
		t.Parallel()
		in(t, func(t *testing.T, w *world) {
			s := w.session(tombstone)
			w.pass(session.RetryAfter(0))
			assert.Equal(t, gc.Stats{Due: 1, Ended: 1}, w.collect())
			w.gone(s, "")
		})
	})
	t.Run("go once the create bound has passed", func(t *testing.T) {
		t.Parallel()
		in(t, func(t *testing.T, w *world) {
			s := w.session(tombstone)
			w.pass(createBound)
			w.beat()
			assert.Equal(t, gc.Stats{Due: 1, Ended: 1}, w.collect())
			w.gone(s, "")
		})
	})
	t.Run("of a creator that cannot be looked for are tried again", func(t *testing.T) {
		t.Parallel()
		in(t, func(t *testing.T, w *world) {
			w.session(tombstone)
			w.pass(session.RetryAfter(0))
			w.store.FailNext("Alive", session.ErrUnavailable)
			assert.Equal(t, gc.Stats{Due: 1, Failed: 1}, w.collect())
			assert.Len(t, w.cluster.Objects(), 1)
		})
	})
}

func TestAfterAnOutageNobodyIsTakenForIdleForAWhile(t *testing.T) {
	t.Parallel()
	for _, method := range []string{"Now", "Due", "Creating"} {
		t.Run(method, func(t *testing.T) {
			t.Parallel()
			in(t, func(t *testing.T, w *world) {
				s := w.idle(5 * time.Minute)
				expired := w.session(func(s *session.Session) { s.ExpiresAt = s.CreatedAt.Add(5 * time.Minute) })
				w.pass(time.Hour)
				w.store.FailNext(method, session.ErrUnavailable)
				_, err := w.c.Pass(t.Context())
				require.ErrorIs(t, err, session.ErrUnavailable)
				w.pass(time.Hour) // as long as it was away, nobody could flush
				assert.Equal(t, gc.Stats{Due: 2, Ended: 1}, w.collect())
				w.lives(s, "routers have yet to flush what they hold")
				w.gone(expired, "activity has no bearing on the end of a life")
				w.pass(outagePause - time.Second)
				w.collect()
				w.lives(s, "the pause is not over")
				w.pass(interval)
				w.collect()
				w.gone(s, "the pause is over")
			})
		})
	}
	t.Run("in the midst of a pass", func(t *testing.T) {
		t.Parallel()
		in(t, func(t *testing.T, w *world) {
			s := w.idle(5 * time.Minute)
			w.pass(time.Hour)
			w.store.FailNext("LastActivity", session.ErrUnavailable)
			assert.Equal(t, gc.Stats{Due: 1, Failed: 1}, w.collect())
			w.pass(interval)
			assert.Equal(t, gc.Stats{Due: 1}, w.collect())
			w.lives(s, "")
		})
	})
	t.Run("that a collector could not see, since it has just started", func(t *testing.T) {
		t.Parallel()
		in(t, func(_ *testing.T, w *world) {
			s := w.idle(5 * time.Minute)
			w.pass(time.Hour)
			w.runFor(outagePause - time.Second)
			w.lives(s, "routers have yet to flush what they hold")
			w.runFor(outagePause + time.Second)
			w.gone(s, "the pause is over")
		})
	})
	t.Run("nor any creator for dead, since the living could not write their heartbeats", func(t *testing.T) {
		t.Parallel()
		in(t, func(t *testing.T, w *world) {
			s := w.session(creating)
			w.store.FailNext("Now", session.ErrUnavailable)
			_, err := w.c.Pass(t.Context())
			require.ErrorIs(t, err, session.ErrUnavailable)
			w.collect()
			assert.Equal(t, session.StateCreating, w.fake.Rows()[s.ID].State, "its creator may be about to write its heartbeat")
			w.pass(outagePause)
			w.collect()
			w.gone(s, "it had the time to")
		})
	})
	t.Run("but any other failure is no outage", func(t *testing.T) {
		t.Parallel()
		in(t, func(t *testing.T, w *world) {
			s := w.idle(5 * time.Minute)
			w.pass(time.Hour)
			w.store.FailNext("LastActivity", errors.New("WRONGTYPE"))
			assert.Equal(t, gc.Stats{Due: 1, Failed: 1}, w.collect())
			w.pass(interval)
			assert.Equal(t, gc.Stats{Due: 1, Ended: 1}, w.collect())
			w.gone(s, "")
		})
	})
}

func TestRun(t *testing.T) {
	t.Parallel()
	t.Run("collects at once and at its interval", func(t *testing.T) {
		t.Parallel()
		in(t, func(t *testing.T, w *world) {
			w.runFor(10*time.Minute - time.Second)
			assert.Equal(t, 40, w.store.Calls("Now"))
		})
	})
	t.Run("a pass that did not work is made good by the next", func(t *testing.T) {
		t.Parallel()
		in(t, func(t *testing.T, w *world) {
			w.session(func(s *session.Session) { s.ExpiresAt = s.CreatedAt.Add(time.Second) })
			w.pass(time.Minute)
			w.store.FailNext("Now", session.ErrUnavailable)
			w.runFor(interval + time.Second)
			assert.Empty(t, w.fake.Rows())
		})
	})
	t.Run("stops inside a pass", func(t *testing.T) {
		t.Parallel()
		in(t, func(t *testing.T, w *world) {
			for range 30 {
				w.session(func(s *session.Session) { s.ExpiresAt = s.CreatedAt.Add(5 * time.Minute) })
			}
			w.pass(time.Hour)
			for range 30 {
				w.cluster.Hang("Delete")
			}
			begun := w.clock.Now()
			w.runFor(time.Second)
			assert.Equal(t, time.Second, w.clock.Since(begun), "it does not wait for an API server that hangs")
			assert.Equal(t, options().Workers, w.cluster.Calls("Delete"), "workers are bounded")
		})
	})
	t.Run("is over before it began", func(t *testing.T) {
		t.Parallel()
		in(t, func(t *testing.T, w *world) {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			require.NoError(t, w.c.Run(ctx))
		})
	})
}

func TestEndedSessionsGoWithTheirClaim(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, w *world) {
		s := w.session(func(s *session.Session) {
			s.IdleTimeout = 5 * time.Minute
			claim := session.ObjectRef{Kind: session.KindSandboxClaim, Namespace: "team", Name: s.Object.Name}
			s.Object = w.cluster.Put(sandbox.Object{Ref: claim, SessionID: s.ID}).Ref
		})
		w.pass(time.Hour)
		w.collect()
		objects := w.cluster.Objects()
		require.Len(t, objects, 1)
		assert.Equal(t, session.KindSandbox, objects[0].Ref.Kind, "not a Sandbox of the claim's name")
		assert.NotContains(t, w.fake.Rows(), s.ID)
	})
}
