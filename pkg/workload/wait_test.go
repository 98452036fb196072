package workload

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/watch"
	clienttesting "k8s.io/client-go/testing"
)

type waited struct {
	workload Workload
	err      error
}

// waiting calls WaitPool for warm in the background.
func waiting(ctx context.Context, l *Lister) <-chan waited {
	result := make(chan waited, 1)
	go func() {
		w, err := l.WaitPool(ctx, interpreterRef("warm"))
		result <- waited{w, err}
	}()
	synctest.Wait()
	return result
}

func poolStatus(state, reason string, generation int64) map[string]any {
	return map[string]any{"conditions": []any{map[string]any{
		"type": ConditionWarmPoolReady, "status": state, "reason": reason,
		"message": "what is the matter", "observedGeneration": generation,
		"lastTransitionTime": "2026-11-30T21:00:00Z",
	}}}
}

func TestWhatStartsColdWaitsForNoPool(t *testing.T) {
	t.Parallel()
	l := newLister(newCluster(t, interpreterObject("cold", echoInterpreter()), agentRuntimeObject(echoRuntime())))
	w, err := l.WaitPool(t.Context(), interpreterRef("cold"))
	require.NoError(t, err)
	assert.False(t, w.Warm)
	_, err = l.WaitPool(t.Context(), runtimeRef())
	assert.NoError(t, err)
}

func TestAWaitForAPoolEndsWhenThePoolStands(t *testing.T) {
	t.Parallel()
	for _, reason := range []string{ReasonWarmPoolEmpty, ReasonWarmPoolFilling, ReasonWarmPoolFull} {
		t.Run(reason, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t, interpreterObject("warm", warmInterpreter(2)))
				l := newLister(c)
				running(t, l.Run)
				began := time.Now()
				first, second := waiting(t.Context(), l), waiting(t.Context(), l)
				require.Empty(t, first)

				c.setStatus(t, interpreters, poolStatus("False", reason, 1))

				for _, result := range []<-chan waited{first, second} {
					got := <-result
					require.NoError(t, got.err)
					assert.True(t, got.workload.PoolMade)
				}
				assert.Zero(t, time.Since(began), "the change was heard of, not looked for")
				assert.Empty(t, l.waiters.byName, "both have unsubscribed")
			})
		})
	}
}

func TestAWaitForAPoolOutlivesAWatchThatIsSilent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, interpreterObject("warm", warmInterpreter(2)))
		c.PrependWatchReactor(interpreters.Resource, func(clienttesting.Action) (bool, watch.Interface, error) {
			return true, watch.NewFake(), nil
		})
		l := newLister(c)
		running(t, l.Run)
		began := time.Now()
		result := waiting(t.Context(), l)
		pass(recheckInterval)
		require.Empty(t, result)
		c.setStatus(t, interpreters, poolStatus("True", ReasonWarmPoolFull, 1))
		require.NoError(t, (<-result).err)
		assert.Equal(t, 2*recheckInterval, time.Since(began))
	})
}

func TestAWaitForAPoolThatCannotComeEnds(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func(*testing.T, *fakeCluster)
		want   error
	}{
		"a stranger's object is in the way": {func(t *testing.T, c *fakeCluster) {
			c.setStatus(t, interpreters, poolStatus("False", ReasonNameConflict, 1))
		}, ErrPool},
		"the cluster refuses it": {func(t *testing.T, c *fakeCluster) {
			c.setStatus(t, interpreters, poolStatus("False", ReasonRejected, 1))
		}, ErrPool},
		"agent-sandbox is not there": {func(t *testing.T, c *fakeCluster) {
			c.setStatus(t, interpreters, poolStatus("False", ReasonAgentSandboxNotServed, 1))
		}, ErrPool},
		"the template goes": {func(t *testing.T, c *fakeCluster) {
			c.remove(t, interpreters, "warm")
		}, ErrNotFound},
		"the template breaks": {func(t *testing.T, c *fakeCluster) {
			c.apply(t, interpreterObject("warm", set(warmInterpreter(2), "", "template", "image")))
		}, ErrInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t, interpreterObject("warm", warmInterpreter(2)))
				l := newLister(c)
				running(t, l.Run)
				result := waiting(t.Context(), l)
				require.Empty(t, result)

				test.change(t, c)

				err := (<-result).err
				require.ErrorIs(t, err, test.want)
				if errors.Is(test.want, ErrPool) {
					assert.ErrorContains(t, err, "what is the matter")
				}
			})
		})
	}
}

func TestAWaitForAPoolGoesOnWhileThingsMayHeal(t *testing.T) {
	t.Parallel()
	for name, status := range map[string]map[string]any{
		"no key yet":                     poolStatus("False", ReasonPublicKeyNotLoaded, 1),
		"a try that failed":              poolStatus("False", ReasonEnsureFailed, 1),
		"the refusal of an earlier spec": poolStatus("False", ReasonRejected, 0),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t, interpreterObject("warm", warmInterpreter(2)))
				l := newLister(c)
				running(t, l.Run)
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				began := time.Now()
				result := waiting(ctx, l)

				c.setStatus(t, interpreters, status)

				require.ErrorIs(t, (<-result).err, context.DeadlineExceeded)
				assert.Equal(t, time.Minute, time.Since(began))
			})
		})
	}
}
