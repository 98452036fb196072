package httpserver

import (
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// OtherLabel is the value of a label for whatever is not on its list, so that no
// stranger can make the list longer.
const OtherLabel = "other"

// maxStatus is one more than any status that HTTP knows.
const maxStatus = 600

var requestsTotal = prometheus.NewDesc("agentcube_http_requests_total",
	"Requests that were answered, by route and status; 499: the client went away before, 0: the answer was broken off.",
	[]string{"route", "code"}, nil)

// Requests counts the requests of a server. It is made for a path that is
// measured in microseconds: a request costs it one look into a map that never
// changes, and no memory.
type Requests struct {
	routes  map[string]*routeRequests // fixed once requests are served
	seconds *prometheus.HistogramVec
}

// routeRequests are those of one route.
type routeRequests struct {
	// byStatus counts; the last place is for what is no status.
	byStatus [maxStatus + 1]atomic.Uint64
	seconds  prometheus.Observer
}

// NewRequests registers them. Requests of routes that Add was not told are
// counted together.
func NewRequests(registry prometheus.Registerer, routes ...string) *Requests {
	r := &Requests{
		routes: map[string]*routeRequests{},
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "agentcube_http_request_duration_seconds",
			Help:    "Time from a request's head to the end of its answer, by route. Upgraded connections are left out.",
			Buckets: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120},
		}, []string{"route"}),
	}
	r.Add(append(routes, OtherLabel)...)
	registry.MustRegister(r)
	return r
}

// Add makes routes known by their patterns. It must not be called any more once
// requests are served.
func (r *Requests) Add(routes ...string) {
	for _, route := range routes {
		if r.routes[route] == nil {
			r.routes[route] = &routeRequests{seconds: r.seconds.WithLabelValues(route)}
		}
	}
}

// Observe counts one request that is over.
func (r *Requests) Observe(route string, status int, took time.Duration) {
	one, ok := r.routes[route]
	if !ok {
		one = r.routes[OtherLabel]
	}
	if status < 0 || status >= maxStatus {
		status = maxStatus
	}
	one.byStatus[status].Add(1)
	if status != http.StatusSwitchingProtocols {
		one.seconds.Observe(took.Seconds())
	}
}

// Describe implements prometheus.Collector.
func (r *Requests) Describe(out chan<- *prometheus.Desc) {
	out <- requestsTotal
	r.seconds.Describe(out)
}

// Collect implements prometheus.Collector.
func (r *Requests) Collect(out chan<- prometheus.Metric) {
	for route, one := range r.routes {
		for status := range one.byStatus {
			n := one.byStatus[status].Load()
			if n == 0 && status != http.StatusOK {
				continue
			}
			code := OtherLabel
			if status < maxStatus {
				code = strconv.Itoa(status)
			}
			out <- prometheus.MustNewConstMetric(requestsTotal, prometheus.CounterValue, float64(n), route, code)
		}
	}
	r.seconds.Collect(out)
}
