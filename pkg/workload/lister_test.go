package workload

import (
	"context"
	"errors"
	"net/url"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/utils/clock"

	"github.com/agentcube/agentcube/pkg/sandbox"
	"github.com/agentcube/agentcube/pkg/session"
)

// running starts a Run in the bubble and stops it at the test's end. What it
// left running would fail the test.
func running(t *testing.T, run func(context.Context) error) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx) }()
	synctest.Wait()
	stopped := false
	stop = func() {
		if !stopped {
			stopped = true
			cancel()
			assert.NoError(t, <-ended)
		}
	}
	t.Cleanup(stop)
	return stop
}

// pass lets the time of the bubble pass, which takes none, and all that
// becomes due happen.
func pass(d time.Duration) {
	<-clock.RealClock{}.After(d)
	synctest.Wait()
}

func runtimeRef() session.WorkloadRef {
	return session.WorkloadRef{Kind: session.KindAgentRuntime, Namespace: "default", Name: "echo"}
}

func interpreterRef(name string) session.WorkloadRef {
	return session.WorkloadRef{Kind: session.KindCodeInterpreter, Namespace: "default", Name: name}
}

func TestTemplatesAreFoundInTheCache(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, agentRuntimeObject(echoRuntime()), interpreterObject("warm", warmInterpreter(2)))
		l := newLister(c)
		running(t, l.Run)
		require.True(t, l.HasSynced())

		for range 3 {
			w, err := l.Get(t.Context(), runtimeRef())
			require.NoError(t, err)
			assert.Equal(t, "uid-of-echo", w.UID)
			// What a caller does to its copy stays there.
			w.Ports[0].Port = 1
			containers(w.Pod)[0]["image"] = "other"
			w, err = l.Get(t.Context(), runtimeRef())
			require.NoError(t, err)
			assert.EqualValues(t, 8080, w.Ports[0].Port)
			assert.Equal(t, "echo", containers(w.Pod)[0]["image"])
		}
		w, err := l.Get(t.Context(), interpreterRef("warm"))
		require.NoError(t, err)
		assert.True(t, w.Warm)
		assert.Zero(t, c.count("get", runtimes)+c.count("get", interpreters), "nothing was read directly")
	})
}

func TestTheCacheFollowsTheCluster(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, agentRuntimeObject(echoRuntime()))
		l := newLister(c)
		running(t, l.Run)

		c.apply(t, agentRuntimeObject(set(echoRuntime(), "1m", "sessionTimeout")))
		synctest.Wait()
		w, err := l.Get(t.Context(), runtimeRef())
		require.NoError(t, err)
		assert.Equal(t, time.Minute, w.Idle)

		c.remove(t, runtimes, "echo")
		synctest.Wait()
		_, err = l.Get(t.Context(), runtimeRef())
		assert.ErrorIs(t, err, ErrNotFound)
	})
}

func TestALookUpThatMissesTheCacheReadsDirectly(t *testing.T) {
	t.Parallel()
	c := newCluster(t, interpreterObject("cold", echoInterpreter()))
	l := newLister(c) // Its caches are not filled.

	w, err := l.Get(t.Context(), interpreterRef("cold"))

	require.NoError(t, err)
	assert.Equal(t, "uid-of-cold", w.UID)
	assert.Equal(t, 1, c.count("get", interpreters))
}

func TestAnInvalidTemplateInTheCacheIsReadAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, agentRuntimeObject(set(echoRuntime(), []any{}, "targetPort")))
		l := newLister(c)
		running(t, l.Run)
		_, err := l.Get(t.Context(), runtimeRef())
		require.ErrorIs(t, err, ErrInvalid)

		// Mended, while the cache has not heard of it.
		mended := &unstructured.Unstructured{Object: agentRuntimeObject(echoRuntime())}
		l.client = oneAnswer{Interface: c, get: func(context.Context) (*unstructured.Unstructured, error) {
			return mended, nil
		}}
		_, err = l.Get(t.Context(), runtimeRef())
		assert.NoError(t, err)
	})
}

func TestATemplateMarkedForDeletionIsGone(t *testing.T) {
	t.Parallel()
	object := agentRuntimeObject(echoRuntime())
	object["metadata"].(map[string]any)["deletionTimestamp"] = "2026-11-30T21:00:00Z"
	c := newCluster(t, object)

	_, err := newLister(c).Get(t.Context(), runtimeRef())

	assert.ErrorIs(t, err, ErrNotFound)
}

func TestACacheThatIsNoLongerKeptIsNotBelieved(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, agentRuntimeObject(echoRuntime()))
		l := newLister(c)
		running(t, l.Run)()
		c.remove(t, runtimes, "echo")
		_, err := l.Get(t.Context(), runtimeRef())
		assert.ErrorIs(t, err, ErrNotFound)
	})
}

func TestNamesThatCannotExistAreNotFound(t *testing.T) {
	t.Parallel()
	// The client refuses such names itself, with an error of no API server.
	l := NewLister(clock.RealClock{}, oneAnswer{get: func(context.Context) (*unstructured.Unstructured, error) {
		return nil, errors.New("invalid resource name")
	}}, newCluster(t), zap.NewNop())
	for name, ref := range map[string]session.WorkloadRef{
		"no name":              {Kind: session.KindAgentRuntime, Namespace: "default"},
		"no namespace":         {Kind: session.KindAgentRuntime, Name: "echo"},
		"a path as name":       {Kind: session.KindAgentRuntime, Namespace: "default", Name: "../x"},
		"a path as namespace":  {Kind: session.KindAgentRuntime, Namespace: "a/b", Name: "echo"},
		"a kind of no session": {Kind: "Pod", Namespace: "default", Name: "echo"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := l.Get(t.Context(), ref)
			assert.ErrorIs(t, err, ErrNotFound)
		})
	}
}

func TestAMissingCustomResourceBlocksNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, interpreterObject("cold", echoInterpreter()))
		c.withdraw(runtimes)
		installed := c.fail("*", runtimes.Resource, notServed("agentruntimes"))
		l := newLister(c)
		running(t, l.Run)

		_, err := l.Get(t.Context(), runtimeRef())
		require.ErrorIs(t, err, ErrNotFound)
		_, err = l.Get(t.Context(), interpreterRef("cold"))
		require.NoError(t, err)
		assert.True(t, l.HasSynced())
		assert.Zero(t, c.count("list", runtimes), "what is not served is not asked for")

		installed()
		c.serve(runtimes)
		c.apply(t, agentRuntimeObject(echoRuntime()))
		pass(discoveryInterval)
		reads := c.count("get", runtimes)
		_, err = l.Get(t.Context(), runtimeRef())
		require.NoError(t, err)
		assert.Equal(t, reads, c.count("get", runtimes), "the cache knows it now")
	})
}

func TestDiscoveryIsAskedRarelyAndNotForLong(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		c.withdraw(runtimes)
		c.withdraw(interpreters)
		running(t, newLister(c).Run)
		pass(time.Minute)
		perKind := 1 + int(time.Minute/discoveryInterval)
		assert.Equal(t, 2*perKind, c.questions())

		c.serve(runtimes, interpreters)
		pass(discoveryInterval)
		asked := c.questions()
		pass(time.Hour)
		assert.Equal(t, asked, c.questions())
	})
}

func TestACustomResourceThatGoesAndComesBackIsFollowedAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, agentRuntimeObject(echoRuntime()))
		// The first list finds it away, after discovery has shown it.
		back := c.fail("list", runtimes.Resource, notServed("agentruntimes"))
		l := newLister(c)
		running(t, l.Run)
		pass(discoveryInterval - 1)
		assert.Equal(t, 1, c.count("list", runtimes), "asked once, not again and again")

		back()
		pass(1)
		_, err := l.Get(t.Context(), runtimeRef())
		require.NoError(t, err)
		assert.Zero(t, c.count("get", runtimes), "it stands in the cache")
	})
}

func TestReadErrorsAreToldApart(t *testing.T) {
	t.Parallel()
	resource := runtimes.GroupResource()
	for name, test := range map[string]struct {
		err  error
		want error
		not  []error
	}{
		"absent":                  {apierrors.NewNotFound(resource, "echo"), ErrNotFound, []error{sandbox.ErrUnavailable}},
		"not served":              {notServed("agentruntimes"), ErrNotFound, []error{sandbox.ErrUnavailable}},
		"not allowed":             {apierrors.NewForbidden(resource, "echo", errors.New("rbac")), sandbox.ErrForbidden, []error{ErrNotFound, sandbox.ErrUnavailable}},
		"not known":               {apierrors.NewUnauthorized("who"), sandbox.ErrForbidden, []error{ErrNotFound, sandbox.ErrUnavailable}},
		"no connection":           {&url.Error{Op: "Get", URL: "https://x", Err: errors.New("connection refused")}, sandbox.ErrUnavailable, []error{ErrNotFound}},
		"the client's own limit":  {context.DeadlineExceeded, sandbox.ErrUnavailable, []error{ErrNotFound}},
		"too many requests":       {apierrors.NewTooManyRequests("busy", 1), sandbox.ErrUnavailable, []error{ErrNotFound}},
		"server timeout":          {apierrors.NewServerTimeout(resource, "get", 1), sandbox.ErrUnavailable, []error{ErrNotFound}},
		"gateway timeout":         {apierrors.NewTimeoutError("slow", 1), sandbox.ErrUnavailable, []error{ErrNotFound}},
		"request timeout":         {apierrors.NewGenericServerResponse(408, "get", resource, "echo", "", 0, true), sandbox.ErrUnavailable, []error{ErrNotFound}},
		"a status without a code": {&apierrors.StatusError{}, sandbox.ErrUnavailable, []error{ErrNotFound}},
		"internal error":          {apierrors.NewInternalError(errors.New("etcd")), sandbox.ErrUnavailable, []error{ErrNotFound}},
		"an answer of other kind": {apierrors.NewBadRequest("what"), nil, []error{ErrNotFound, sandbox.ErrUnavailable, sandbox.ErrForbidden}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t)
			c.fail("get", runtimes.Resource, test.err)

			_, err := newLister(c).Get(t.Context(), runtimeRef())

			require.Error(t, err)
			if test.want != nil {
				require.ErrorIs(t, err, test.want)
			}
			for _, other := range test.not {
				assert.NotErrorIs(t, err, other)
			}
		})
	}
}

// oneAnswer is a client whose reads are answered by get.
type oneAnswer struct {
	dynamic.Interface
	get func(context.Context) (*unstructured.Unstructured, error)
}

func (o oneAnswer) Resource(schema.GroupVersionResource) dynamic.NamespaceableResourceInterface {
	return oneResource{get: o.get}
}

type oneResource struct {
	dynamic.NamespaceableResourceInterface
	get func(context.Context) (*unstructured.Unstructured, error)
}

func (o oneResource) Namespace(string) dynamic.ResourceInterface { return o }

func (o oneResource) Get(ctx context.Context, _ string, _ metav1.GetOptions, _ ...string) (*unstructured.Unstructured, error) {
	return o.get(ctx)
}

// hanging is a client whose API server never answers.
func hanging() dynamic.Interface {
	return oneAnswer{get: func(ctx context.Context) (*unstructured.Unstructured, error) {
		<-ctx.Done()
		return nil, &url.Error{Op: "Get", URL: "https://x", Err: ctx.Err()}
	}}
}

func TestAnAPIServerThatHangsIsOutOfReach(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := NewLister(clock.RealClock{}, hanging(), newCluster(t), zap.NewNop())
		began := time.Now()
		_, err := l.Get(t.Context(), runtimeRef())
		require.ErrorIs(t, err, sandbox.ErrUnavailable)
		assert.Equal(t, readTimeout, time.Since(began))
	})
}

func TestTheEndOfTheCallersContextStaysItself(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := NewLister(clock.RealClock{}, hanging(), newCluster(t), zap.NewNop())
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := l.Get(ctx, runtimeRef())
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.NotErrorIs(t, err, sandbox.ErrUnavailable)
	})
}
