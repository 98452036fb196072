package sandbox

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	clienttesting "k8s.io/client-go/testing"

	"github.com/agentcube/agentcube/pkg/session"
)

func TestLifetimesOfAnObject(t *testing.T) {
	t.Parallel()
	end := time.Date(2026, 3, 4, 5, 6, 7, 1, time.UTC) // rounded up
	for sentence, c := range map[string]struct {
		kind  string
		given Lifetimes
		want  string
	}{
		"a Sandbox has a shutdown time": {
			session.KindSandbox,
			Lifetimes{ShutdownTime: end},
			`{"metadata":{"resourceVersion":"7"},"spec":{"shutdownTime":"2026-03-04T05:06:08Z"}}`,
		},
		"a claim has one in its lifecycle": {
			session.KindSandboxClaim,
			Lifetimes{ShutdownTime: end},
			`{"metadata":{"resourceVersion":"7"},"spec":{"lifecycle":{"shutdownTime":"2026-03-04T05:06:08Z"}}}`,
		},
		"an idle timeout does not touch the spec": {
			session.KindSandbox,
			Lifetimes{Idle: 90 * time.Second},
			`{"metadata":{"resourceVersion":"7","annotations":{"runtime.agentcube.io/idle-timeout":"1m30s"}}}`,
		},
		"both": {
			session.KindSandbox,
			Lifetimes{ShutdownTime: end, Idle: time.Hour},
			`{"metadata":{"resourceVersion":"7","annotations":{"runtime.agentcube.io/idle-timeout":"1h0m0s"}},` +
				`"spec":{"shutdownTime":"2026-03-04T05:06:08Z"}}`,
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			t.Parallel()
			patch, err := json.Marshal(lifetimesPatch(c.kind, "7", c.given))
			require.NoError(t, err)
			assert.JSONEq(t, c.want, string(patch))
		})
	}
}

func TestSetLifetimes(t *testing.T) {
	t.Parallel()
	api := API{Version: V1Beta1}
	f := newFake(api)
	put(t, f, api.Sandboxes(), marked(api.BuildSandbox(sandboxSpec()), testUID, "7"))
	c := NewClient(f, api, ClientOptions{})
	ref := sandboxSpec().Object
	end := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	require.NoError(t, c.SetLifetimes(t.Context(), ref, "7", Lifetimes{ShutdownTime: end}))
	action, ok := f.Actions()[len(f.Actions())-1].(clienttesting.PatchAction)
	require.True(t, ok)
	assert.Contains(t, string(action.GetPatch()), `"resourceVersion":"7"`)
	patched := get(t, f, api.Sandboxes(), ref.Name)
	spec, _ := patched.Object["spec"].(map[string]any)
	assert.Equal(t, "2026-03-04T05:06:07Z", spec["shutdownTime"])
	assert.Equal(t, "Retain", spec["shutdownPolicy"])

	gone := ref
	gone.Name = "gone"
	require.ErrorIs(t, c.SetLifetimes(t.Context(), gone, "7", Lifetimes{Idle: 1}), ErrNotFound)
	failing(f, "patch", "sandboxes", apierrors.NewConflict(api.Sandboxes().GroupResource(), ref.Name, nil))
	require.ErrorIs(t, c.SetLifetimes(t.Context(), ref, "6", Lifetimes{Idle: 1}), ErrConflict)
}
