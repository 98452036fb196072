package reconcile_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/agentcube/agentcube/pkg/sandbox"
	"github.com/agentcube/agentcube/pkg/session"
)

func TestACreateThatTakesLongSaysWhatItWaitsFor(t *testing.T) {
	t.Parallel()
	eachKind(t, func(t *testing.T, w *world, kind string) {
		s := w.session(kind)
		w.change(s, func(s *session.Session) { s.State, s.Generation, s.EntryPoints = session.StateCreating, 0, nil })
		waits := func(reason, message string) {
			w.cluster.Edit(s.Object, func(o *sandbox.Object) { o.Ready, o.Reason, o.Message = false, reason, message })
		}
		written := w.row(s).Revision
		waits("DependenciesNotReady", "Pod is Pending")
		w.pass(time.Second)
		assert.Equal(t, written, w.row(s).Revision, "most are ready sooner")
		w.pass(2 * time.Second)
		assert.Equal(t, "DependenciesNotReady", w.row(s).Reason)
		assert.Equal(t, "Pod is Pending", w.row(s).Message)
		assert.Equal(t, session.StateCreating, w.row(s).State)

		written = w.row(s).Revision
		w.pass(time.Minute)
		assert.Equal(t, written, w.row(s).Revision, "it says so once")
		w.store.FailNext("Update", session.ErrUnavailable)
		waits("Unschedulable", "0/3 nodes are available")
		w.pass(time.Second)
		assert.Equal(t, "Unschedulable", w.row(s).Reason)

		w.cluster.Edit(s.Object, func(o *sandbox.Object) { o.Ready, o.Reason, o.Message = true, "", "" })
		w.pass(time.Second)
		assert.Equal(t, "Unschedulable", w.row(s).Reason, "the rest is its creator's")
	})
}
