package router

import (
	"errors"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// Kinds of trouble with what is behind the router.
const (
	kindDial       = "dial"
	kindBroken     = "broken"
	kindTimeout    = "timeout"
	kindReplaced   = "replaced"
	kindEntryPoint = "entry_point"
	kindStore      = "store"
	kindManager    = "workload_manager"
)

// upstreamKinds gives the errors of requests that were failed by what is behind
// the router their kind; the first entry whose error is in the chain counts.
var upstreamKinds = []struct {
	err  error
	kind string
}{
	{errReplaced, kindReplaced},
	{errTimeout, kindTimeout},
	{errUnreachable, kindBroken}, // or kindDial, see upstreamKind
	{errNoEntryPoint, kindEntryPoint},
	{errBadEndpoint, kindEntryPoint},
	{errStore, kindStore},
	{ErrManagerUnavailable, kindManager},
}

// upstreamKind is the kind of an error; empty: it is the caller's affair, or our
// own.
func upstreamKind(err error) string {
	if errors.Is(err, errClientGone) {
		return ""
	}
	for _, k := range upstreamKinds {
		if !errors.Is(err, k.err) {
			continue
		}
		if k.kind == kindBroken && isDial(err) {
			return kindDial
		}
		return k.kind
	}
	return ""
}

// counts are what a router counts. They are read when somebody asks.
type counts struct {
	retries  atomic.Uint64
	upstream map[string]*atomic.Uint64 // by kind; fixed at construction
}

func newCounts() *counts {
	c := &counts{upstream: map[string]*atomic.Uint64{kindDial: new(atomic.Uint64)}}
	for _, k := range upstreamKinds {
		c.upstream[k.kind] = new(atomic.Uint64)
	}
	return c
}

// failed counts a request that was answered with err.
func (c *counts) failed(err error) {
	if n := c.upstream[upstreamKind(err)]; n != nil {
		n.Add(1)
	}
}

var (
	inFlightDesc = prometheus.NewDesc("agentcube_router_requests_in_flight",
		"Invocations that are being served, without upgraded connections.", nil, nil)
	upgradedDesc = prometheus.NewDesc("agentcube_router_upgraded_connections",
		"Upgraded connections (WebSocket and the like) that are open.", nil, nil)
	retriesDesc = prometheus.NewDesc("agentcube_router_retries_total",
		"Dials that were repeated after a sandbox had not accepted a connection.", nil, nil)
	upstreamDesc = prometheus.NewDesc("agentcube_router_upstream_errors_total",
		"Requests that failed for what is behind the router, by kind.", []string{"kind"}, nil)
)

// Describe implements prometheus.Collector.
func (rt *Router) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{inFlightDesc, upgradedDesc, retriesDesc, upstreamDesc} {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (rt *Router) Collect(out chan<- prometheus.Metric) {
	out <- prometheus.MustNewConstMetric(inFlightDesc, prometheus.GaugeValue, float64(rt.limiter.inFlight.Load()))
	out <- prometheus.MustNewConstMetric(upgradedDesc, prometheus.GaugeValue, float64(rt.limiter.upgraded.Load()))
	out <- prometheus.MustNewConstMetric(retriesDesc, prometheus.CounterValue, float64(rt.counts.retries.Load()))
	for kind, n := range rt.counts.upstream {
		out <- prometheus.MustNewConstMetric(upstreamDesc, prometheus.CounterValue, float64(n.Load()), kind)
	}
}

// Routes are the patterns of all routes.
func Routes() []string {
	return append([]string{routeInvocations}, quietPaths...)
}
