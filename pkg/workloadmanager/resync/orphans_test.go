package resync_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentcube/agentcube/pkg/sandbox"
	"github.com/agentcube/agentcube/pkg/session"
	"github.com/agentcube/agentcube/pkg/session/sessiontest"
	"github.com/agentcube/agentcube/pkg/workloadmanager/resync"
)

func TestOrphans(t *testing.T) {
	t.Parallel()
	cases := map[string]func(w *world){
		"an object that no row names goes after the grace period": func(w *world) {
			o, begun := w.object(nil), w.clock.Now()
			kept := w.session()
			report := w.pass()
			w.objectIs(o, false, "no row names it")
			w.rowIs(kept, true, "it has nothing to do with it")
			assert.Equal(w.t, grace, w.clock.Since(begun))
			assert.Equal(w.t, 1, report.Swept)
			assert.Zero(w.t, report.Worked, "the grace period is no work")
			assert.InDelta(w.t, 1, w.gauge("agentcube_resync_swept_total"), 0)
		},
		"rows without an object do not wait for objects without a row": func(w *world) {
			dead, begun := w.lost(), w.clock.Now()
			o := w.object(nil)
			w.store.After("Remove", func() { assert.Zero(w.t, w.clock.Since(begun)) })
			w.pass()
			w.rowIs(dead, false, "its object is gone")
			w.objectIs(o, false, "no row names it")
		},
		"its row is read twice, a grace period apart": func(w *world) {
			var at []time.Duration
			w.object(nil)
			begun := w.clock.Now()
			for range 2 {
				w.store.Before("Get", func() { at = append(at, w.clock.Since(begun)) })
			}
			w.pass()
			assert.Equal(w.t, []time.Duration{0, grace}, at)
		},
		"an object whose row comes during the grace period stays": func(w *world) {
			o := w.object(nil)
			w.store.After("Get", func() { w.row(o, nil) })
			w.pass()
			w.objectIs(o, true, "its row is there")
		},
		"an object whose row the scan missed stays": func(w *world) {
			o := w.object(nil)
			w.store.After("Scan", func() { w.row(o, nil) })
			report := w.pass()
			w.objectIs(o, true, "its row is there")
			assert.Equal(w.t, 1, report.Unnamed, "the scan did not show it, so something was tested")
		},
		"an object of another installation stays": func(w *world) {
			o := w.object(func(o *sandbox.Object) { o.Installation = theirs })
			w.pass()
			w.objectIs(o, true, "it is another's")
			assert.Zero(w.t, w.store.Calls("Get"), "its row would be in another store")
		},
		"an object without an installation's id stays": func(w *world) {
			o := w.object(func(o *sandbox.Object) { o.Installation = "" })
			w.pass()
			w.objectIs(o, true, "whose it is is not known")
		},
		"an object that is being deleted is not deleted again": func(w *world) {
			w.object(func(o *sandbox.Object) { o.Deleting = true })
			w.pass()
			assert.Zero(w.t, w.cluster.Calls("Delete"))
		},
		"an object that is being deleted by the second look is not deleted again": func(w *world) {
			o := w.object(nil)
			w.store.After("Get", func() { w.cluster.Edit(o.Ref, func(o *sandbox.Object) { o.Deleting = true }) })
			w.pass()
			assert.Zero(w.t, w.cluster.Calls("Delete"))
		},
		"a young object is left to the next pass": func(w *world) {
			o := w.object(func(o *sandbox.Object) { o.CreatedAt = w.clock.Now().Add(-grace + time.Millisecond) })
			old := w.object(nil)
			w.pass()
			w.objectIs(o, true, "its create may have been under way at the first look")
			w.objectIs(old, false, "it was looked at twice")
			w.pass()
			w.objectIs(o, false, "it is old enough")
		},
		"an object that another one controls goes with that one": func(w *world) {
			o := w.object(nil)
			w.lister.controlled = map[string]bool{o.Ref.Name: true}
			w.pass()
			w.objectIs(o, true, "it is its controller's")
		},
		"an object whose label was copied from another is an orphan if it is ours, and the row is not touched": func(w *world) {
			s := w.session()
			copied := w.object(func(o *sandbox.Object) { o.SessionID = s.ID })
			foreign := w.object(func(o *sandbox.Object) { o.SessionID, o.Installation = s.ID, theirs })
			before := w.fake.Rows()[s.ID]
			w.pass()
			w.objectIs(copied, false, "the row names another object")
			w.objectIs(foreign, true, "it is another's")
			assert.Equal(w.t, before, w.fake.Rows()[s.ID])
			_, err := w.cluster.Get(w.t.Context(), s.Object)
			require.NoError(w.t, err, "the session's own object lives")
		},
		"an object that names no session that could be is an orphan": func(w *world) {
			o := w.object(func(o *sandbox.Object) { o.SessionID = "no-id" })
			w.pass()
			w.objectIs(o, false, "no row can name it")
		},
		"an object whose session is being created or deleted is in other hands": func(w *world) {
			for _, state := range []session.State{session.StateCreating, session.StateDeleting} {
				o := w.object(nil)
				w.row(o, func(s *session.Session) { s.State, s.Object.Name, s.Object.UID = state, "another", "" })
				w.pass()
				w.objectIs(o, true, string(state))
			}
		},
		"another object under the same name by the second look stays": func(w *world) {
			o := w.object(nil)
			w.store.After("Get", func() {
				w.cluster.Kill(o.Ref)
				o.Ref.UID = ""
				o = w.cluster.Put(o)
			})
			w.pass()
			w.objectIs(o, true, "it was looked at once only")
		},
		"another object under the same name by the time of the deletion stays": func(w *world) {
			o := w.object(nil)
			w.cluster.Before("Delete", func() {
				w.cluster.Kill(o.Ref)
				o.Ref.UID = ""
				o = w.cluster.Put(o)
			})
			report := w.pass()
			w.objectIs(o, true, "nobody looked at it")
			assert.Zero(w.t, report.Swept)
			assert.Zero(w.t, report.Failed)
		},
		"an object whose label was changed during the grace period stays": func(w *world) {
			o := w.object(nil)
			s := w.session()
			w.store.After("Get", func() { o = w.cluster.Edit(o.Ref, func(o *sandbox.Object) { o.SessionID = s.ID }) })
			w.pass()
			w.objectIs(o, true, "the row that it names now was read once only")
		},
		"a store that does not answer is no proof of absence": func(w *world) {
			o := w.object(nil)
			for range 2 {
				w.store.FailNext("Get", session.ErrUnavailable)
				_, err := w.r.Pass(w.t.Context())
				require.ErrorIs(w.t, err, session.ErrUnavailable)
				w.objectIs(o, true, "nothing is known")
			}
			w.store.After("Get", func() { w.store.FailNext("Get", session.ErrUnavailable) })
			_, err := w.r.Pass(w.t.Context())
			require.ErrorIs(w.t, err, session.ErrUnavailable)
			w.objectIs(o, true, "nothing is known at the second look")
		},
		"an object whose row cannot be read stays": func(w *world) {
			o := w.object(nil)
			w.all = &spoiled{w.store, o.SessionID}
			w.r = w.resyncer(ours)
			report := w.pass()
			w.objectIs(o, true, "there is a row, and it may name the object")
			assert.Zero(w.t, report.Absent)
		},
		"a second list that expires is begun anew, and counts nothing twice": func(w *world) {
			w.many(resyncFew, func() { w.object(nil) })
			w.lister.after = func() { w.lister.expire = 1 - w.lister.calls/2 } // the second list expires once
			report := w.pass()
			assert.Empty(w.t, w.cluster.Objects())
			assert.Equal(w.t, resyncFew, report.Swept)
			assert.Equal(w.t, 3, w.lister.lists())
		},
	}
	for behaviour, test := range cases {
		t.Run(behaviour, func(t *testing.T) {
			t.Parallel()
			in(t, test)
		})
	}
}

// resyncFew may go without leave, however few there are.
const resyncFew = 20

func TestUnmarkedObjectsAreAdoptedOnDemand(t *testing.T) {
	t.Parallel()
	in(t, func(w *world) {
		unmarked := w.object(func(o *sandbox.Object) { o.Installation = "" })
		foreign := w.object(func(o *sandbox.Object) { o.Installation = theirs })
		w.pass()
		w.objectIs(unmarked, false, "it counts as ours")
		w.objectIs(foreign, true, "it is another's")
	}, func(o *resync.Options) { o.AdoptUnmarked = true })
}

// spoiled is a store in which a row cannot be read.
type spoiled struct {
	*sessiontest.Faulty
	id string
}

func (s *spoiled) Scan(ctx context.Context, cursor uint64) ([]session.Row, uint64, error) {
	rows, next, err := s.Faulty.Scan(ctx, cursor)
	return append(rows, session.Row{ID: s.id, Unreadable: true}), next, err
}

func (s *spoiled) Get(ctx context.Context, id string) (session.Session, error) {
	if id == s.id {
		return session.Session{}, fmt.Errorf("reading %s: %w", id, session.ErrCorrupt)
	}
	return s.Faulty.Get(ctx, id)
}
