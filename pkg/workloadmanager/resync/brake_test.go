package resync_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap/zapcore"

	"github.com/agentcube/agentcube/pkg/sandbox"
	"github.com/agentcube/agentcube/pkg/session"
	"github.com/agentcube/agentcube/pkg/workloadmanager/resync"
)

func TestMassRemoval(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		kept, rows, objects int // sessions that agree; rows without object; objects without row
		held                bool
	}{
		"twenty rows go, though they are all there are":                   {rows: 20},
		"twenty-one of 209 rows do not":                                   {kept: 188, rows: 21, held: true},
		"twenty-one of 210 rows go: that is no more than a tenth":         {kept: 189, rows: 21},
		"twenty-two of 219 rows do not":                                   {kept: 197, rows: 22, held: true},
		"twenty objects go, though they are all there are":                {objects: 20},
		"twenty-one of 209 objects do not":                                {kept: 188, objects: 21, held: true},
		"twenty-one of 210 objects go":                                    {kept: 189, objects: 21},
		"many objects hold the few rows too":                              {kept: 10, rows: 1, objects: 21, held: true},
		"many rows hold the few objects too":                              {kept: 10, rows: 21, objects: 1, held: true},
		"rows and objects are not added up: twenty of each may go":        {rows: 20, objects: 20},
		"a thousand sessions that agree do not stand in the way of a few": {kept: 1000, rows: 3, objects: 3},
	}
	for behaviour, c := range cases {
		t.Run(behaviour, func(t *testing.T) {
			t.Parallel()
			in(t, func(w *world) {
				w.many(c.kept, func() { w.session() })
				w.many(c.rows, func() { w.lost() })
				w.many(c.objects, func() { w.object(nil) })
				report := w.pass()
				if c.held {
					assert.Equal(w.t, resync.ReasonMass, report.Held)
					assert.Len(w.t, w.fake.Rows(), c.kept+c.rows)
					assert.Len(w.t, w.cluster.Objects(), c.kept+c.objects)
					assert.InDelta(w.t, 1, w.gauge("agentcube_resync_brake"), 0)
					require.Error(w.t, w.r.Held(w.t.Context()))
					return
				}
				assert.Empty(w.t, report.Held)
				assert.Len(w.t, w.fake.Rows(), c.kept)
				assert.Len(w.t, w.cluster.Objects(), c.kept)
				assert.InDelta(w.t, 0, w.gauge("agentcube_resync_brake"), 0)
				require.NoError(w.t, w.r.Held(w.t.Context()))
			})
		})
	}
}

func (w *world) errors() int {
	return w.logs.Filter(func(e observedEntry) bool { return e.Level == zapcore.ErrorLevel }).Len()
}

func TestBrake(t *testing.T) {
	t.Parallel()
	cases := map[string]func(w *world){
		"a store that was emptied under a thousand sessions empties nothing": func(w *world) {
			w.pass()
			w.many(1000, func() { w.session() })
			w.fake.Wipe()
			for range 3 {
				report := w.pass()
				assert.Equal(w.t, resync.ReasonStoreEmpty, report.Held)
				assert.Len(w.t, w.cluster.Objects(), 1000)
			}
			id, err := w.fake.Installation(w.t.Context())
			require.NoError(w.t, err)
			assert.Empty(w.t, id, "nobody said that the store is right")
			assert.Equal(w.t, "1000", w.record.data("brake-objects-to-delete"))
			assert.Equal(w.t, 1, w.errors(), "once per change")
		},
		"a store that was emptied under one session empties nothing": func(w *world) {
			s := w.session()
			w.fake.Wipe()
			assert.Equal(w.t, resync.ReasonStoreEmpty, w.pass().Held)
			_, err := w.cluster.Get(w.t.Context(), s.Object)
			require.NoError(w.t, err)
		},
		"a store that was emptied under a session made just now empties nothing": func(w *world) {
			w.object(func(o *sandbox.Object) { o.CreatedAt = w.clock.Now() })
			w.fake.Wipe()
			assert.Equal(w.t, resync.ReasonStoreEmpty, w.pass().Held)
		},
		"a store that was emptied when there was nothing becomes ours without leave": func(w *world) {
			w.object(func(o *sandbox.Object) { o.Installation = theirs })
			w.fake.Wipe()
			assert.Empty(w.t, w.pass().Held)
			id, err := w.fake.Installation(w.t.Context())
			require.NoError(w.t, err)
			assert.Equal(w.t, ours, id)
		},
		"a store of another installation is never taken without leave": func(w *world) {
			require.NoError(w.t, w.fake.SetInstallation(w.t.Context(), theirs))
			s := w.lost()
			assert.Equal(w.t, resync.ReasonStoreChanged, w.pass().Held)
			w.rowIs(s, true, "it is another's")
			assert.Equal(w.t, theirs, w.record.data("brake-store"))
			id, err := w.fake.Installation(w.t.Context())
			require.NoError(w.t, err)
			assert.Equal(w.t, theirs, id)
		},
		"a store of another installation is not taken though nothing would go": func(w *world) {
			require.NoError(w.t, w.fake.SetInstallation(w.t.Context(), theirs))
			assert.Equal(w.t, resync.ReasonStoreChanged, w.pass().Held)
		},
		"a store that belongs to nobody but has rows is not taken without leave": func(w *world) {
			s := w.lost()
			require.NoError(w.t, w.fake.SetInstallation(w.t.Context(), ""))
			assert.Equal(w.t, resync.ReasonStoreEmpty, w.pass().Held)
			w.rowIs(s, true, "whose it is is not known")
		},
		"a brake that was spoiled by hand confirms nothing": func(w *world) {
			w.many(30, func() { w.lost() })
			w.pass()
			w.record.note.Data["brake-token"] = ""
			assert.Equal(w.t, resync.ReasonMass, w.pass().Held)
			assert.Len(w.t, w.fake.Rows(), 30)
		},
		"what an operator confirms is done, once, and the store is ours": func(w *world) {
			w.many(30, func() { w.session() })
			w.fake.Wipe()
			kept := w.session()
			w.pass()
			w.record.confirm(w.record.data("brake-token"))
			report := w.pass()
			assert.Equal(w.t, 30, report.Swept)
			w.rowIs(kept, true, "it has its row")
			assert.Len(w.t, w.cluster.Objects(), 1)
			id, err := w.fake.Installation(w.t.Context())
			require.NoError(w.t, err)
			assert.Equal(w.t, ours, id)
			assert.Empty(w.t, w.record.data("brake-reason"))
			assert.Empty(w.t, w.record.note.Annotations)
			assert.Equal(w.t, ours, w.record.data("installation"))

			w.many(30, func() { w.object(nil) })
			assert.Equal(w.t, resync.ReasonMass, w.pass().Held, "the leave was for once")
		},
		"rows that an operator confirms go too": func(w *world) {
			w.many(30, func() { w.lost() })
			w.pass()
			w.record.confirm(w.record.data("brake-token"))
			assert.Equal(w.t, 30, w.pass().Purged)
			assert.Empty(w.t, w.fake.Rows())
		},
		"a leave is used up before anything goes": func(w *world) {
			w.many(30, func() { w.lost() })
			w.pass()
			token := w.record.data("brake-token")
			w.record.confirm(token)
			w.cluster.FailNext("Get", sandbox.ErrUnavailable)
			_, err := w.r.Pass(w.t.Context())
			require.Error(w.t, err)
			assert.Len(w.t, w.fake.Rows(), 30)
			assert.Equal(w.t, resync.ReasonMass, w.pass().Held, "it must be confirmed anew")
			assert.NotEqual(w.t, token, w.record.data("brake-token"))
		},
		"a leave that cannot be marked as used gives none": func(w *world) {
			w.many(30, func() { w.lost() })
			w.pass()
			w.record.confirm(w.record.data("brake-token"))
			w.record.fail = map[string]error{"Update": sandbox.ErrConflict}
			_, err := w.r.Pass(w.t.Context())
			require.ErrorIs(w.t, err, sandbox.ErrConflict)
			assert.Len(w.t, w.fake.Rows(), 30)
		},
		"another token confirms nothing": func(w *world) {
			w.many(30, func() { w.lost() })
			w.pass()
			w.record.confirm("other")
			assert.Equal(w.t, resync.ReasonMass, w.pass().Held)
			assert.Len(w.t, w.fake.Rows(), 30)
		},
		"a leave covers what was seen and the few that need none, and no more": func(w *world) {
			w.many(30, func() { w.lost() })
			w.pass()
			token := w.record.data("brake-token")
			w.record.confirm(token)
			w.many(21, func() { w.lost() })
			report := w.pass()
			assert.Equal(w.t, resync.ReasonMass, report.Held)
			assert.NotEqual(w.t, token, w.record.data("brake-token"))
			assert.LessOrEqual(w.t, report.Purged, 50)
			assert.NotEmpty(w.t, w.fake.Rows())
		},
		"a leave for a mass removal is none for a store that was emptied meanwhile": func(w *world) {
			w.many(30, func() { w.object(nil) })
			w.pass()
			w.record.confirm(w.record.data("brake-token"))
			w.fake.Wipe()
			assert.Equal(w.t, resync.ReasonStoreEmpty, w.pass().Held)
			assert.Len(w.t, w.cluster.Objects(), 30)
		},
		"a leave for one store is none for another": func(w *world) {
			w.many(30, func() { w.object(nil) })
			require.NoError(w.t, w.fake.SetInstallation(w.t.Context(), theirs))
			w.pass()
			token := w.record.data("brake-token")
			w.record.confirm(token)
			require.NoError(w.t, w.fake.SetInstallation(w.t.Context(), "33333333-3333-4333-8333-333333333333"))
			assert.Equal(w.t, resync.ReasonStoreChanged, w.pass().Held)
			assert.NotEqual(w.t, token, w.record.data("brake-token"))
			assert.Empty(w.t, w.record.note.Annotations)
			assert.Len(w.t, w.cluster.Objects(), 30)
		},
		"the token stays while there is nothing else to confirm, and counts of it do not creep up": func(w *world) {
			w.many(30, func() { w.lost() })
			w.pass()
			token := w.record.data("brake-token")
			w.many(15, func() { w.lost() })
			w.pass()
			assert.Equal(w.t, token, w.record.data("brake-token"))
			assert.Equal(w.t, "30", w.record.data("brake-rows-to-remove"))
			assert.Equal(w.t, 1, w.errors())
			w.many(15, func() { w.lost() })
			w.pass()
			assert.NotEqual(w.t, token, w.record.data("brake-token"))
			assert.Equal(w.t, "60", w.record.data("brake-rows-to-remove"))
			assert.Equal(w.t, 2, w.errors())
		},
		"the brake comes off by itself when its reason has passed": func(w *world) {
			w.many(30, func() { w.object(nil) })
			w.pass()
			for _, o := range w.cluster.Objects()[:25] {
				w.cluster.Kill(o.Ref)
			}
			assert.Empty(w.t, w.pass().Held)
			assert.Empty(w.t, w.record.data("brake-reason"))
			assert.Empty(w.t, w.cluster.Objects())
			require.NoError(w.t, w.r.Held(w.t.Context()))
			assert.InDelta(w.t, 0, w.gauge("agentcube_resync_brake"), 0)
		},
		"the log, and the record, say how to confirm": func(w *world) {
			w.many(30, func() { w.lost() })
			w.pass()
			line := "kubectl -n agentcube annotate --overwrite configmap agentcube-workload-manager " +
				"runtime.agentcube.io/confirm-resync=" + w.record.data("brake-token")
			assert.Equal(w.t, line, w.record.data("brake-confirm-with"))
			entries := w.logs.FilterField(stringField("to confirm", line)).All()
			require.Len(w.t, entries, 1)
			assert.Equal(w.t, zapcore.ErrorLevel, entries[0].Level)
		},
		"a brake that cannot be recorded holds all the same": func(w *world) {
			w.many(30, func() { w.lost() })
			w.record.note = &sandbox.Note{Data: map[string]string{"installation": ours}}
			w.record.fail = map[string]error{"Update": sandbox.ErrUnavailable}
			_, err := w.r.Pass(w.t.Context())
			require.ErrorIs(w.t, err, sandbox.ErrUnavailable)
			assert.Len(w.t, w.fake.Rows(), 30)
		},
		"a record that was deleted is made again": func(w *world) {
			w.pass()
			w.record.note = nil
			w.pass()
			assert.Equal(w.t, ours, w.record.data("installation"))
		},
		"a record that cannot be read ends the pass, and nothing goes": func(w *world) {
			s := w.lost()
			w.record.fail = map[string]error{"Get": sandbox.ErrUnavailable}
			_, err := w.r.Pass(w.t.Context())
			require.ErrorIs(w.t, err, sandbox.ErrUnavailable)
			w.rowIs(s, true, "whose store it is is not known")
		},
		"a record of another installation ends the pass, and nothing goes": func(w *world) {
			s := w.lost()
			w.record.note = &sandbox.Note{Data: map[string]string{"installation": theirs}}
			_, err := w.r.Pass(w.t.Context())
			require.ErrorContains(w.t, err, "restart")
			w.rowIs(s, true, "this process is not of that installation")
		},
	}
	for behaviour, test := range cases {
		t.Run(behaviour, func(t *testing.T) {
			t.Parallel()
			in(t, test)
		})
	}
}

func TestTwoInstallationsOnOneClusterLeaveEachOtherAlone(t *testing.T) {
	t.Parallel()
	in(t, func(w *world) {
		mine := w.session()
		orphan := w.object(nil)
		other := newWorld(w.t)
		other.cluster, other.lister = w.cluster, w.lister
		other.r = other.resyncer(theirs)
		require.NoError(w.t, other.fake.SetInstallation(w.t.Context(), theirs))
		foreign := other.row(other.object(func(o *sandbox.Object) { o.Installation = theirs }), nil)
		foreignOrphan := other.object(func(o *sandbox.Object) { o.Installation = theirs })
		w.pass()
		w.objectIs(orphan, false, "it is ours")
		w.objectIs(foreignOrphan, true, "it is the other's")
		other.pass()
		w.objectIs(foreignOrphan, false, "it is the other's own")
		for _, s := range []session.Session{mine, foreign} {
			_, err := w.cluster.Get(w.t.Context(), s.Object)
			require.NoError(w.t, err)
		}
		w.rowIs(mine, true, "its object lives")
		other.rowIs(foreign, true, "its object lives")
	})
}
