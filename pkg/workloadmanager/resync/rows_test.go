package resync_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentcube/agentcube/pkg/sandbox"
	"github.com/agentcube/agentcube/pkg/session"
	"github.com/agentcube/agentcube/pkg/workloadmanager/clustertest"
)

func TestRows(t *testing.T) {
	t.Parallel()
	cases := map[string]func(w *world){
		"a session whose row and object agree is left alone": func(w *world) {
			s := w.session()
			report := w.pass()
			w.rowIs(s, true, "it lives")
			assert.Equal(w.t, 1, report.Rows)
			assert.Equal(w.t, 1, report.Objects)
			assert.Zero(w.t, w.cluster.Calls("Get"), "what agrees costs no read")
		},
		"a row whose object is gone goes, at once": func(w *world) {
			dead, alive := w.lost(), w.session()
			begun := w.clock.Now()
			report := w.pass()
			w.rowIs(dead, false, "its object is gone")
			w.rowIs(alive, true, "its object is there")
			assert.Equal(w.t, 1, report.Purged)
			assert.Zero(w.t, w.clock.Since(begun), "rows need no grace period")
			assert.InDelta(w.t, 1, w.gauge("agentcube_resync_purged_total"), 0)
		},
		"a row whose object's name belongs to another object goes, and that object stays": func(w *world) {
			s := w.lost()
			other := w.object(func(o *sandbox.Object) {
				o.Ref.Name, o.SessionID, o.Installation = s.Object.Name, "00000000-0000-4000-8000-00000000aaaa", theirs
			})
			w.pass()
			w.rowIs(s, false, "its object is gone")
			w.objectIs(other, true, "it is another's")
		},
		"a row whose object is marked for deletion goes": func(w *world) {
			s := w.session()
			w.cluster.Edit(s.Object, func(o *sandbox.Object) { o.Deleting = true })
			w.pass()
			w.rowIs(s, false, "its object is going")
		},
		"a row without a UID stays while an object of that name is there": func(w *world) {
			s := w.row(w.object(nil), func(s *session.Session) { s.Object.UID = "" })
			w.pass()
			w.rowIs(s, true, "nothing says it is another")
		},
		"a row without a UID goes when no object of that name is there": func(w *world) {
			s := w.row(w.object(nil), func(s *session.Session) { s.Object.UID = "" })
			w.cluster.Kill(s.Object)
			w.pass()
			w.rowIs(s, false, "its object is gone")
		},
		"rows that are being created or deleted are in other hands": func(w *world) {
			for _, state := range []session.State{session.StateCreating, session.StateDeleting} {
				s := w.row(w.object(nil), func(s *session.Session) { s.State, s.EntryPoints = state, nil })
				w.cluster.Kill(s.Object)
				w.pass()
				w.rowIs(s, true, string(state))
			}
			assert.Zero(w.t, w.store.Calls("Get"), "they are not even read")
		},
		"a row that is being deleted when its turn comes is left alone": func(w *world) {
			s := w.lost()
			w.store.Before("Get", func() {
				_, err := w.fake.Update(w.t.Context(), s.ID, session.Delete(session.ReasonDeleted, time.Time{}))
				require.NoError(w.t, err)
			})
			w.pass()
			w.rowIs(s, true, "whoever deletes it removes it")
		},
		"a row that was reserved after the list began is not judged": func(w *world) {
			w.store.Before("Scan", func() {
				w.sleep(time.Second)
				w.row(w.object(nil), func(s *session.Session) { s.CreatedAt = w.clock.Now() })
			})
			report := w.pass()
			assert.Len(w.t, w.fake.Rows(), 1)
			assert.Zero(w.t, report.Absent)
			assert.Zero(w.t, w.cluster.Calls("Get"))
		},
		"a row that was committed between the list and the scan stays": func(w *world) {
			o := sandbox.Object{Ref: session.ObjectRef{Kind: session.KindSandbox, Namespace: "team", Name: "late", UID: "late"}}
			o.SessionID, o.Installation = "00000000-0000-4000-8000-00000000bbbb", ours
			s := w.row(o, func(s *session.Session) { s.State, s.Generation = session.StateCreating, 0 })
			w.store.Before("Scan", func() {
				w.cluster.Put(o)
				_, err := w.fake.Update(w.t.Context(), s.ID, session.Commit("t", session.Observed{State: session.StateReady, Object: o.Ref}))
				require.NoError(w.t, err)
			})
			report := w.pass()
			w.rowIs(s, true, "the direct read finds its object")
			assert.Equal(w.t, 1, report.Absent, "the list did not show it, so something was tested")
		},
		"a row that comes to name another object before it is purged stays": func(w *world) {
			s := w.lost()
			w.store.Before("Remove", func() {
				_, err := w.fake.Update(w.t.Context(), s.ID, func(s *session.Session) error { s.Object.UID = "new"; return nil })
				require.NoError(w.t, err)
			})
			report := w.pass()
			w.rowIs(s, true, "it names an object that nobody looked at")
			assert.Zero(w.t, report.Purged)
			assert.Zero(w.t, report.Failed)
		},
		"a row without a UID that comes to know one before it is purged stays": func(w *world) {
			s := w.row(w.object(nil), func(s *session.Session) { s.Object.UID = "" })
			w.cluster.Kill(s.Object)
			w.store.Before("Remove", func() {
				_, err := w.fake.Update(w.t.Context(), s.ID, func(s *session.Session) error { s.Object.UID = "new"; return nil })
				require.NoError(w.t, err)
			})
			w.pass()
			w.rowIs(s, true, "an object of the same name was made meanwhile")
		},
		"a session whose object lost its label is handed to the reconciler": func(w *world) {
			s := w.session()
			w.cluster.Edit(s.Object, func(o *sandbox.Object) { o.SessionID = "" })
			report := w.pass()
			w.rowIs(s, true, "its object is there")
			require.Len(w.t, w.events.all, 1)
			e := w.events.all[0]
			assert.True(w.t, e.Deleted)
			assert.Equal(w.t, s.Object, e.Object.Ref)
			assert.Equal(w.t, s.ID, e.Object.SessionID)
			assert.Equal(w.t, 1, report.Relabelled)
		},
		"a session whose object's label names another one is handed to the reconciler": func(w *world) {
			s := w.session()
			w.cluster.Edit(s.Object, func(o *sandbox.Object) { o.SessionID = "00000000-0000-4000-8000-00000000aaaa" })
			report := w.pass()
			w.rowIs(s, true, "its object is there")
			require.Len(w.t, w.events.all, 1)
			assert.Equal(w.t, s.Object, w.events.all[0].Object.Ref)
			assert.Equal(w.t, s.ID, w.events.all[0].Object.SessionID)
			assert.Equal(w.t, 1, report.Relabelled)
			assert.Zero(w.t, report.Swept)
		},
		"an API server that does not answer is no proof of absence": func(w *world) {
			s := w.lost()
			w.cluster.FailNext("Get", clustertest.ErrDown)
			_, err := w.r.Pass(w.t.Context())
			require.ErrorIs(w.t, err, sandbox.ErrUnavailable)
			w.rowIs(s, true, "nothing is known")
		},
		"an object that may not be read holds up no other": func(w *world) {
			a, b := w.lost(), w.lost()
			w.cluster.FailNext("Get", sandbox.ErrForbidden)
			report := w.pass()
			assert.Equal(w.t, 1, report.Failed)
			assert.Equal(w.t, 1, report.Purged)
			assert.Len(w.t, w.fake.Rows(), 1, "%s or %s", a.ID, b.ID)
		},
		"a store that fails during the scan ends the pass, and nothing goes": func(w *world) {
			w.object(nil)
			s := w.lost()
			w.store.FailNext("Scan", session.ErrUnavailable)
			_, err := w.r.Pass(w.t.Context())
			require.ErrorIs(w.t, err, session.ErrUnavailable)
			w.rowIs(s, true, "the scan was not whole")
			assert.Len(w.t, w.cluster.Objects(), 1)
		},
		"a list that expires is begun anew, and what it showed before counts no more": func(w *world) {
			dead := w.session()
			w.session()
			w.lister.expire = 1
			w.lister.during = func() {
				if _, err := w.cluster.Get(w.t.Context(), dead.Object); err == nil {
					w.cluster.Kill(dead.Object)
				}
			}
			w.pass()
			w.rowIs(dead, false, "the second list did not show its object")
			assert.Equal(w.t, 2, w.lister.lists())
		},
		"a list that expires for ever ends the pass": func(w *world) {
			s := w.lost()
			w.session()
			w.lister.expire = 1000
			_, err := w.r.Pass(w.t.Context())
			require.ErrorIs(w.t, err, sandbox.ErrExpired)
			w.rowIs(s, true, "nothing was compared")
			assert.Less(w.t, w.lister.lists(), 10)
		},
		"rows that cannot be read do not hold up the rest": func(w *world) {
			s := w.lost()
			w.store.FailAfter("Index", session.ErrCorrupt)
			w.pass()
			w.rowIs(s, false, "its object is gone")
		},
		"indexes that cannot be mended end the pass": func(w *world) {
			s := w.lost()
			w.store.FailNext("Index", session.ErrUnavailable)
			_, err := w.r.Pass(w.t.Context())
			require.ErrorIs(w.t, err, session.ErrUnavailable)
			w.rowIs(s, true, "the store is not there")
		},
		"index entries that rows lack are added": func(w *world) {
			o := w.object(nil)
			require.NoError(w.t, w.fake.Put(session.Session{ID: o.SessionID, Object: o.Ref, IdleTimeout: time.Hour, CreatedAt: w.clock.Now()}))
			report := w.pass() // checks the indexes
			assert.Positive(w.t, report.Mended)
		},
	}
	for behaviour, test := range cases {
		t.Run(behaviour, func(t *testing.T) {
			t.Parallel()
			in(t, test)
		})
	}
}
