package main

import (
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"

	"github.com/agentcube/agentcube/pkg/httpserver"
	"github.com/agentcube/agentcube/pkg/store"
	"github.com/agentcube/agentcube/pkg/workloadmanager/gc"
	"github.com/agentcube/agentcube/pkg/workloadmanager/provision"
	"github.com/agentcube/agentcube/pkg/workloadmanager/reconcile"
	"github.com/agentcube/agentcube/pkg/workloadmanager/resync"
)

// metrics of the parts of the program. They are registered at the start, so that
// the page shows all of them before anything has happened.
type metrics struct {
	requests  *httpserver.Requests
	store     *store.Metrics
	provision *provision.Metrics
	reconcile *reconcile.Metrics
	gc        *gc.Metrics
	resync    *resync.Metrics
}

func newMetrics(clk clock.PassiveClock, registry prometheus.Registerer) metrics {
	return metrics{
		requests:  httpserver.NewRequests(registry),
		store:     store.NewMetrics(clk, registry),
		provision: provision.NewMetrics(registry),
		reconcile: reconcile.NewMetrics(registry),
		gc:        gc.NewMetrics(registry),
		resync:    resync.NewMetrics(registry),
	}
}
