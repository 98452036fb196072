package lookup

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// counts are what a cache counts. They are read when somebody asks.
type counts struct {
	hits, misses, stale    atomic.Uint64
	invalidations, flushes atomic.Uint64
}

var (
	lookupsDesc = prometheus.NewDesc("agentcube_router_cache_lookups_total",
		"Look-ups of sessions: hit, answered from memory; miss, read from the store; "+
			"stale, answered from memory since the store did not answer.", []string{"result"}, nil)
	invalidationsDesc = prometheus.NewDesc("agentcube_router_cache_invalidations_total",
		"Changes of rows that the store has told of, remembered or not.", nil, nil)
	flushesDesc = prometheus.NewDesc("agentcube_router_cache_flushes_total",
		"Times that everything was forgotten, since changes may have been missed.", nil, nil)
	rowsDesc = prometheus.NewDesc("agentcube_router_cache_rows",
		"Sessions that are remembered.", nil, nil)
)

// Describe implements prometheus.Collector.
func (c *Cache) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{lookupsDesc, invalidationsDesc, flushesDesc, rowsDesc} {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (c *Cache) Collect(out chan<- prometheus.Metric) {
	counter := func(d *prometheus.Desc, n *atomic.Uint64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n.Load()), labels...)
	}
	counter(lookupsDesc, &c.counts.hits, "hit")
	counter(lookupsDesc, &c.counts.misses, "miss")
	counter(lookupsDesc, &c.counts.stale, "stale")
	counter(invalidationsDesc, &c.counts.invalidations)
	counter(flushesDesc, &c.counts.flushes)
	out <- prometheus.MustNewConstMetric(rowsDesc, prometheus.GaugeValue, float64(c.Len()))
}
