package workload

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/clock"

	"github.com/agentcube/agentcube/pkg/sandbox"
)

// keyring is the router's public key, as its Secret comes and changes.
type keyring struct {
	mu      sync.Mutex
	pem     string
	changed chan struct{}
}

func newKeyring(pem string) *keyring { return &keyring{pem: pem, changed: make(chan struct{}, 1)} }

func (k *keyring) PublicKey() (string, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.pem, k.pem != ""
}

func (k *keyring) Changed() <-chan struct{} { return k.changed }

func (k *keyring) set(pem string) {
	k.mu.Lock()
	k.pem = pem
	k.mu.Unlock()
	k.changed <- struct{}{}
}

// faultyPools is the real client, whose calls fail on demand.
type faultyPools struct {
	Pools
	mu    sync.Mutex
	err   error
	times []time.Time
}

func (f *faultyPools) EnsureTemplate(ctx context.Context, spec sandbox.TemplateSpec) error {
	f.mu.Lock()
	f.times = append(f.times, time.Now())
	err := f.err
	f.mu.Unlock()
	if err != nil {
		return err
	}
	return f.Pools.EnsureTemplate(ctx, spec)
}

func (f *faultyPools) fail(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err = err
}

func (f *faultyPools) calls() []time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]time.Time(nil), f.times...)
}

// reconciled is a Reconciler on a fake cluster that serves agent-sandbox.
type reconciled struct {
	*fakeCluster
	keys   *keyring
	pools  *faultyPools
	config ReconcilerConfig
}

func newReconciled(t *testing.T, objects ...map[string]any) *reconciled {
	t.Helper()
	c := newCluster(t, objects...)
	r := &reconciled{fakeCluster: c, keys: newKeyring("pem")}
	r.pools = &faultyPools{Pools: sandbox.NewClient(c, agentSandboxAPI, sandbox.ClientOptions{})}
	r.config = ReconcilerConfig{
		Clock: clock.RealClock{}, Client: c, Discovery: c, Keys: r.keys, Log: zap.NewNop(),
		AgentSandbox: func() (sandbox.API, error) { return agentSandboxAPI, nil },
		Pools:        func(sandbox.API) Pools { return r.pools },
	}
	return r
}

func (r *reconciled) run(t *testing.T) (stop func()) {
	t.Helper()
	stop = running(t, NewReconciler(r.config).Run)
	pass(settle)
	return stop
}

func (r *reconciled) status(t *testing.T, name string) status {
	t.Helper()
	return parseStatus(r.object(t, interpreters, name))
}

// says requires the condition to say so, and status.ready to agree with it.
func (r *reconciled) says(t *testing.T, name, kind string, holds metav1.ConditionStatus, reason string) metav1.Condition {
	t.Helper()
	s := r.status(t, name)
	condition := meta.FindStatusCondition(s.conditions, kind)
	require.NotNil(t, condition, "no condition %s", kind)
	require.Equal(t, []any{holds, reason}, []any{condition.Status, condition.Reason}, condition.Message)
	assert.Equal(t, r.object(t, interpreters, name).GetGeneration(), condition.ObservedGeneration)
	require.NotNil(t, s.ready)
	assert.Equal(t, meta.IsStatusConditionTrue(s.conditions, ConditionReady), *s.ready)
	return *condition
}

func (r *reconciled) spec(t *testing.T, u *unstructured.Unstructured) map[string]any {
	t.Helper()
	spec, found, err := unstructured.NestedMap(u.Object, "spec")
	require.NoError(t, err)
	require.True(t, found)
	return spec
}

// fill is what the controller of agent-sandbox reports of the pool warm.
func (r *reconciled) fill(t *testing.T, ready int64) {
	t.Helper()
	r.setStatus(t, pools, map[string]any{"replicas": ready, "readyReplicas": ready})
	pass(settle)
}

func recordedInterpreter(t *testing.T) map[string]any {
	t.Helper()
	object := interpreterObject("warm", warmInterpreter(2))
	object["metadata"].(map[string]any)["uid"] = string(recorded(t, "SandboxWarmPool", "warm").GetOwnerReferences()[0].UID)
	return object
}

func TestTheObjectsOfAPoolAreThoseOfRunningInstallations(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newReconciled(t, recordedInterpreter(t))
		r.run(t)
		for kind, resource := range map[string]struct{ got *unstructured.Unstructured }{
			"SandboxTemplate": {r.object(t, templates, "warm")},
			"SandboxWarmPool": {r.object(t, pools, "warm")},
		} {
			want := recorded(t, kind, "warm")
			got := resource.got
			assert.Equal(t, want.GroupVersionKind(), got.GroupVersionKind())
			assert.Equal(t, want.GetOwnerReferences(), got.GetOwnerReferences())
			assert.Equal(t, want.GetLabels(), got.GetLabels())
			assert.Equal(t, r.spec(t, want), r.spec(t, got))
		}
	})
}

func TestTheStatusTellsHowThePoolDoes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newReconciled(t, interpreterObject("warm", warmInterpreter(2)))
		r.run(t)
		r.says(t, "warm", ConditionReady, "False", ReasonWarmPoolEmpty)
		r.says(t, "warm", ConditionWarmPoolReady, "False", ReasonWarmPoolEmpty)

		r.fill(t, 1)
		r.says(t, "warm", ConditionReady, "True", ReasonAvailable)
		got := r.says(t, "warm", ConditionWarmPoolReady, "False", ReasonWarmPoolFilling)
		assert.Equal(t, "1 of 2 sandboxes are ready", got.Message)

		r.fill(t, 2)
		r.says(t, "warm", ConditionWarmPoolReady, "True", ReasonWarmPoolFull)

		r.fill(t, 0)
		r.says(t, "warm", ConditionReady, "False", ReasonWarmPoolEmpty)
	})
}

func TestAStatusThatSaysNothingNewIsNotWritten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newReconciled(t, interpreterObject("warm", warmInterpreter(2)), interpreterObject("cold", echoInterpreter()))
		stop := r.run(t)
		r.fill(t, 2)
		written := r.statusWrites.Load()
		r.fill(t, 2)
		assert.Equal(t, written, r.statusWrites.Load())
		stop()

		// A reconciler that takes over finds all as it should be.
		r.ClearActions()
		r.run(t)
		pass(time.Hour)
		assert.Equal(t, written, r.statusWrites.Load())
		for _, verb := range []string{"create", "update", "patch", "delete"} {
			assert.Zero(t, r.count(verb, templates)+r.count(verb, pools)+r.count(verb, interpreters), verb)
		}
	})
}

func TestNothingIsDoneWhileNothingHappens(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newReconciled(t, interpreterObject("warm", warmInterpreter(2)))
		r.run(t)
		r.fill(t, 2)
		r.ClearActions()
		pass(24 * time.Hour)
		assert.Empty(t, r.Actions())
	})
}

func TestAColdTemplateCostsNoCallsForPools(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		stranger := object("SandboxWarmPool", "cold", map[string]any{})
		stranger["metadata"].(map[string]any)["ownerReferences"] = []any{map[string]any{
			"apiVersion": "runtime.agentcube.volcano.sh/v1alpha1", "kind": "CodeInterpreter",
			"name": "cold", "uid": "one of that name that is gone", "controller": true,
		}}
		r := newReconciled(t, interpreterObject("cold", echoInterpreter()), stranger)
		r.run(t)
		r.says(t, "cold", ConditionReady, "True", ReasonColdStart)
		for _, verb := range []string{"get", "create", "update", "delete"} {
			assert.Zero(t, r.count(verb, templates)+r.count(verb, pools), verb)
		}
	})
}

func TestAPoolSeenAgainUnchangedIsNotLookedAt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newReconciled(t, interpreterObject("warm", warmInterpreter(1)))
		r.run(t)
		r.fill(t, 1)
		calls := len(r.pools.calls())
		r.put(t, r.object(t, pools, "warm"))
		pass(settle)
		assert.Len(t, r.pools.calls(), calls)
	})
}

func TestReportsOfABusyPoolAreGathered(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newReconciled(t, interpreterObject("warm", warmInterpreter(50)))
		r.run(t)
		before := len(r.pools.calls())
		for i := range 50 {
			r.setStatus(t, pools, map[string]any{"readyReplicas": int64(i + 1)})
		}
		pass(settle)
		r.says(t, "warm", ConditionWarmPoolReady, "True", ReasonWarmPoolFull)
		assert.Len(t, r.pools.calls(), before+1)
	})
}

func TestPoolsFollowTheirTemplates(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change map[string]any
		made   bool
		reason string
	}{
		"a size of zero takes template and pool away": {warmInterpreter(0), false, ReasonColdStart},
		"no size takes them away too":                 {echoInterpreter(), false, ReasonColdStart},
		"another size changes the pool":               {warmInterpreter(5), true, ReasonWarmPoolEmpty},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := newReconciled(t, interpreterObject("warm", warmInterpreter(2)))
				r.run(t)
				require.True(t, r.exists(templates) && r.exists(pools))

				r.apply(t, withStatus(r.object(t, interpreters, "warm"), test.change))
				synctest.Wait()

				r.says(t, "warm", ConditionReady, readyFor(test.reason), test.reason)
				require.Equal(t, test.made, r.exists(templates))
				require.Equal(t, test.made, r.exists(pools))
				if test.made {
					assert.EqualValues(t, 5, r.spec(t, r.object(t, pools, "warm"))["replicas"])
				} else {
					assert.Nil(t, meta.FindStatusCondition(r.status(t, "warm").conditions, ConditionWarmPoolReady))
				}
			})
		})
	}
}

// readyFor is what Ready says for the reason.
func readyFor(reason string) metav1.ConditionStatus {
	if reason == ReasonColdStart || reason == ReasonAvailable {
		return metav1.ConditionTrue
	}
	return metav1.ConditionFalse
}

// withStatus is the object with another spec, as a user applies it.
func withStatus(u *unstructured.Unstructured, spec map[string]any) map[string]any {
	u.Object["spec"] = spec
	return u.Object
}

func TestAPoolThatOutlivedARestartIsTakenAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newReconciled(t, interpreterObject("warm", warmInterpreter(2)))
		r.run(t)()
		r.apply(t, withStatus(r.object(t, interpreters, "warm"), echoInterpreter()))

		r.run(t)

		assert.False(t, r.exists(templates))
		assert.False(t, r.exists(pools))
	})
}

func TestWhatAnOperatorDoesToAPoolIsMended(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newReconciled(t, interpreterObject("warm", warmInterpreter(2)))
		r.run(t)
		r.fill(t, 2)

		r.remove(t, pools, "warm")
		synctest.Wait()
		require.True(t, r.exists(pools))
		r.says(t, "warm", ConditionWarmPoolReady, "False", ReasonWarmPoolEmpty)

		r.remove(t, templates, "warm")
		synctest.Wait()
		require.True(t, r.exists(templates))

		scaled := r.object(t, pools, "warm")
		require.NoError(t, unstructured.SetNestedField(scaled.Object, int64(9), "spec", "replicas"))
		r.apply(t, scaled.Object)
		synctest.Wait()
		assert.EqualValues(t, 2, r.spec(t, r.object(t, pools, "warm"))["replicas"])
	})
}

func TestAStrangersObjectIsNeverTouched(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"SandboxTemplate", "SandboxWarmPool"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				stranger := object(kind, "warm", map[string]any{"replicas": int64(7)})
				stranger["apiVersion"] = "extensions.agents.x-k8s.io/v1alpha1"
				resource := resourceOf(stranger)
				r := newReconciled(t, interpreterObject("warm", warmInterpreter(2)), stranger)
				before := r.object(t, resource, "warm")
				r.run(t)

				got := r.says(t, "warm", ConditionReady, "False", ReasonNameConflict)
				assert.Contains(t, got.Message, kind+" default/warm")
				r.says(t, "warm", ConditionWarmPoolReady, "False", ReasonNameConflict)
				calls := len(r.pools.calls())
				pass(time.Hour)
				assert.Len(t, r.pools.calls(), calls, "it is waited for, not tried again")

				r.ClearActions()
				r.apply(t, withStatus(r.object(t, interpreters, "warm"), echoInterpreter()))
				synctest.Wait()
				assert.Equal(t, before, r.object(t, resource, "warm"))
				assert.Zero(t, r.count("delete", resource))

				r.apply(t, withStatus(r.object(t, interpreters, "warm"), warmInterpreter(2)))
				r.remove(t, resource, "warm")
				pass(settle)
				r.says(t, "warm", ConditionReady, "False", ReasonWarmPoolEmpty)
				assert.True(t, r.exists(templates) && r.exists(pools))
			})
		})
	}
}

func TestNoTemplateIsMadeWithoutTheKeyItNeeds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newReconciled(t,
			interpreterObject("warm", set(warmInterpreter(1), "picod", "authMode")),
			interpreterObject("cold", set(echoInterpreter(), "picod", "authMode")),
			interpreterObject("open", warmInterpreter(1)))
		r.keys = newKeyring("")
		r.config.Keys = r.keys
		r.run(t)
		r.says(t, "warm", ConditionReady, "False", ReasonPublicKeyNotLoaded)
		r.says(t, "cold", ConditionReady, "False", ReasonPublicKeyNotLoaded)
		r.says(t, "open", ConditionReady, "False", ReasonWarmPoolEmpty)
		require.False(t, r.exists(templates) || r.exists(pools))

		r.keys.set("first")
		synctest.Wait()
		r.says(t, "warm", ConditionReady, "False", ReasonWarmPoolEmpty)
		r.says(t, "cold", ConditionReady, "True", ReasonColdStart)
		assert.Equal(t, "first", r.keyOf(t, "warm"))

		r.keys.set("second")
		synctest.Wait()
		assert.Equal(t, "second", r.keyOf(t, "warm"))
	})
}

// keyOf is the public key in the template of the pool.
func (r *reconciled) keyOf(t *testing.T, name string) any {
	t.Helper()
	list, _, err := unstructured.NestedSlice(r.object(t, templates, name).Object, "spec", "podTemplate", "spec", "containers")
	require.NoError(t, err)
	for _, variable := range list[0].(map[string]any)["env"].([]any) {
		if v := variable.(map[string]any); v["name"] == PublicKeyEnv {
			return v["value"]
		}
	}
	return nil
}

func TestTheRuntimeClassOfTheOptionReachesThePool(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newReconciled(t,
			interpreterObject("plain", warmInterpreter(1)),
			interpreterObject("named", set(warmInterpreter(1), "kata", "template", "runtimeClassName")))
		r.config.RuntimeClass = "gvisor"
		r.run(t)
		for name, want := range map[string]string{"plain": "gvisor", "named": "kata"} {
			got, _, err := unstructured.NestedString(r.object(t, templates, name).Object, "spec", "podTemplate", "spec", "runtimeClassName")
			require.NoError(t, err)
			assert.Equal(t, want, got)
		}
	})
}

func TestAConflictOnTheStatusIsTriedAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newReconciled(t, interpreterObject("warm", warmInterpreter(2)))
		r.run(t)
		over := r.fail("patch", interpreters.Resource, apierrors.NewConflict(interpreters.GroupResource(), "warm", errors.New("changed")))
		r.fill(t, 2)
		r.says(t, "warm", ConditionWarmPoolReady, "False", ReasonWarmPoolEmpty)
		over()
		pass(maxRetry)
		r.says(t, "warm", ConditionWarmPoolReady, "True", ReasonWarmPoolFull)
	})
}

func TestAStatusThatCannotBeWrittenIsTriedAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newReconciled(t, interpreterObject("cold", echoInterpreter()))
		over := r.fail("patch", interpreters.Resource, apierrors.NewInternalError(errors.New("etcd")))
		r.run(t)
		require.Empty(t, r.status(t, "cold").conditions)
		over()
		pass(maxRetry)
		r.says(t, "cold", ConditionReady, "True", ReasonColdStart)
	})
}

func TestATemplateThatGoesBeforeItsReportIsNoError(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newReconciled(t, interpreterObject("cold", echoInterpreter()))
		r.fail("patch", interpreters.Resource, apierrors.NewNotFound(interpreters.GroupResource(), "cold"))
		r.run(t)
		reports := r.count("patch", interpreters)
		require.Positive(t, reports)
		pass(time.Hour)
		assert.Equal(t, reports, r.count("patch", interpreters))
	})
}

func TestWhatTheClusterSaysToAPoolIsReportedAndTriedAgain(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		err    error
		reason string
	}{
		"a quota":                 {&sandbox.RejectedError{Kind: sandbox.RejectQuota, Message: "exceeded quota: pods"}, ReasonRejected},
		"a policy":                {&sandbox.RejectedError{Kind: sandbox.RejectPolicy, Message: "no such image"}, ReasonRejected},
		"agent-sandbox is away":   {sandbox.ErrNotServed, ReasonAgentSandboxNotServed},
		"something else entirely": {errors.New("what is this"), ReasonEnsureFailed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := newReconciled(t, interpreterObject("warm", warmInterpreter(2)))
				r.pools.fail(test.err)
				r.run(t)
				got := r.says(t, "warm", ConditionReady, "False", test.reason)
				assert.Contains(t, got.Message, test.err.Error())
				r.says(t, "warm", ConditionWarmPoolReady, "False", test.reason)

				pass(time.Minute)
				assert.EqualValues(t, 1, r.statusWrites.Load(), "said once")
				r.pools.fail(nil)
				pass(maxRetry)
				r.says(t, "warm", ConditionReady, "False", ReasonWarmPoolEmpty)
			})
		})
	}
}

func TestWhatPassesIsNotReported(t *testing.T) {
	t.Parallel()
	for _, err := range []error{
		sandbox.ErrUnavailable, sandbox.ErrConflict, sandbox.ErrExists, sandbox.ErrNotFound,
		context.Canceled, context.DeadlineExceeded,
	} {
		t.Run(err.Error(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := newReconciled(t, interpreterObject("warm", warmInterpreter(1)))
				r.run(t)
				r.fill(t, 1)
				written := r.statusWrites.Load()

				r.pools.fail(err)
				r.fill(t, 0)
				pass(time.Minute)
				r.says(t, "warm", ConditionReady, "True", ReasonAvailable)
				assert.Equal(t, written, r.statusWrites.Load())

				r.pools.fail(nil)
				pass(maxRetry)
				r.says(t, "warm", ConditionReady, "False", ReasonWarmPoolEmpty)
			})
		})
	}
}

func TestTheBackOffGrowsToItsBound(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newReconciled(t, interpreterObject("warm", warmInterpreter(1)))
		r.run(t)
		before := len(r.pools.calls())
		r.pools.fail(sandbox.ErrUnavailable)
		r.fill(t, 1)
		pass(10 * time.Minute)
		calls := r.pools.calls()[before:]
		for i := range len(calls) - 1 {
			want := min(firstRetry<<min(i, 20), maxRetry)
			require.Equal(t, want, calls[i+1].Sub(calls[i]), "after %d failures", i+1)
		}
		require.Greater(t, len(calls), 60)
	})
}

func TestABackOffBeginsAnewAfterASuccess(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newReconciled(t, interpreterObject("warm", warmInterpreter(1)))
		r.pools.fail(sandbox.ErrUnavailable)
		r.run(t)
		pass(time.Minute)
		r.pools.fail(nil)
		pass(maxRetry)
		before := len(r.pools.calls())

		r.pools.fail(sandbox.ErrUnavailable)
		r.fill(t, 1)
		pass(time.Minute)

		calls := r.pools.calls()[before:]
		require.Greater(t, len(calls), 1)
		assert.Equal(t, firstRetry, calls[1].Sub(calls[0]))
	})
}

func TestAgentSandboxIsFoundOutAnewWhenPartOfItGoes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newReconciled(t, interpreterObject("warm", warmInterpreter(1)))
		r.fail("list", templates.Resource, notServed("sandboxtemplates"))
		var asked atomic.Int64
		r.config.AgentSandbox = func() (sandbox.API, error) {
			if asked.Add(1) == 1 {
				return agentSandboxAPI, nil
			}
			return sandbox.API{}, sandbox.ErrNotServed
		}
		r.run(t)
		pass(discoveryInterval)
		assert.EqualValues(t, 2, asked.Load())
		r.says(t, "warm", ConditionReady, "False", ReasonAgentSandboxNotServed)
	})
}

func TestAPoolThatCannotBeDeletedIsTriedAgain(t *testing.T) {
	t.Parallel()
	for _, resource := range []string{templates.Resource, pools.Resource} {
		t.Run(resource, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := newReconciled(t, interpreterObject("warm", warmInterpreter(1)))
				r.run(t)
				over := r.fail("delete", resource, apierrors.NewInternalError(errors.New("etcd")))
				r.apply(t, withStatus(r.object(t, interpreters, "warm"), echoInterpreter()))
				pass(time.Minute)
				require.True(t, r.exists(templates), "the template outlives the pool")
				over()
				pass(maxRetry)
				assert.False(t, r.exists(templates) || r.exists(pools))
				r.says(t, "warm", ConditionReady, "True", ReasonColdStart)
			})
		})
	}
}

func TestAnInvalidTemplateIsToldAndLeavesThePool(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newReconciled(t, interpreterObject("warm", warmInterpreter(1)))
		r.run(t)
		r.apply(t, withStatus(r.object(t, interpreters, "warm"), set(warmInterpreter(1), "", "template", "image")))
		synctest.Wait()
		got := r.says(t, "warm", ConditionReady, "False", ReasonInvalidTemplate)
		assert.Contains(t, got.Message, "spec.template.image")
		assert.True(t, r.exists(templates) && r.exists(pools))
	})
}

func TestNothingIsMadeForATemplateThatIsBeingDeleted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newReconciled(t, interpreterObject("warm", warmInterpreter(1)))
		r.run(t)
		deleting := r.object(t, interpreters, "warm").Object
		deleting["metadata"].(map[string]any)["deletionTimestamp"] = "2026-11-30T21:00:00Z"
		r.apply(t, deleting)
		synctest.Wait()
		r.remove(t, pools, "warm")
		r.remove(t, templates, "warm")
		pass(time.Hour)
		assert.False(t, r.exists(templates) || r.exists(pools))
		written := r.statusWrites.Load()

		r.remove(t, interpreters, "warm")
		pass(time.Hour)
		assert.Equal(t, written, r.statusWrites.Load())
	})
}

func TestPoolsAreMadeOnceAgentSandboxIsServed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newReconciled(t, interpreterObject("warm", warmInterpreter(1)), interpreterObject("cold", echoInterpreter()))
		var mu sync.Mutex
		answer := errors.New("connection refused")
		answers := func(err error) {
			mu.Lock()
			defer mu.Unlock()
			answer = err
		}
		r.config.AgentSandbox = func() (sandbox.API, error) {
			mu.Lock()
			defer mu.Unlock()
			return agentSandboxAPI, answer
		}
		r.run(t)
		require.Nil(t, r.status(t, "warm").ready, "nothing is known yet")

		answers(sandbox.ErrNotServed)
		pass(discoveryInterval)
		r.says(t, "warm", ConditionReady, "False", ReasonAgentSandboxNotServed)
		r.says(t, "cold", ConditionReady, "False", ReasonAgentSandboxNotServed)

		answers(nil)
		pass(discoveryInterval)
		r.says(t, "warm", ConditionReady, "False", ReasonWarmPoolEmpty)
		r.says(t, "cold", ConditionReady, "True", ReasonColdStart)
		assert.True(t, r.exists(templates) && r.exists(pools))
	})
}

func TestAReconcilerComesUpWithoutTheCustomResource(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newReconciled(t, interpreterObject("cold", echoInterpreter()))
		r.withdraw(interpreters)
		r.run(t)
		require.Empty(t, r.status(t, "cold").conditions)
		r.serve(interpreters)
		pass(discoveryInterval)
		r.says(t, "cold", ConditionReady, "True", ReasonColdStart)
	})
}
