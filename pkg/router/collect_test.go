package router

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/common/expfmt"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
)

func TestErrorsHaveTheKindOfWhatFailed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		err  error
		kind string
	}{
		"a dial that was refused":           {fmt.Errorf("%w: %w", errUnreachable, &net.OpError{Op: "dial", Err: errors.New("refused")}), kindDial},
		"an answer that broke off":          {fmt.Errorf("%w: %w", errUnreachable, &net.OpError{Op: "read", Err: errors.New("reset")}), kindBroken},
		"a sandbox that took too long":      {fmt.Errorf("%w: dial", errTimeout), kindTimeout},
		"one that was replaced":             {errReplaced, kindReplaced},
		"a row without an entry point":      {errNoEntryPoint, kindEntryPoint},
		"one whose endpoint is of no use":   {errBadEndpoint, kindEntryPoint},
		"a store out of reach":              {fmt.Errorf("%w: x", errStore), kindStore},
		"a workload-manager out of reach":   {fmt.Errorf("x: %w", ErrManagerUnavailable), kindManager},
		"a client that left meanwhile":      {fmt.Errorf("%w: %w", errClientGone, errUnreachable), ""},
		"a refusal of the workload-manager": {&ManagerError{Status: 404}, ""},
		"a session that is not there":       {errSessionNotFound, ""},
		"one that is not ready":             {errNotReady, ""},
		"too many requests":                 {errOverloaded, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, c.kind, upstreamKind(c.err))
		})
	}
}

func TestARouterCountsWhatFailsBehindIt(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	res, body := r.get(echoPath+"/x", r.ready(refusing(t)))
	fails(t, res, body, http.StatusBadGateway, "SANDBOX_UNREACHABLE")

	text := func(name string) string {
		all, err := testutil.CollectAndFormat(r.router, expfmt.TypeTextPlain, name)
		require.NoError(t, err)
		return string(all)
	}
	assert.Contains(t, text("agentcube_router_upstream_errors_total"), `agentcube_router_upstream_errors_total{kind="dial"} 1`)
	assert.Contains(t, text("agentcube_router_upstream_errors_total"), `agentcube_router_upstream_errors_total{kind="timeout"} 0`)
	assert.NotContains(t, text("agentcube_router_retries_total"), "agentcube_router_retries_total 0")
	assert.Contains(t, text("agentcube_router_requests_in_flight"), "agentcube_router_requests_in_flight 0")
}

func TestRequestsInFlightAreCounted(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	first, second := r.router.limiter.acquire(), r.router.limiter.acquire()
	second.upgrade()
	require.NoError(t, testutil.CollectAndCompare(r.router, strings.NewReader(`
# HELP agentcube_router_requests_in_flight Invocations that are being served, without upgraded connections.
# TYPE agentcube_router_requests_in_flight gauge
agentcube_router_requests_in_flight 1
# HELP agentcube_router_upgraded_connections Upgraded connections (WebSocket and the like) that are open.
# TYPE agentcube_router_upgraded_connections gauge
agentcube_router_upgraded_connections 1
`), "agentcube_router_requests_in_flight", "agentcube_router_upgraded_connections"))
	first.release()
	second.release()
}

func TestTheTraceGoesOnToTheSandbox(t *testing.T) {
	t.Parallel()
	const caller = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	for name, on := range map[string]bool{"as the caller sent it without tracing": false, "as the router's own span with tracing": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			spans := tracetest.NewSpanRecorder()
			r := newRig(t, func(d *Dependencies, _ *Options) {
				if on {
					d.Tracer = sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans)).Tracer("test")
				}
			})
			s := newSandbox(t, nil)
			req := r.request(http.MethodGet, echoPath+"/x", r.ready(s.endpoint()), nil)
			req.Header.Set("Traceparent", caller)
			res, body := r.do(req)
			require.Equal(t, http.StatusOK, res.StatusCode, body)
			got := s.last(t).Header.Values("Traceparent")
			if !on {
				assert.Equal(t, []string{caller}, got)
				return
			}
			require.Eventually(t, func() bool { return len(spans.Ended()) == 1 }, deadline, time.Millisecond)
			span := spans.Ended()[0].SpanContext()
			assert.Equal(t, []string{"00-4bf92f3577b34da6a3ce929d0e0e4736-" + span.SpanID().String() + "-01"}, got)
		})
	}
}
