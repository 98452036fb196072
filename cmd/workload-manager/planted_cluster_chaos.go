//go:build chaos

package main

import (
	"context"
	"time"

	"github.com/agentcube/agentcube/pkg/sandbox"
	"github.com/agentcube/agentcube/pkg/session"
)

// plantedCluster is the client with the planted bug, if that is one of its own.
type plantedCluster struct{ *crashingCluster }

// window is how long a create waits before it calls the API server where the
// planted bug needs something to happen just then.
const window = 2 * time.Second

func (p *plantedCluster) Create(ctx context.Context, spec sandbox.Spec) (sandbox.Object, error) {
	if planted == bugCommitWithoutToken {
		time.Sleep(window)
	}
	o, err := p.crashingCluster.Create(ctx, spec)
	if planted == bugRowAfterObject && err == nil {
		unwritten.write(ctx, spec.Object)
	}
	return o, err
}

func (p *plantedCluster) Delete(ctx context.Context, ref session.ObjectRef) error {
	if _, ok := spared.Load(objectKey(ref)); ok {
		return nil
	}
	if planted == bugDeleteWithoutUID {
		ref.UID = ""
	}
	return p.crashingCluster.Delete(ctx, ref)
}

func (p *plantedCluster) SetLifetimes(ctx context.Context, ref session.ObjectRef, version string, l sandbox.Lifetimes) error {
	if planted == bugChangeForgets {
		return nil
	}
	return p.crashingCluster.SetLifetimes(ctx, ref, version, l)
}

// remover is the part of the store that a purge needs.
type remover interface {
	Remove(ctx context.Context, id string, guard func(session.Session) error) error
}

// chaosEvents wraps the handler of what happens in the cluster.
func chaosEvents(rows remover, handle func(sandbox.Event)) func(sandbox.Event) {
	return func(e sandbox.Event) {
		gone := e.Deleted || e.Object.Deleting
		if planted == bugPurgeWithoutUID && gone {
			go func() {
				_ = rows.Remove(context.Background(), e.Object.SessionID, func(session.Session) error { return nil })
			}()
		}
		if planted == bugIgnoresDeletions && gone {
			return
		}
		handle(e)
	}
}
