package resync_test

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentcube/agentcube/pkg/sandbox"
)

// The list shows an object whose label was changed, unlike one whose label was
// taken off.
func TestASessionWhoseLabelNamesAnotherIsHandedToTheReconciler(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.session()
	w.cluster.Edit(s.Object, func(o *sandbox.Object) { o.SessionID = uuid.NewString() })
	report := w.pass()
	w.rowIs(s, true, "its object is there")
	require.Len(t, w.events.all, 1)
	assert.True(t, w.events.all[0].Deleted)
	assert.Equal(t, s.Object, w.events.all[0].Object.Ref)
	assert.Equal(t, s.ID, w.events.all[0].Object.SessionID)
	assert.Equal(t, 1, report.Relabelled)
	assert.Zero(t, report.Swept)
}
