package main

import (
	"github.com/agentcube/agentcube/pkg/sandbox"
	"github.com/agentcube/agentcube/pkg/workloadmanager/reconcile"
	"github.com/agentcube/agentcube/pkg/workloadmanager/resync"
)

// recordName is the ConfigMap that holds the installation's id and what the
// resync holds back.
const recordName = "agentcube-workload-manager"

func (a *app) newRecord() *sandbox.Record {
	return sandbox.NewRecord(a.clients.kube.CoreV1(), a.cfg.SecretNamespace(), recordName,
		sandbox.ClientOptions{CallTimeout: a.cfg.ClusterTimeout})
}

func (a *app) newResyncer(rows resync.Store, objects resync.Objects, served sandbox.API, reconciler *reconcile.Reconciler, events *sandbox.Events, installation string) *resync.Resyncer {
	lister := sandbox.NewLister(a.clients.metadata, served, sandbox.ClientOptions{CallTimeout: a.cfg.ClusterTimeout})
	r := resync.New(a.clock, a.log, rows, objects, lister, a.newRecord(), reconciler, a.metrics.resync, resync.Options{
		Installation: installation, Namespace: a.cfg.SecretNamespace(), Name: recordName,
		Interval: a.cfg.ResyncInterval, Grace: a.cfg.ResyncGrace, AdoptUnmarked: a.cfg.AdoptUnmarked,
		Events: events,
	})
	a.health.Detail("resync", r.Held)
	return r
}
