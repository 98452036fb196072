package config

import (
	"errors"
	"time"
)

// ParseWorkloadManager reads the settings of the workload-manager from its
// arguments (without the program's name) and the environment. The error holds
// every problem at once, those of Validate included, or is *HelpError or
// ErrVersion.
func ParseWorkloadManager(args []string, getenv func(string) string) (WorkloadManager, error) {
	var c WorkloadManager
	p := newParser("workload-manager", "workload-manager creates and deletes sessions and keeps the store true to the cluster.")
	raw := addCommon(p, &c.Common)
	f := p.flags
	f.StringVar(&c.TLS.CA, "tls-ca", "", "require client certificates of this authority, a PEM `file`")
	f.StringVar(&c.RuntimeClassName, "runtime-class-name", "", "runtime class for templates that name none")
	f.BoolVar(&c.EnableAuth, "enable-auth", false, "require a service account token and act with it")
	f.DurationVar(&c.CreateTimeout, "create-timeout", 110*time.Second, "bound on a create, its probe included")
	f.DurationVar(&c.ProbeTimeout, "probe-timeout", 15*time.Second, "bound on the wait for entry points to listen")
	f.DurationVar(&c.CollectInterval, "collect-interval", 15*time.Second, "pause between two passes of the collector")
	f.DurationVar(&c.UndoTimeout, "undo-timeout", 30*time.Second, "bound on the undo of a create")
	f.DurationVar(&c.DeleteTimeout, "delete-timeout", 30*time.Second, "bound on a deletion")
	f.DurationVar(&c.UnknownTimeout, "unknown-timeout", 90*time.Second, "how long the API server may still carry out a create whose answer was lost")
	f.DurationVar(&c.OutagePause, "outage-pause", 30*time.Second, "how long nobody is taken for idle after the store was out of reach")
	f.DurationVar(&c.ResyncInterval, "resync-interval", 5*time.Minute, "pause between two comparisons of the store with the cluster")
	f.DurationVar(&c.ResyncGrace, "resync-grace", 30*time.Second, "how long an object must be without a session before it is deleted")
	f.BoolVar(&c.AdoptUnmarked, "adopt-unmarked", false,
		"delete objects without a session that bear no installation's id too; only where the cluster has one installation")
	f.Float32Var(&c.ClusterQPS, "cluster-qps", 300, "calls to the API server per second")
	f.IntVar(&c.ClusterBurst, "cluster-burst", 600, "calls to the API server in a burst")
	p.env("tls-ca", "runtime-class-name", "enable-auth", "create-timeout", "probe-timeout", "collect-interval",
		"undo-timeout", "delete-timeout", "unknown-timeout", "outage-pause", "resync-interval", "resync-grace",
		"adopt-unmarked", "cluster-qps", "cluster-burst")

	if err := p.parse(args, getenv); err != nil {
		return WorkloadManager{}, err
	}
	raw.resolve()
	raw.warnSPIFFE(c.TLS.CA != "")
	return c, errors.Join(append(p.problems, c.Validate())...)
}

// Validate returns every problem at once, each with the option's name.
func (c WorkloadManager) Validate() error {
	v := &checks{}
	v.common(c.Common)
	v.positive("create-timeout", c.CreateTimeout)
	v.positive("probe-timeout", c.ProbeTimeout)
	v.require(c.ProbeTimeout <= c.CreateTimeout, "probe-timeout", "longer than --create-timeout, which includes it")
	v.positive("collect-interval", c.CollectInterval)
	v.positive("undo-timeout", c.UndoTimeout)
	v.positive("delete-timeout", c.DeleteTimeout)
	v.positive("unknown-timeout", c.UnknownTimeout)
	v.notNegative("outage-pause", c.OutagePause)
	v.positive("resync-interval", c.ResyncInterval)
	v.positive("resync-grace", c.ResyncGrace)
	v.require(c.ClusterQPS > 0, "cluster-qps", "must be more than 0")
	v.require(c.ClusterBurst > 0, "cluster-burst", "must be more than 0")
	notYet(v, c)
	return v.err()
}
