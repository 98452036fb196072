package fleet

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentcube/agentcube/pkg/session"
)

// A fleet whose rows did not agree with its objects would be mended while it is
// measured.
func TestRowsAgreeWithObjects(t *testing.T) {
	t.Parallel()
	f := Fleet{Size: 2, Created: time.Unix(1_700_000_000, 0), Installation: "here"}
	for i, kind := range []string{session.KindSandbox, session.KindSandboxClaim} {
		row, err := f.Session(i).Canonical()
		require.NoError(t, err)
		object, err := api.Parse(f.Object(i))
		require.NoError(t, err)
		assert.Equal(t, kind, row.Object.Kind)
		assert.Equal(t, row.Object, object.Ref)
		assert.Equal(t, row.ID, object.SessionID)
		assert.Equal(t, "here", object.Installation)
		require.True(t, object.Ready)
		seen := session.Observed{
			State: session.StateReady, Object: object.Ref, Address: object.Addresses[0],
			Sandbox:         session.SandboxRef{Name: object.SandboxName, UID: row.Sandbox.UID},
			ResourceVersion: object.ResourceVersion,
		}
		err = session.Refresh(seen, func(a, b string) bool { return a > b })(&row)
		assert.ErrorIs(t, err, session.ErrUnchanged)
	}
}

func TestClaimHasAdoptedASandboxOfThePool(t *testing.T) {
	t.Parallel()
	f := Fleet{Size: 2}
	adopted, err := api.Parse(f.Adopted(1))
	require.NoError(t, err)
	row := f.Session(1)
	assert.Equal(t, session.SandboxRef{Name: adopted.Ref.Name, UID: adopted.Ref.UID}, row.Sandbox)
	assert.Equal(t, row.Object.Namespace, adopted.Ref.Namespace)
	assert.Empty(t, adopted.SessionID)
}
