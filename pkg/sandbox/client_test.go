package sandbox

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	clienttesting "k8s.io/client-go/testing"

	"github.com/agentcube/agentcube/pkg/session"
)

func TestCreateSendsTheObjectOfItsKind(t *testing.T) {
	t.Parallel()
	for _, api := range []API{{V1Alpha1}, {V1Beta1}} {
		t.Run(api.Version, func(t *testing.T) {
			t.Parallel()
			f := newFake(api)
			c := NewClient(f, api, ClientOptions{})

			created, err := c.Create(t.Context(), sandboxSpec())
			require.NoError(t, err)
			assert.Equal(t, sandboxSpec().Object, created.Ref)
			assert.Equal(t, api.BuildSandbox(sandboxSpec()), get(t, f, api.Sandboxes(), "echo-m7uzauz2"))

			created, err = c.Create(t.Context(), claimSpec())
			require.NoError(t, err)
			assert.Equal(t, claimSpec().Object, created.Ref)
			assert.Equal(t, api.BuildClaim(claimSpec()), get(t, f, api.Claims(), "warm-03ia9k2h"))
		})
	}
}

func TestCreateOfATakenNameIsErrExists(t *testing.T) {
	t.Parallel()
	api := API{Version: V1Beta1}
	c := NewClient(newFake(api), api, ClientOptions{})
	_, err := c.Create(t.Context(), claimSpec())
	require.NoError(t, err)

	_, err = c.Create(t.Context(), claimSpec())
	require.ErrorIs(t, err, ErrExists)
	assert.False(t, OutcomeUnknown(err))
}

func TestCreatesThatContendForAQuotaMayBeTriedAgain(t *testing.T) {
	t.Parallel()
	api := API{Version: V1Beta1}
	f := newFake(api)
	failing(f, "create", "sandboxclaims", apierrors.NewConflict(claims, "q", errors.New("the object has been modified")))

	_, err := NewClient(f, api, ClientOptions{}).Create(t.Context(), claimSpec())
	require.ErrorIs(t, err, ErrUnavailable)
	assert.False(t, OutcomeUnknown(err), "it was not made")
}

func TestAnUnknownKindIsNeverSent(t *testing.T) {
	t.Parallel()
	api := API{Version: V1Beta1}
	f := newFake(api)
	c := NewClient(f, api, ClientOptions{})
	ref := session.ObjectRef{Kind: "Pod", Namespace: "team", Name: "a"}

	_, err := c.Create(t.Context(), Spec{Object: ref})
	require.ErrorContains(t, err, `"Pod"`)
	_, err = c.Get(t.Context(), ref)
	require.ErrorContains(t, err, `"Pod"`)
	require.ErrorContains(t, c.Delete(t.Context(), ref), `"Pod"`)
	assert.Empty(t, f.Actions())
}

func TestGetReadsWhatIsThereNow(t *testing.T) {
	t.Parallel()
	api := API{Version: V1Beta1}
	f := newFake(api)
	c := NewClient(f, api, ClientOptions{})
	ref := claimSpec().Object

	_, err := c.Get(t.Context(), ref)
	require.ErrorIs(t, err, ErrNotFound)

	put(t, f, api.Claims(), withClaimStatus(marked(api.BuildClaim(claimSpec()), testUID, "7"), "warm-47spl", []any{"10.0.0.9"}, ready("True", "DependenciesReady", "")))
	got, err := c.Get(t.Context(), ref)
	require.NoError(t, err)
	assert.Equal(t, testUID, got.Ref.UID)
	assert.Equal(t, []string{"10.0.0.9"}, got.Addresses)
}

func TestSandboxUID(t *testing.T) {
	t.Parallel()
	api := API{Version: V1Beta1}
	f := newFake(api)
	c := NewClient(f, api, ClientOptions{})

	_, err := c.SandboxUID(t.Context(), "team", "echo-m7uzauz2")
	require.ErrorIs(t, err, ErrNotFound)

	put(t, f, api.Sandboxes(), marked(api.BuildSandbox(sandboxSpec()), testUID, "7"))
	uid, err := c.SandboxUID(t.Context(), "team", "echo-m7uzauz2")
	require.NoError(t, err)
	assert.Equal(t, testUID, uid)
}

func TestDeleteNamesTheUIDAndDeletesInTheBackground(t *testing.T) {
	t.Parallel()
	api := API{Version: V1Beta1}
	for sentence, uid := range map[string]string{"with a UID": testUID, "without a UID": ""} {
		t.Run(sentence, func(t *testing.T) {
			t.Parallel()
			f := newFake(api)
			put(t, f, api.Sandboxes(), marked(api.BuildSandbox(sandboxSpec()), testUID, "7"))
			f.ClearActions()
			ref := sandboxSpec().Object
			ref.UID = uid

			require.NoError(t, NewClient(f, api, ClientOptions{}).Delete(t.Context(), ref))

			require.Len(t, f.Actions(), 1)
			deletion, ok := f.Actions()[0].(clienttesting.DeleteActionImpl)
			require.True(t, ok)
			assert.Equal(t, "team", deletion.Namespace)
			assert.Equal(t, "echo-m7uzauz2", deletion.Name)
			require.NotNil(t, deletion.DeleteOptions.PropagationPolicy)
			assert.Equal(t, metav1.DeletePropagationBackground, *deletion.DeleteOptions.PropagationPolicy)
			if uid == "" {
				assert.Nil(t, deletion.DeleteOptions.Preconditions)
				return
			}
			require.NotNil(t, deletion.DeleteOptions.Preconditions)
			assert.EqualValues(t, uid, *deletion.DeleteOptions.Preconditions.UID)
		})
	}
}

func TestDeleteTellsWhyItDidNot(t *testing.T) {
	t.Parallel()
	api := API{Version: V1Beta1}
	f := newFake(api)
	c := NewClient(f, api, ClientOptions{})
	require.ErrorIs(t, c.Delete(t.Context(), claimSpec().Object), ErrNotFound)

	failing(f, "delete", "sandboxclaims", apierrors.NewConflict(claims, "a", errors.New("Precondition failed")))
	require.ErrorIs(t, c.Delete(t.Context(), claimSpec().Object), ErrConflict)
}

func TestSetSessionLabel(t *testing.T) {
	t.Parallel()
	api := API{Version: V1Beta1}
	setup := func(t *testing.T) (*Client, func() map[string]string, func() clienttesting.PatchActionImpl) {
		t.Helper()
		f := newFake(api)
		u := marked(api.BuildSandbox(sandboxSpec()), testUID, "7")
		u.SetLabels(map[string]string{"kept": "yes"})
		put(t, f, api.Sandboxes(), u)
		return NewClient(f, api, ClientOptions{}), func() map[string]string {
				return get(t, f, api.Sandboxes(), "echo-m7uzauz2").GetLabels()
			}, func() clienttesting.PatchActionImpl {
				for _, action := range f.Actions() {
					if patch, ok := action.(clienttesting.PatchActionImpl); ok {
						return patch
					}
				}
				t.Fatal("no patch was sent")
				return clienttesting.PatchActionImpl{}
			}
	}
	restored := map[string]string{"kept": "yes", LabelSessionID: testSession}

	t.Run("by name", func(t *testing.T) {
		t.Parallel()
		c, labels, _ := setup(t)
		require.NoError(t, c.SetSessionLabel(t.Context(), sandboxSpec().Object, testSession))
		assert.Equal(t, restored, labels())
	})
	t.Run("of that UID, guarded by the resource version it was seen at", func(t *testing.T) {
		t.Parallel()
		c, labels, sent := setup(t)
		ref := sandboxSpec().Object
		ref.UID = testUID
		require.NoError(t, c.SetSessionLabel(t.Context(), ref, testSession))
		assert.Equal(t, restored, labels())
		var patch struct {
			Metadata metav1.ObjectMeta `json:"metadata"`
		}
		require.NoError(t, json.Unmarshal(sent().GetPatch(), &patch))
		assert.Equal(t, "7", patch.Metadata.ResourceVersion)
	})
	t.Run("another UID is not touched", func(t *testing.T) {
		t.Parallel()
		c, labels, _ := setup(t)
		ref := sandboxSpec().Object
		ref.UID = "another"
		require.ErrorIs(t, c.SetSessionLabel(t.Context(), ref, testSession), ErrConflict)
		assert.Equal(t, map[string]string{"kept": "yes"}, labels())
	})
	t.Run("nothing of that name", func(t *testing.T) {
		t.Parallel()
		c, _, _ := setup(t)
		ref := session.ObjectRef{Kind: session.KindSandbox, Namespace: "team", Name: "gone", UID: testUID}
		require.ErrorIs(t, c.SetSessionLabel(t.Context(), ref, testSession), ErrNotFound)
	})
}

func TestACallerThatLeftIsNotAskedFor(t *testing.T) {
	t.Parallel()
	api := API{Version: V1Beta1}
	f := newFake(api)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()

	_, err := NewClient(f, api, ClientOptions{}).Create(ctx, claimSpec())
	require.ErrorIs(t, err, context.Canceled)
	assert.False(t, OutcomeUnknown(err))
	assert.Empty(t, f.Actions())
}

// silent is an API server that takes calls and never answers.
type silent struct {
	dynamic.Interface
	dynamic.NamespaceableResourceInterface
}

func (s silent) Resource(schemaResource) dynamic.NamespaceableResourceInterface { return s }
func (s silent) Namespace(string) dynamic.ResourceInterface                     { return s }

func (silent) Get(ctx context.Context, _ string, _ metav1.GetOptions, _ ...string) (*object, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func (silent) Create(ctx context.Context, _ *object, _ metav1.CreateOptions, _ ...string) (*object, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func TestASilentServerIsUnavailableAfterTheCallTimeout(t *testing.T) {
	t.Parallel()
	for sentence, c := range map[string]struct{ set, want time.Duration }{
		"by default":   {0, 10 * time.Second},
		"as it is set": {3 * time.Second, 3 * time.Second},
	} {
		t.Run(sentence, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				_, err := NewClient(silent{}, API{Version: V1Beta1}, ClientOptions{CallTimeout: c.set}).Create(t.Context(), claimSpec())

				require.ErrorIs(t, err, ErrUnavailable)
				assert.True(t, OutcomeUnknown(err))
				assert.Equal(t, c.want, time.Since(start))
			})
		})
	}
}

func TestTheCallersDeadlineComesFirst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := NewClient(silent{}, API{Version: V1Beta1}, ClientOptions{}).Get(ctx, claimSpec().Object)

		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.NotErrorIs(t, err, ErrUnavailable)
	})
}
