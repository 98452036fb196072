package sandbox

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	testingclock "k8s.io/utils/clock/testing"
)

const (
	lacking    = `configmaps is forbidden: User "system:serviceaccount:a:b" cannot create resource "configmaps" in API group "" in the namespace "a"`
	quotaIsOut = `configmaps "n" is forbidden: exceeded quota: q, requested: configmaps=1, used: configmaps=3, limited: configmaps=3`
)

func TestARefusalOfAnAPIServerThatIsStarting(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		message string
		// readiness is what /readyz answers, 0: nothing, by closing the connection.
		readiness int
		// allowedAfter refusals; 0: never.
		allowedAfter int32
		want         func(error) bool
		calls        int32
	}{
		"a right that is lacking stays a refusal": {lacking, http.StatusOK, 0, apierrors.IsForbidden, 2},
		"an API server that is not ready yet is not available": {
			lacking, http.StatusInternalServerError, 0, apierrors.IsServiceUnavailable, 1,
		},
		"an API server that has become ready meanwhile is asked again": {
			lacking, http.StatusOK, 1, func(err error) bool { return err == nil }, 2,
		},
		"an API server that does not let its readiness be seen does not know us yet": {
			lacking, http.StatusForbidden, 0, apierrors.IsServiceUnavailable, 1,
		},
		"another refusal is passed on without a question": {
			quotaIsOut, http.StatusInternalServerError, 0, apierrors.IsForbidden, 1,
		},
		"no answer about the readiness is no answer": {
			lacking, 0, 0, func(err error) bool { return err != nil && !apierrors.IsForbidden(err) }, 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var calls atomic.Int32
			client := clientOf(t, func(w http.ResponseWriter, r *http.Request) {
				assert.Equal(t, "Bearer secret", r.Header.Get("Authorization"))
				if r.URL.Path == "/behind/a/proxy/readyz" {
					if test.readiness == 0 {
						panic(http.ErrAbortHandler)
					}
					w.WriteHeader(test.readiness)
					return
				}
				body, err := io.ReadAll(r.Body)
				assert.NoError(t, err)
				assert.Contains(t, string(body), `"name":"n"`, "each time whole")
				if n := calls.Add(1); test.allowedAfter > 0 && n > test.allowedAfter {
					answer(t, w, http.StatusCreated, corev1.ConfigMap{
						TypeMeta: metav1.TypeMeta{Kind: "ConfigMap", APIVersion: "v1"},
					})
					return
				}
				answer(t, w, http.StatusForbidden, metav1.Status{
					TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
					Status:   metav1.StatusFailure, Reason: metav1.StatusReasonForbidden,
					Code: http.StatusForbidden, Message: test.message,
				})
			})
			_, err := client.CoreV1().ConfigMaps("a").Create(t.Context(),
				&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "n"}}, metav1.CreateOptions{})
			assert.True(t, test.want(err), "%v", err)
			assert.Equal(t, test.calls, calls.Load(), "calls")
		})
	}
}

func answer(t *testing.T, w http.ResponseWriter, code int, body any) {
	t.Helper()
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	assert.NoError(t, json.NewEncoder(w).Encode(body))
}

// clientOf is a client behind our transport, and behind a proxy that serves the
// API server under a path of its own.
func clientOf(t *testing.T, serve http.HandlerFunc) kubernetes.Interface {
	t.Helper()
	server := httptest.NewServer(serve)
	t.Cleanup(server.Close)
	config := &rest.Config{
		Host: server.URL + "/behind/a/proxy", BearerToken: "secret",
		ContentConfig: rest.ContentConfig{ContentType: "application/json"},
	}
	require.NoError(t, wrapTransport(clock.RealClock{}, config))
	client, err := kubernetes.NewForConfig(config)
	require.NoError(t, err)
	return client
}

func TestAWatchThatSaysNothingIsEnded(t *testing.T) {
	t.Parallel()
	clk := testingclock.NewFakeClock(time.Now())
	server, peer := io.Pipe()
	body := bodyThrough(t, clk, "watch=true", server)
	for range 3 {
		clk.Step(time.Minute)
		go func() { _, _ = peer.Write([]byte("{}")) }() // a bookmark
		n, err := io.ReadFull(body, make([]byte, 2))
		require.NoError(t, err, "it has spoken in time")
		require.Equal(t, 2, n)
	}
	clk.Step(maxSilence)
	rest, err := io.ReadAll(body)
	require.NoError(t, err, "as if the API server had ended it")
	assert.Empty(t, rest)
}

func TestAnAnswerThatIsNoWatchMayTakeItsTime(t *testing.T) {
	t.Parallel()
	clk := testingclock.NewFakeClock(time.Now())
	body := bodyThrough(t, clk, "watch=false", io.NopCloser(strings.NewReader("late")))
	assert.False(t, clk.HasWaiters())
	text, err := io.ReadAll(body)
	require.NoError(t, err)
	assert.Equal(t, "late", string(text))
}

func TestTheEndOfAWatchAndItsFailurePass(t *testing.T) {
	t.Parallel()
	clk := testingclock.NewFakeClock(time.Now())
	body := bodyThrough(t, clk, "watch=true", io.NopCloser(strings.NewReader("{}")))
	text, err := io.ReadAll(body)
	require.NoError(t, err)
	assert.Equal(t, "{}", string(text))
	require.NoError(t, body.Close())
	assert.False(t, clk.HasWaiters(), "nothing is left")

	server, peer := io.Pipe()
	_ = peer.CloseWithError(io.ErrUnexpectedEOF)
	_, err = io.ReadAll(bodyThrough(t, clk, "watch=true", server))
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
}

// bodyThrough is the body of an answer that came through our transport.
func bodyThrough(t *testing.T, clk clock.WithDelayedExecution, query string, body io.ReadCloser) io.ReadCloser {
	t.Helper()
	transport := &apiTransport{clock: clk, next: roundTrip(func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: http.StatusOK, Body: body}, nil
	})}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://api/sandboxes?"+query, http.NoBody)
	require.NoError(t, err)
	response, err := transport.RoundTrip(request)
	require.NoError(t, err)
	t.Cleanup(func() { _ = response.Body.Close() })
	return response.Body
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
