package provision_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentcube/agentcube/pkg/sandbox"
	"github.com/agentcube/agentcube/pkg/session"
	"github.com/agentcube/agentcube/pkg/workloadmanager/clustertest"
	"github.com/agentcube/agentcube/pkg/workloadmanager/provision"
)

// ready makes a session the ordinary way.
func (w *world) session(request func() provision.Request) session.Session {
	w.t.Helper()
	s, err := w.p.Create(w.t.Context(), request())
	require.NoError(w.t, err)
	return s
}

func (w *world) change(id string, change func(*session.Session)) {
	w.t.Helper()
	_, err := w.fake.Update(w.t.Context(), id, func(s *session.Session) error { change(s); return nil })
	require.NoError(w.t, err)
}

func TestDeleteWorksInEveryState(t *testing.T) {
	t.Parallel()
	for name, become := range map[string]func(w *world, s session.Session){
		"ready": func(*world, session.Session) {},
		"not ready": func(w *world, s session.Session) {
			w.change(s.ID, func(s *session.Session) { s.State = session.StateNotReady })
		},
		"suspended": func(w *world, s session.Session) {
			w.change(s.ID, func(s *session.Session) { s.State = session.StateSuspended })
		},
		"being deleted": func(w *world, s session.Session) {
			w.change(s.ID, func(s *session.Session) { s.State = session.StateDeleting })
		},
		"failed": func(w *world, s session.Session) {
			w.cluster.Edit(s.Object, func(o *sandbox.Object) { o.Failure = &sandbox.Failure{Reason: "PodFailed"} })
		},
		"object gone": func(w *world, s session.Session) { w.cluster.Kill(s.Object) },
		"of an installation that records neither UID nor creator": func(w *world, s session.Session) {
			w.change(s.ID, func(s *session.Session) {
				s.Object.UID, s.Sandbox, s.Creator, s.Generation = "", session.SandboxRef{}, session.Creator{}, 0
			})
		},
		"creating, of an installation that records no creator": func(w *world, s session.Session) {
			w.change(s.ID, func(s *session.Session) {
				s.State, s.Object.UID, s.Sandbox = session.StateCreating, "", session.SandboxRef{}
				s.Creator, s.Generation = session.Creator{}, 0
			})
		},
	} {
		for kind, request := range kinds {
			t.Run(name+", "+kind, func(t *testing.T) {
				t.Parallel()
				in(t, func(t *testing.T, w *world) {
					other := w.session(request)
					s := w.session(request)
					become(w, s)
					require.NoError(t, w.p.Delete(t.Context(), s.ID, session.ReasonDeleted))
					assert.Zero(t, w.took())
					assert.Equal(t, other, w.row(), "other sessions are untouched")
					assert.Equal(t, other.Object, w.only().Ref)
					require.ErrorIs(t, w.p.Delete(t.Context(), s.ID, session.ReasonDeleted), session.ErrNotFound)
				})
			})
		}
	}
}

func TestDeleteLeavesADeletionTimestampToItsFinalizers(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, w *world) {
		s := w.session(direct)
		w.cluster.Finalizers()
		require.NoError(t, w.p.Delete(t.Context(), s.ID, session.ReasonDeleted))
		assert.Empty(t, w.fake.Rows())
		assert.True(t, w.only().Deleting)
	})
}

func TestDeleteOfAnUnknownSession(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, w *world) {
		require.ErrorIs(t, w.p.Delete(t.Context(), uuid.NewString(), session.ReasonDeleted), session.ErrNotFound)
		assert.Zero(t, w.cluster.Calls("Delete"))
	})
}

func TestDeleteMarksBeforeItDeletes(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, w *world) {
		s := w.session(direct)
		w.cluster.Before("Delete", func() {
			row := w.row()
			assert.Equal(t, session.StateDeleting, row.State)
			assert.Equal(t, session.ReasonDeleted, row.Reason)
			assert.Nil(t, row.EntryPoints)
		})
		require.NoError(t, w.p.Delete(t.Context(), s.ID, session.ReasonDeleted))
		w.nothingLeft()
	})
}

func TestDeleteWhileADependencyIsAway(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		away func(w *world) (back func())
		want error
		took time.Duration // at most
	}{
		"the store fails": {func(w *world) func() {
			w.store.FailNext("Update", session.ErrUnavailable)
			return func() {}
		}, session.ErrUnavailable, 0},
		"the store does not answer": {func(w *world) func() { return w.store.Block("Update") }, session.ErrUnavailable, undoBound},
		"the store fails for the row": {func(w *world) func() {
			return w.store.Block("Remove")
		}, session.ErrUnavailable, undoBound},
		"the API server fails": {func(w *world) func() {
			w.cluster.Down(clustertest.ErrDown)
			return func() { w.cluster.Down(nil) }
		}, sandbox.ErrUnavailable, undoBound},
		"the API server does not answer": {func(w *world) func() {
			w.cluster.Hang("Delete")
			return func() {}
		}, sandbox.ErrUnavailable, undoBound},
		"the API server refuses": {func(w *world) func() {
			w.cluster.FailNext("Delete", sandbox.ErrForbidden)
			return func() {}
		}, sandbox.ErrForbidden, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in(t, func(t *testing.T, w *world) {
				s := w.session(direct)
				back := c.away(w)
				err := w.p.Delete(t.Context(), s.ID, session.ReasonDeleted)
				require.Error(t, err, "what did not work is never answered as success")
				if c.want != nil {
					require.ErrorIs(t, err, c.want)
				}
				assert.LessOrEqual(t, w.took(), c.took)
				require.NoError(t, w.p.Wait(t.Context()))
				assert.Len(t, w.fake.Rows(), 1)
				back()
				require.NoError(t, w.p.Delete(t.Context(), s.ID, session.ReasonDeleted))
				w.nothingLeft()
			})
		})
	}
}

func TestDeleteHeals(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, w *world) {
		s := w.session(direct)
		w.cluster.FailNext("Delete", clustertest.ErrDown)
		w.cluster.FailAfter("Delete", clustertest.ErrUnanswered)
		w.store.FailNext("Remove", session.ErrUnavailable)
		w.store.FailAfter("Remove", session.ErrUnavailable)
		require.NoError(t, w.p.Delete(t.Context(), s.ID, session.ReasonDeleted))
		assert.Less(t, w.took(), 2*time.Second)
		w.nothingLeft()
	})
}

func TestDeleteGoesOnWithoutItsClient(t *testing.T) {
	t.Parallel()
	for name, arm := range map[string]func(w *world, leave func()){
		"that leaves before the mark":            func(w *world, leave func()) { w.store.Before("Update", leave) },
		"that leaves while the object goes":      func(w *world, leave func()) { w.cluster.Before("Delete", leave) },
		"that leaves just after the object went": func(w *world, leave func()) { w.store.Before("Remove", leave) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in(t, func(t *testing.T, w *world) {
				s := w.session(direct)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				arm(w, func() {
					cancel()
					w.pass(time.Second)
				})
				err := w.p.Delete(ctx, s.ID, session.ReasonDeleted)
				require.ErrorIs(t, err, provision.ErrClientGone)
				assert.Zero(t, w.took())
				w.nothingLeft()
			})
		})
	}
}

func TestFinishOfATombstone(t *testing.T) {
	t.Parallel()
	row := func(w *world, until time.Time) session.Session {
		s, err := w.fake.Create(w.t.Context(), session.Session{
			ID:        uuid.NewString(),
			Object:    session.ObjectRef{Kind: session.KindSandbox, Namespace: namespace, Name: "echo-1"},
			State:     session.StateDeleting,
			CreatedAt: w.start, UnknownUntil: until,
			Creator: session.Creator{Process: process, Token: "token"},
		})
		require.NoError(w.t, err)
		return s
	}
	t.Run("leaves the row to a creator that may live", func(t *testing.T) {
		t.Parallel()
		in(t, func(t *testing.T, w *world) {
			s := row(w, w.start.Add(time.Hour))
			w.cluster.Put(sandbox.Object{Ref: s.Object, SessionID: s.ID})
			require.NoError(t, w.p.Finish(t.Context(), s, false))
			assert.Empty(t, w.cluster.Objects())
			assert.Equal(t, s, w.row())
			require.NoError(t, w.p.Finish(t.Context(), s, false), "an absent object is success")
			assert.Equal(t, s, w.row())
		})
	})
	t.Run("of a dead creator finds the object by its label", func(t *testing.T) {
		t.Parallel()
		in(t, func(t *testing.T, w *world) {
			s := row(w, w.start.Add(time.Hour))
			w.cluster.Put(sandbox.Object{Ref: s.Object, SessionID: s.ID})
			require.NoError(t, w.p.Finish(t.Context(), s, true))
			w.nothingLeft()
		})
	})
	t.Run("leaves a stranger's object of that name", func(t *testing.T) {
		t.Parallel()
		in(t, func(t *testing.T, w *world) {
			s := row(w, time.Time{})
			w.cluster.Put(sandbox.Object{Ref: s.Object, SessionID: uuid.NewString()})
			require.NoError(t, w.p.Finish(t.Context(), s, true))
			assert.Empty(t, w.fake.Rows())
			assert.Len(t, w.cluster.Objects(), 1)
		})
	})
	t.Run("tries once, so that it holds up nobody", func(t *testing.T) {
		t.Parallel()
		in(t, func(t *testing.T, w *world) {
			s := row(w, time.Time{})
			w.cluster.Down(clustertest.ErrDown)
			require.ErrorIs(t, w.p.Finish(t.Context(), s, true), sandbox.ErrUnavailable)
			assert.Equal(t, 1, w.cluster.Calls("Get"))
			assert.Zero(t, w.took())
		})
	})
	t.Run("ends an API server that hangs after its bound", func(t *testing.T) {
		t.Parallel()
		in(t, func(t *testing.T, w *world) {
			s := row(w, time.Time{})
			w.cluster.Hang("Get")
			require.Error(t, w.p.Finish(t.Context(), s, true))
			assert.Equal(t, undoBound, w.took())
		})
	})
}

func TestWaitEndsWithItsContext(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, w *world) {
		s := w.session(direct)
		w.cluster.Hang("Delete")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, w.p.Delete(ctx, s.ID, session.ReasonDeleted), provision.ErrClientGone)
		over, stop := context.WithCancel(t.Context())
		stop()
		require.ErrorIs(t, w.p.Wait(over), context.Canceled)
		require.NoError(t, w.p.Wait(t.Context()))
		assert.Equal(t, undoBound, w.took())
		synctest.Wait() // nothing may begin while what the first Wait left behind still waits
		require.NoError(t, w.p.Delete(t.Context(), s.ID, session.ReasonDeleted))
	})
}
