package store

import (
	"context"
	"errors"
	"net"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	"k8s.io/utils/clock"
)

// scripts by the hash that a server knows them by. What a script does to a key
// beside its own work gives it another hash.
var scripts = map[string]string{
	createScript.Hash():       "create",
	createScript.keyed.Hash(): "create",
	readScript.Hash():         "read",
	updateScript.Hash():       "update",
	updateScript.keyed.Hash(): "update",
	keepScript.Hash():         "keep",
	removeScript.Hash():       "remove",
	removeScript.keyed.Hash(): "remove",
	healScript.Hash():         "heal",
	activityScript.Hash():     "activity",
	claimScript.Hash():        "claim",
	dueScript.Hash():          "due",
	listScript.Hash():         "list",
	relistScript.Hash():       "relist",
	restoreKeyScript.Hash():   "restoreKey",
	endKeyScript.Hash():       "endKey",
}

// commands that are told apart, beside scripts.
var commands = []string{
	"get", "mget", "set", "exists", "time", "ping", "scan", "zscan", "zrange", "zrangebyscore", "zadd", "zscore", "zmscore",
}

// Calls that are neither, and several commands that are sent as one.
const (
	callOther    = "other"
	callPipeline = "pipeline"
)

// How a call came out.
const (
	resultOK       = "ok"
	resultRefused  = "refused"  // the store answered with an error
	resultFailed   = "failed"   // it did not answer
	resultCanceled = "canceled" // its caller did not wait
)

// Metrics of the calls to the store, retries of the client included. As a hook of
// the client it sees every call, and gives each a span if its caller's trace is
// recorded.
type Metrics struct {
	clock   clock.PassiveClock
	total   *prometheus.CounterVec
	seconds *prometheus.HistogramVec
}

// NewMetrics registers them. They count what goes through the clients that have
// them as a hook (AddHook).
func NewMetrics(clk clock.PassiveClock, registry prometheus.Registerer) *Metrics {
	m := &Metrics{
		clock: clk,
		total: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "agentcube_store_calls_total",
			Help: "Calls to the store, by script or command and by result: ok, refused by the store, " +
				"failed without an answer, canceled by the caller.",
		}, []string{"call", "result"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "agentcube_store_call_duration_seconds",
			Help:    "Time that calls to the store took, repetitions included, by script or command.",
			Buckets: []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .1, .5, 1, 3},
		}, []string{"call"}),
	}
	for _, call := range callNames() {
		for _, result := range []string{resultOK, resultRefused, resultFailed, resultCanceled} {
			m.total.WithLabelValues(call, result)
		}
		m.seconds.WithLabelValues(call)
	}
	registry.MustRegister(m.total, m.seconds)
	return m
}

// callNames are the values of the label.
func callNames() []string {
	all := append([]string{callOther, callPipeline}, commands...)
	for _, name := range scripts {
		all = append(all, name)
	}
	return all
}

// DialHook implements redis.Hook.
func (m *Metrics) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

// ProcessHook implements redis.Hook.
func (m *Metrics) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if opens(cmd) {
			return next(ctx, cmd)
		}
		return m.observe(ctx, callOf(cmd), func(ctx context.Context) error { return next(ctx, cmd) })
	}
}

// ProcessPipelineHook implements redis.Hook.
func (m *Metrics) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if len(cmds) > 0 && opens(cmds[0]) {
			return next(ctx, cmds)
		}
		return m.observe(ctx, callPipeline, func(ctx context.Context) error { return next(ctx, cmds) })
	}
}

// opens reports a command that the client sends by itself when it opens a
// connection. Some of them an older server refuses, which means nothing; what
// does mean something fails the call that needs the connection.
func opens(cmd redis.Cmder) bool {
	switch strings.ToLower(cmd.Name()) {
	case "hello", "auth", "client", "select", "readonly":
		return true
	default:
		return false
	}
}

func (m *Metrics) observe(ctx context.Context, call string, do func(context.Context) error) error {
	ctx, span := spanOf(ctx, call)
	start := m.clock.Now()
	err := do(ctx)
	took := m.clock.Since(start)
	result := resultOf(err)
	m.total.WithLabelValues(call, result).Inc()
	m.seconds.WithLabelValues(call).Observe(took.Seconds())
	if span != nil {
		if result != resultOK {
			span.SetStatus(codes.Error, result)
		}
		span.End()
	}
	return err
}

// spanOf begins a span within the trace of ctx, if that is recorded.
func spanOf(ctx context.Context, call string) (context.Context, trace.Span) {
	parent := trace.SpanFromContext(ctx)
	if !parent.IsRecording() {
		return ctx, nil
	}
	const scope = "github.com/agentcube/agentcube/pkg/store"
	return parent.TracerProvider().Tracer(scope).Start(ctx, "store "+call, trace.WithSpanKind(trace.SpanKindClient))
}

// callOf names a command by what it does, which is never a stranger's choice.
func callOf(cmd redis.Cmder) string {
	name := strings.ToLower(cmd.Name())
	args := cmd.Args()
	if len(args) > 1 && (name == "evalsha" || name == "eval") {
		hash, _ := args[1].(string)
		if name == "eval" { // the server did not know the script
			hash = redis.NewScript(hash).Hash()
		}
		if script, ok := scripts[hash]; ok {
			return script
		}
		return callOther
	}
	for _, known := range commands {
		if name == known {
			return known
		}
	}
	return callOther
}

func resultOf(err error) string {
	switch {
	case err == nil, errors.Is(err, redis.Nil), redis.HasErrorPrefix(err, "NOSCRIPT"):
		return resultOK // an absence is an answer, and a script that is not known is sent whole
	case errors.Is(err, context.Canceled):
		return resultCanceled
	case isAnswer(err):
		return resultRefused
	default:
		return resultFailed
	}
}
