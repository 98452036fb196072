package provision_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentcube/agentcube/pkg/sandbox"
	"github.com/agentcube/agentcube/pkg/session"
	"github.com/agentcube/agentcube/pkg/workloadmanager/clustertest"
	"github.com/agentcube/agentcube/pkg/workloadmanager/provision"
)

func TestCreateReturnsTheRowAsItStands(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, w *world) {
		r := direct()
		r.OwnerID, r.Metadata, r.AuthMode, r.KeyID = "jane", json.RawMessage(`{"a":1}`), session.AuthModePicoD, "key-1"
		s, err := w.p.Create(t.Context(), r)
		require.NoError(t, err)

		assert.Equal(t, s, w.row())
		assert.True(t, session.ValidID(s.ID))
		assert.Equal(t, session.StateReady, s.State)
		o := w.only()
		assert.Equal(t, o.Ref, s.Object)
		assert.Equal(t, session.SandboxRef{Name: o.Ref.Name, UID: o.Ref.UID}, s.Sandbox)
		assert.Equal(t, []session.EntryPoint{{Path: "/", Protocol: "HTTP", Endpoint: "10.0.0.7:8080"}}, s.EntryPoints)
		assert.Equal(t, s.EntryPoints, w.prober.points.Load())
		assert.Equal(t, r.Workload, s.Workload)
		assert.Equal(t, "jane", s.OwnerID)
		assert.JSONEq(t, `{"a":1}`, string(s.Metadata))
		assert.Equal(t, session.AuthModePicoD, s.AuthMode)
		assert.Equal(t, "key-1", s.KeyID)
		assert.Equal(t, installation, s.Installation)
		assert.Equal(t, process, s.Creator.Process)
		assert.Equal(t, int64(1), s.Generation)
		assert.Equal(t, o.ResourceVersion, s.ResourceVersion)
		assert.Equal(t, w.start.UTC().Truncate(time.Millisecond), s.CreatedAt)
		assert.Equal(t, s.CreatedAt.Add(8*time.Hour), s.ExpiresAt)
		assert.Equal(t, 15*time.Minute, s.IdleTimeout)
		assert.Equal(t, 8*time.Hour, s.MaxDuration)
		assert.Zero(t, w.took(), "nothing is waited for that is there")
		w.indexesAgree()
	})
}

func TestTheObjectIsSentAsTheSessionIs(t *testing.T) {
	t.Parallel()
	for kind, request := range kinds {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			in(t, func(t *testing.T, w *world) {
				r := request()
				r.OwnerID = "jane"
				s, err := w.p.Create(t.Context(), r)
				require.NoError(t, err)

				specs := w.cluster.Specs()
				require.Len(t, specs, 1)
				name := s.Object
				name.UID = ""
				want := sandbox.Spec{
					Object: name, SessionID: s.ID, Workload: r.Workload, Installation: installation,
					OwnerID: "jane", IdleTimeout: 15 * time.Minute, ShutdownTime: s.ExpiresAt, Pod: r.Pod,
				}
				if kind == session.KindSandboxClaim {
					want.WorkloadUID = "uid-of-workload"
				}
				assert.Equal(t, want, specs[0], "only a claim goes with its workload")
				assert.Equal(t, kind, s.Object.Kind)
			})
		})
	}
}

func TestTheUIDOfAClaimsSandboxIsRead(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, w *world) {
		s, err := w.p.Create(t.Context(), warm())
		require.NoError(t, err)
		assert.Equal(t, session.SandboxRef{Name: adopted, UID: adoptedUID}, s.Sandbox)
		assert.Equal(t, w.only().Ref, s.Object)
	})
}

func TestASandboxThatTheClaimHasNotNoticedToBeGoneIsWaitedFor(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, w *world) {
		w.cluster.OnCreate(func(o sandbox.Object) {
			w.makeReady(o)
			w.cluster.SetSandbox(namespace, adopted, "")
			w.clock.AfterFunc(time.Second, func() {
				w.cluster.SetSandbox(namespace, "another", "uid-of-another")
				w.cluster.Edit(o.Ref, func(o *sandbox.Object) { o.SandboxName = "another" })
			})
		})
		s, err := w.p.Create(t.Context(), warm())
		require.NoError(t, err)
		assert.Equal(t, session.SandboxRef{Name: "another", UID: "uid-of-another"}, s.Sandbox)
		assert.Equal(t, time.Second, w.took())
	})
}

func TestNamesAreLegalAndUnique(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, w *world) {
		r := direct()
		r.Workload.Name = strings.Repeat("n", 63)
		seen := map[string]bool{}
		for range 20 {
			s, err := w.p.Create(t.Context(), r)
			require.NoError(t, err)
			assert.Regexp(t, `^n{54}-[a-z0-9]{8}$`, s.Object.Name)
			seen[s.Object.Name] = true
		}
		assert.Len(t, seen, 20)
	})
}

func TestLifetimesAreInTheRowFromTheFirstWrite(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		lifetimes session.Lifetimes
		life      time.Duration // zero: unlimited
	}{
		"the template's":                 {session.Lifetimes{Max: time.Hour}, time.Hour},
		"a day":                          {session.Lifetimes{Max: 24 * time.Hour}, 24 * time.Hour},
		"unlimited":                      {session.Lifetimes{}, 0},
		"the request's":                  {session.Lifetimes{Max: 8 * time.Hour, TTL: time.Minute}, time.Minute},
		"capped":                         {session.Lifetimes{Max: 8 * time.Hour, TTL: 90_000 * time.Second}, 8 * time.Hour},
		"the request's over no bound":    {session.Lifetimes{TTL: time.Minute}, time.Minute},
		"idle of the request's choosing": {session.Lifetimes{Idle: 2 * time.Hour, Max: time.Hour}, time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in(t, func(t *testing.T, w *world) {
				r := direct()
				r.Lifetimes = c.lifetimes
				w.cluster.Before("Create", func() {
					row := w.row()
					assert.Equal(t, session.StateCreating, row.State)
					assert.Equal(t, c.life == 0, row.ExpiresAt.IsZero())
					_, scored := w.fake.Indexes().Expiry[row.ID]
					assert.Equal(t, c.life > 0, scored)
					w.indexesAgree()
				})
				s, err := w.p.Create(t.Context(), r)
				require.NoError(t, err)
				if c.life > 0 {
					assert.Equal(t, c.life, s.ExpiresAt.Sub(s.CreatedAt))
				}
				assert.Equal(t, s.ExpiresAt, w.cluster.Specs()[0].ShutdownTime)
				assert.Equal(t, c.lifetimes.Idle, s.IdleTimeout)
				assert.Equal(t, c.lifetimes.Idle, w.cluster.Specs()[0].IdleTimeout)
				w.indexesAgree()
			})
		})
	}
}

func TestPrepareComesBeforeEverything(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, w *world) {
		r := warm()
		r.Prepare = func(context.Context) error {
			assert.Empty(t, w.fake.Rows())
			assert.Zero(t, w.cluster.Calls("Create"))
			return nil
		}
		_, err := w.p.Create(t.Context(), r)
		require.NoError(t, err)
	})
	in(t, func(t *testing.T, w *world) {
		r := warm()
		r.Prepare = func(context.Context) error { return sandbox.ErrUnavailable }
		_, err := w.p.Create(t.Context(), r)
		require.ErrorIs(t, err, sandbox.ErrUnavailable)
		assert.Zero(t, w.store.Calls("Create"))
		assert.Zero(t, w.store.Calls("Update"), "nothing was made, so nothing is undone")
		w.nothingLeft()
	})
	in(t, func(t *testing.T, w *world) {
		r := warm()
		r.Prepare = func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
		_, err := w.p.Create(t.Context(), r)
		var timeout *provision.TimeoutError
		require.ErrorAs(t, err, &timeout)
		assert.Equal(t, "the warm pool", timeout.Waiting)
		assert.Equal(t, createBound, w.took())
	})
}

func TestANameThatIsTaken(t *testing.T) {
	t.Parallel()
	// taken puts an object under the name that the row bears, before the
	// create call meets it.
	taken := func(w *world, by func(id string) string) {
		w.cluster.Before("Create", func() {
			row := w.row()
			w.cluster.Put(sandbox.Object{Ref: row.Object, SessionID: by(row.ID)})
		})
	}
	ours := func(id string) string { return id }
	stranger := func(string) string { return "00000000-0000-4000-8000-000000000000" }

	t.Run("by our own object is adopted", func(t *testing.T) {
		t.Parallel()
		in(t, func(t *testing.T, w *world) {
			taken(w, ours)
			w.clock.AfterFunc(time.Second, func() { w.makeReady(w.only()) })
			s, err := w.p.Create(t.Context(), direct())
			require.NoError(t, err)
			assert.Equal(t, w.only().Ref, s.Object)
			assert.Equal(t, s.Object, w.row().Object)
		})
	})
	for strangers, name := range map[int]string{1: "once", 2: "twice"} {
		t.Run("by a stranger "+name+" makes us take another", func(t *testing.T) {
			t.Parallel()
			in(t, func(t *testing.T, w *world) {
				for range strangers {
					taken(w, stranger)
				}
				s, err := w.p.Create(t.Context(), direct())
				require.NoError(t, err)
				require.Len(t, w.cluster.Objects(), strangers+1)
				specs := w.cluster.Specs()
				require.Len(t, specs, strangers+1)
				assert.NotEqual(t, specs[0].Object.Name, s.Object.Name)
				assert.Equal(t, specs[strangers].Object.Name, s.Object.Name)
				require.NoError(t, w.p.Delete(t.Context(), s.ID, session.ReasonDeleted))
				require.Len(t, w.cluster.Objects(), strangers, "the strangers' are untouched")
			})
		})
	}
	t.Run("by strangers three times is an error", func(t *testing.T) {
		t.Parallel()
		in(t, func(t *testing.T, w *world) {
			for range 3 {
				taken(w, stranger)
			}
			_, err := w.p.Create(t.Context(), direct())
			require.ErrorIs(t, err, sandbox.ErrExists)
			require.NoError(t, w.p.Wait(t.Context()))
			assert.Empty(t, w.fake.Rows())
			w.indexesAgree()
			assert.Len(t, w.cluster.Objects(), 3)
			assert.Zero(t, w.cluster.Calls("Delete"))
			assert.Equal(t, 3, w.cluster.Calls("Create"))
		})
	})
	t.Run("and is free again when we look is tried under another", func(t *testing.T) {
		t.Parallel()
		in(t, func(t *testing.T, w *world) {
			w.cluster.FailNext("Create", sandbox.ErrExists)
			s, err := w.p.Create(t.Context(), direct())
			require.NoError(t, err)
			assert.Equal(t, w.only().Ref, s.Object)
		})
	})
	t.Run("by we cannot tell whom: ours is undone", func(t *testing.T) {
		t.Parallel()
		in(t, func(t *testing.T, w *world) {
			taken(w, ours)
			w.cluster.FailNext("Get", sandbox.ErrForbidden)
			_, err := w.p.Create(t.Context(), direct())
			require.ErrorIs(t, err, sandbox.ErrForbidden)
			w.nothingLeft()
		})
	})
	t.Run("by we cannot tell whom: a stranger's stays", func(t *testing.T) {
		t.Parallel()
		in(t, func(t *testing.T, w *world) {
			taken(w, stranger)
			w.cluster.FailNext("Get", clustertest.ErrUnanswered)
			_, err := w.p.Create(t.Context(), direct())
			require.ErrorIs(t, err, sandbox.ErrUnavailable)
			require.NoError(t, w.p.Wait(t.Context()))
			assert.Empty(t, w.fake.Rows())
			assert.Len(t, w.cluster.Objects(), 1)
		})
	})
	t.Run("and the new one cannot be recorded: nothing is left", func(t *testing.T) {
		t.Parallel()
		in(t, func(t *testing.T, w *world) {
			taken(w, stranger)
			w.store.FailNext("Update", session.ErrUnavailable)
			_, err := w.p.Create(t.Context(), direct())
			require.ErrorIs(t, err, session.ErrUnavailable)
			require.NoError(t, w.p.Wait(t.Context()))
			assert.Empty(t, w.fake.Rows())
			assert.Len(t, w.cluster.Objects(), 1)
			assert.Equal(t, 1, w.cluster.Calls("Create"), "no object without its name in the row")
		})
	})
}

func TestAStoreThatHiccupsIsAskedAgain(t *testing.T) {
	t.Parallel()
	t.Run("the record of the UID may fail: the commit writes it", func(t *testing.T) {
		t.Parallel()
		in(t, func(t *testing.T, w *world) {
			w.store.FailNext("Update", session.ErrUnavailable)
			s, err := w.p.Create(t.Context(), direct())
			require.NoError(t, err)
			assert.Equal(t, w.only().Ref, w.row().Object)
			assert.Equal(t, session.StateReady, s.State)
		})
	})
	t.Run("the commit is retried", func(t *testing.T) {
		t.Parallel()
		in(t, func(t *testing.T, w *world) {
			w.store.Before("Update", func() {}) // the record
			for range 4 {
				w.store.FailNext("Update", session.ErrUnavailable)
			}
			s, err := w.p.Create(t.Context(), direct())
			require.NoError(t, err)
			assert.Equal(t, s, w.row())
			assert.Len(t, w.cluster.Objects(), 1)
			assert.Less(t, w.took(), 2*time.Second)
		})
	})
	t.Run("a commit whose answer was lost is recognised", func(t *testing.T) {
		t.Parallel()
		in(t, func(t *testing.T, w *world) {
			w.store.After("Update", func() {}) // the record
			w.store.FailAfter("Update", session.ErrUnavailable)
			s, err := w.p.Create(t.Context(), direct())
			require.NoError(t, err)
			assert.Equal(t, s, w.row())
			assert.Equal(t, int64(1), s.Generation)
		})
	})
	t.Run("the row is read before a commit whose answers were all lost is undone", func(t *testing.T) {
		t.Parallel()
		in(t, func(t *testing.T, w *world) {
			w.store.After("Update", func() {}) // the record
			w.store.FailAfter("Update", session.ErrUnavailable)
			w.store.After("Update", func() {})
			w.store.Before("Update", func() {})
			w.store.Before("Update", func() { w.store.Block("Update") })
			s, err := w.p.Create(t.Context(), direct())
			require.NoError(t, err)
			assert.Equal(t, s, w.row())
			assert.Len(t, w.cluster.Objects(), 1)
			assert.Equal(t, undoBound, w.took())
		})
	})
}
