package provision_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentcube/agentcube/pkg/sandbox"
	"github.com/agentcube/agentcube/pkg/session"
)

// assigned is a claim whose controller has picked a sandbox.
func assigned(name string) func(*sandbox.Object) {
	return func(o *sandbox.Object) { o.Assigned = name }
}

func TestTheSandboxOfAClaimIsLookedUpWhileItIsAdopted(t *testing.T) {
	t.Parallel()
	t.Run("once, and not again when it is ready", func(t *testing.T) {
		t.Parallel()
		in(t, func(t *testing.T, w *world) {
			w.cluster.OnCreate(func(o sandbox.Object) {
				w.cluster.Edit(o.Ref, assigned(adopted))
				w.clock.AfterFunc(time.Second, func() {
					assert.Equal(t, 1, w.cluster.Calls("SandboxUID"), "it did not wait for the adoption")
					w.cluster.Edit(o.Ref, ready)
				})
			})
			s, err := w.p.Create(t.Context(), warm())
			require.NoError(t, err)
			assert.Equal(t, session.SandboxRef{Name: adopted, UID: adoptedUID}, s.Sandbox)
			assert.Equal(t, 1, w.cluster.Calls("SandboxUID"))
		})
	})
	t.Run("and again if the controller takes another", func(t *testing.T) {
		t.Parallel()
		in(t, func(t *testing.T, w *world) {
			w.cluster.SetSandbox(namespace, "pool-lost", "uid-of-lost")
			w.cluster.OnCreate(func(o sandbox.Object) {
				w.cluster.Edit(o.Ref, assigned("pool-lost"))
				w.after(time.Second, ready)(o)
			})
			s, err := w.p.Create(t.Context(), warm())
			require.NoError(t, err)
			assert.Equal(t, session.SandboxRef{Name: adopted, UID: adoptedUID}, s.Sandbox)
		})
	})
	t.Run("and again if the first look failed", func(t *testing.T) {
		t.Parallel()
		in(t, func(t *testing.T, w *world) {
			w.cluster.FailNext("SandboxUID", sandbox.ErrNotFound)
			w.cluster.OnCreate(func(o sandbox.Object) {
				w.cluster.Edit(o.Ref, assigned(adopted))
				w.after(time.Second, ready)(o)
			})
			s, err := w.p.Create(t.Context(), warm())
			require.NoError(t, err)
			assert.Equal(t, adoptedUID, s.Sandbox.UID)
			assert.Equal(t, 2, w.cluster.Calls("SandboxUID"))
		})
	})
}
