//go:build chaos

package main

import (
	"context"

	"github.com/agentcube/agentcube/pkg/sandbox"
	"github.com/agentcube/agentcube/pkg/session"
)

// chaosCluster wraps the client of the objects that carry sessions.
func chaosCluster(c *sandbox.Client) *plantedCluster {
	return &plantedCluster{crashingCluster: &crashingCluster{c}}
}

// crashingCluster is the client with a point around each call.
type crashingCluster struct{ *sandbox.Client }

func (c *crashingCluster) Create(ctx context.Context, spec sandbox.Spec) (sandbox.Object, error) {
	return around("cluster.Create", func() (sandbox.Object, error) { return c.Client.Create(ctx, spec) })
}

func (c *crashingCluster) Get(ctx context.Context, ref session.ObjectRef) (sandbox.Object, error) {
	return around("cluster.Get", func() (sandbox.Object, error) { return c.Client.Get(ctx, ref) })
}

func (c *crashingCluster) Delete(ctx context.Context, ref session.ObjectRef) error {
	return aroundErr("cluster.Delete", func() error { return c.Client.Delete(ctx, ref) })
}

func (c *crashingCluster) SandboxUID(ctx context.Context, namespace, name string) (string, error) {
	return around("cluster.SandboxUID", func() (string, error) { return c.Client.SandboxUID(ctx, namespace, name) })
}

func (c *crashingCluster) SetSessionLabel(ctx context.Context, ref session.ObjectRef, sessionID string) error {
	return aroundErr("cluster.SetSessionLabel", func() error { return c.Client.SetSessionLabel(ctx, ref, sessionID) })
}

func (c *crashingCluster) SetLifetimes(ctx context.Context, ref session.ObjectRef, version string, l sandbox.Lifetimes) error {
	return aroundErr("cluster.SetLifetimes", func() error { return c.Client.SetLifetimes(ctx, ref, version, l) })
}
