package e2e

import (
	"bufio"
	"bytes"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/agentcube/agentcube/pkg/api"
	"github.com/agentcube/agentcube/test/bench/scrape"
	"github.com/agentcube/agentcube/test/cluster/node"
	"github.com/agentcube/agentcube/test/cluster/process"
)

// observeBehaviours are about what an operator sees of the system.
var observeBehaviours = []behaviour{
	{"a request that makes a session is one trace, from the router to the object and the sandbox", oneTrace},
	{"without tracing what a caller says of its own trace reaches the sandbox as it is", untraced},
	{"a label that was put back and a sandbox that ceased to be ready are events of the object", bothWays(eventsOfObject)},
	{"a create that failed is an event of its object", failedEvent},
	{"the log level of a program is set while it runs", levelSet},
	{"what was done is on the metrics page", counted},
}

// The trace of a caller, as its header names it.
const (
	callersTrace  = "4bf92f3577b34da6a3ce929d0e0e4736"
	callersSpan   = "00f067aa0ba902b7"
	callersParent = "00-" + callersTrace + "-" + callersSpan + "-01"
)

func oneTrace(t *testing.T, e *env) {
	e.apply(t, runtimeTemplate("echo"))
	c := newCollector(t)
	env := []string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + c.URL, "OTEL_BSP_SCHEDULE_DELAY=100"}
	manager := e.start(t, launch{name: "workload-manager", env: env})
	require.Eventually(t, func() bool {
		a, err := send(t.Context(), http.MethodGet, manager.url+"/readyz", nil, "")
		return err == nil && strings.Contains(a.body, `"cluster":"ok"`)
	}, settle, pollInterval)
	router := e.start(t, launch{name: "router", env: append(env, "WORKLOAD_MANAGER_URL="+manager.url)})

	a, err := send(t.Context(), http.MethodGet, e.at(router, e.invocations(agentRuntime, "echo"))+"/x",
		http.Header{"Traceparent": {callersParent}, "Tracestate": {"vendor=1"}}, "")
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, a.status, a)

	var all []span
	require.EventuallyWithT(t, func(ct *assert.CollectT) {
		all = c.of(callersTrace)
		var names []string
		for _, s := range all {
			names = append(names, s.service+": "+s.name)
		}
		for _, want := range []string{
			"router: GET /v1/namespaces/{namespace}/{kind}/{name}/invocations/*",
			"router: workload-manager POST",
			"workload-manager: POST /v1/agent-runtime",
			"workload-manager: create: reserve", "workload-manager: store create",
			"workload-manager: create: object", "workload-manager: api-server POST",
			"workload-manager: create: wait", "workload-manager: create: probe", "workload-manager: create: commit",
		} {
			assert.Contains(ct, names, want)
		}
	}, settle, pollInterval)
	ids := []string{callersSpan}
	for _, s := range all {
		ids = append(ids, s.id)
	}
	for _, s := range all {
		assert.Contains(t, ids, s.parent, "%s hangs on nothing", s.name)
		assert.False(t, s.failed, s.name)
	}
	i := slices.IndexFunc(all, func(s span) bool { return s.service == "router" && s.parent == callersSpan })
	require.GreaterOrEqual(t, i, 0, "the router's span is no child of the caller's")

	var echo node.Echo
	a.decode(t, &echo)
	assert.Equal(t, []string{"00-" + callersTrace + "-" + all[i].id + "-01"}, echo.Headers.Values("Traceparent"))
	assert.Equal(t, []string{"vendor=1"}, echo.Headers.Values("Tracestate"))
	for _, p := range []*program{manager, router} {
		assert.Contains(t, accessTraces(t, p), callersTrace, "the access record names the trace")
	}
}

// accessTraces are the traces that the access records of a program name.
func accessTraces(t *testing.T, p *program) (traces []string) {
	t.Helper()
	require.Eventually(t, func() bool {
		output, err := p.Output()
		require.NoError(t, err)
		traces = nil
		lines := bufio.NewScanner(bytes.NewReader(output))
		for lines.Scan() {
			var record struct {
				Msg   string `json:"msg"`
				Trace string `json:"trace"`
			}
			if json.Unmarshal(lines.Bytes(), &record) == nil && record.Msg == "request" && record.Trace != "" {
				traces = append(traces, record.Trace)
			}
		}
		return len(traces) > 0
	}, settle, pollInterval)
	return traces
}

func untraced(t *testing.T, e *env) {
	e.apply(t, runtimeTemplate("echo"))
	s := e.create(t, agentRuntime, "echo")
	const odd = "not what the standard says"
	a, err := send(t.Context(), http.MethodGet, e.invocations(agentRuntime, "echo")+"/x", http.Header{
		http.CanonicalHeaderKey(api.HeaderSessionID): {s.SessionID}, "Traceparent": {odd}, "Tracestate": {"a=1", "b=2"}, "Baggage": {"k=v"},
	}, "")
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, a.status, a)
	var echo node.Echo
	a.decode(t, &echo)
	assert.Equal(t, []string{odd}, echo.Headers.Values("Traceparent"))
	assert.Equal(t, []string{"a=1", "b=2"}, echo.Headers.Values("Tracestate"))
	assert.Equal(t, []string{"k=v"}, echo.Headers.Values("Baggage"))
}

var kubernetesEvents = schema.GroupVersionResource{Group: "events.k8s.io", Version: "v1", Resource: "events"}

// event waits for an event of ours about the object, and returns its note.
func (e *env) event(t *testing.T, kind, object, reason string) (note string) {
	t.Helper()
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		list, err := e.client.Resource(kubernetesEvents).Namespace(e.namespace).List(t.Context(), metav1.ListOptions{})
		require.NoError(t, err)
		var seen []string
		for _, item := range list.Items {
			regarding, _ := item.Object["regarding"].(map[string]any)
			if item.Object["reportingController"] != "agentcube-workload-manager" || regarding["kind"] != kind ||
				(object != "" && regarding["name"] != object) {
				continue
			}
			seen = append(seen, item.Object["reason"].(string))
			if item.Object["reason"] == reason {
				note, _ = item.Object["note"].(string)
				assert.NotEmpty(c, regarding["apiVersion"])
			}
		}
		assert.Contains(c, seen, reason)
	}, settle, pollInterval)
	return note
}

func eventsOfObject(t *testing.T, e *env, w way) {
	m := w.make(t, e)
	kind := "Sandbox"
	if w.objects(e) == e.api.Claims() {
		kind = "SandboxClaim"
	}
	e.label(t, w, m.object, nil)
	assert.Contains(t, e.event(t, kind, m.object, "SessionLabelRestored"), m.id)
	require.NoError(t, e.Cluster.Node.SetReady(t.Context(), e.namespace, m.pod, false))
	m.notReady(t, e, w)
	assert.Contains(t, e.event(t, kind, m.object, "SessionNotReady"), m.id)
}

func failedEvent(t *testing.T, e *env) {
	e.apply(t, runtimeTemplate("echo", node.NeverListen, "true"))
	a := e.post(t, agentRuntime, "echo")
	require.Equal(t, http.StatusBadGateway, a.status, a)
	assert.Contains(t, e.event(t, "Sandbox", "", "SessionCreateFailed"), "does not listen")
	e.nothingLeft(t)
}

func levelSet(t *testing.T, e *env) {
	port, err := process.ReservePort()
	require.NoError(t, err)
	t.Cleanup(port.Release)
	address := port.Address()
	p := e.start(t, launch{name: "router", args: []string{"--admin-address=" + address, "--log-level=warn"}})
	level := "http://" + address + "/log/level"
	a, err := send(t.Context(), http.MethodGet, level, nil, "")
	require.NoError(t, err)
	assert.JSONEq(t, `{"level":"warn"}`, a.body)
	quiet := func() bool {
		output, err := p.Output()
		require.NoError(t, err)
		return !bytes.Contains(output, []byte(`"msg":"request"`))
	}
	_, err = send(t.Context(), http.MethodGet, p.url+"/livez", nil, "")
	require.NoError(t, err)
	a, err = send(t.Context(), http.MethodPut, level, nil, `{"level":"debug"}`)
	require.NoError(t, err)
	assert.Equal(t, http.StatusOK, a.status, a)
	assert.True(t, quiet(), "requests were logged before")
	_, err = send(t.Context(), http.MethodGet, p.url+"/livez", nil, "")
	require.NoError(t, err)
	require.Eventually(t, func() bool { return !quiet() }, settle, pollInterval)
	a, err = send(t.Context(), http.MethodPut, p.url+"/log/level", nil, `{"level":"error"}`)
	require.NoError(t, err)
	assert.Equal(t, http.StatusNotFound, a.status, "the public port sets nothing")
}

func counted(t *testing.T, e *env) {
	e.apply(t, runtimeTemplate("echo"))
	before, err := scrape.Read(t.Context(), e.Router.URL+"/metrics")
	require.NoError(t, err)
	s := e.create(t, agentRuntime, "echo")
	e.echoes(t, agentRuntime, "echo", s.SessionID)
	assert.Equal(t, http.StatusOK, e.delete(t, s.SessionID).status)
	after, err := scrape.Read(t.Context(), e.Router.URL+"/metrics")
	require.NoError(t, err)
	// Others use the router at the same time.
	assert.Greater(t, after.Value("agentcube_router_cache_invalidations_total"), before.Value("agentcube_router_cache_invalidations_total"))
	a, err := send(t.Context(), http.MethodGet, e.Manager().URL+"/metrics", nil, "")
	require.NoError(t, err)
	for _, want := range []string{
		`(?m)^agentcube_session_creates_total\{kind="AgentRuntime",path="direct",result="ok"\} [1-9]`,
		`(?m)^agentcube_session_create_step_duration_seconds_count\{path="direct",step="wait"\} [1-9]`,
		`(?m)^agentcube_watch_lag_seconds_count\{kind="Sandbox"\} [1-9]`,
		`(?m)^agentcube_session_deletes_total\{result="ok"\} [1-9]`,
		`(?m)^agentcube_store_calls_total\{call="create",result="ok"\} [1-9]`,
		`(?m)^agentcube_http_requests_total\{code="200",route="/v1/agent-runtime"\} [1-9]`,
		`(?m)^agentcube_dependency_up\{dependency="store"\} 1$`,
		`(?m)^agentcube_collector_pass_duration_seconds_count\{result="ok"\} [1-9]`,
	} {
		assert.Regexp(t, want, a.body)
	}
}
