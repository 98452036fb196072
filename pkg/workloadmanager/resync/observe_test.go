package resync_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentcube/agentcube/pkg/sandbox"
	"github.com/agentcube/agentcube/pkg/session"
	"github.com/agentcube/agentcube/pkg/workloadmanager/resync"
)

// told gathers happenings.
type told struct{ all []sandbox.Happening }

func (e *told) Tell(h sandbox.Happening) { e.all = append(e.all, h) }

func TestTheBrakeIsAnEventOfItsConfigMap(t *testing.T) {
	t.Parallel()
	events := &told{}
	in(t, func(w *world) {
		w.session()
		w.fake.Wipe()
		w.pass()
		w.pass()
		require.Len(w.t, events.all, 1, "once")
		held := events.all[0]
		assert.Equal(w.t, session.ObjectRef{Kind: "ConfigMap", Namespace: "agentcube", Name: "agentcube-workload-manager"}, held.Object)
		assert.Equal(w.t, "ResyncHeld", held.Reason)
		assert.True(w.t, held.Warning)
		assert.Contains(w.t, held.Note, resync.ReasonStoreEmpty)
		assert.Contains(w.t, held.Note, "kubectl -n agentcube annotate")
		require.NoError(w.t, w.fake.SetInstallation(w.t.Context(), ours))
		w.pass()
		require.Len(w.t, events.all, 2)
		assert.Equal(w.t, "ResyncReleased", events.all[1].Reason)
		assert.False(w.t, events.all[1].Warning)
	}, func(o *resync.Options) { o.Events = events })
}
