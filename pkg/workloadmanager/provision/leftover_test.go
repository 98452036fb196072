package provision_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentcube/agentcube/pkg/session"
	"github.com/agentcube/agentcube/pkg/workloadmanager/clustertest"
	"github.com/agentcube/agentcube/pkg/workloadmanager/provision"
)

// leftoverInterval is how soon after its dependency is back an undo goes on.
const leftoverInterval = 2 * time.Second

// run runs the Provisioner for so long.
func (w *world) run(d time.Duration) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), d)
	defer cancel()
	require.NoError(w.t, w.p.Run(ctx))
}

func TestAnUndoThatTheStoreKeptFromItsWorkGoesOnSoonAfterItIsBack(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, w *world) {
		var release []func()
		w.prober.probe = func(context.Context) error {
			for _, method := range []string{"Get", "Update", "Remove"} {
				release = append(release, w.store.Block(method))
			}
			return errRefused
		}
		_, err := w.p.Create(t.Context(), direct())
		as[*provision.UnreachableError](t, err)
		require.NoError(t, w.p.Wait(t.Context()))
		assert.Equal(t, session.StateCreating, w.row().State)
		for _, r := range release {
			r()
		}
		w.run(leftoverInterval + time.Second)
		w.nothingLeft()
	})
}

func TestAnUndoThatTheAPIServerKeptFromItsWorkGoesOnSoonAfterItIsBack(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, w *world) {
		w.prober.probe = func(context.Context) error {
			w.cluster.Down(clustertest.ErrDown)
			return errRefused
		}
		_, err := w.p.Create(t.Context(), warm())
		as[*provision.UnreachableError](t, err)
		require.NoError(t, w.p.Wait(t.Context()))
		w.run(time.Minute)
		assert.Equal(t, session.StateDeleting, w.row().State, "it is kept as long as the API server is away")
		w.cluster.Down(nil)
		w.run(leftoverInterval + time.Second)
		w.nothingLeft()
	})
}

// A frozen store carries out what it was sent when it thaws, and perhaps after
// what it was sent later.
func TestAPlaceholderThatIsWrittenLateIsRemoved(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, w *world) {
		var late session.Session
		w.store.FailAfter("Create", session.ErrUnavailable)
		w.store.Before("Update", func() { late = w.row() })
		_, err := w.p.Create(t.Context(), direct())
		require.ErrorIs(t, err, session.ErrUnavailable)
		w.nothingLeft()
		require.NoError(t, w.fake.Put(late))
		w.run(leftoverInterval + time.Second)
		w.nothingLeft()
		assert.Zero(t, w.cluster.Calls("Create"))
	})
}

func TestAnUndoThatTheAPIServerDoesNotAnswerGoesOn(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, w *world) {
		hang := func() {
			for range 3 {
				w.cluster.Hang("Delete")
			}
		}
		w.prober.probe = func(context.Context) error { hang(); return errRefused }
		_, err := w.p.Create(t.Context(), direct())
		as[*provision.UnreachableError](t, err)
		require.NoError(t, w.p.Wait(t.Context()))
		w.run(time.Minute)
		w.nothingLeft()
	})
}

func TestAnUndoThatIsDoneIsNotRepeated(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, w *world) {
		w.prober.probe = func(context.Context) error { return errRefused }
		_, err := w.p.Create(t.Context(), direct())
		as[*provision.UnreachableError](t, err)
		w.nothingLeft()
		before := w.store.Calls("Update")
		w.run(time.Minute)
		assert.Equal(t, before, w.store.Calls("Update"))
	})
}
