package cluster

import (
	"context"
	"fmt"

	"k8s.io/utils/clock"

	"github.com/agentcube/agentcube/test/cluster/binaries"
)

// Build builds whatever a cluster needs that is not in the cache, for every
// version of agent-sandbox, and kubectl where none is installed. Afterwards every
// start is a fast one. Of the options it reads CacheDir and Log.
func Build(ctx context.Context, options Options) error {
	options = options.withDefaults()
	builder, err := binaries.New(ctx, clock.RealClock{}, options.CacheDir, options.Log)
	if err != nil {
		return err
	}
	versions, err := builder.AgentSandboxVersions()
	if err != nil {
		return err
	}
	for _, version := range versions {
		if _, err := findPaths(ctx, builder, version); err != nil {
			return err
		}
	}
	if _, err := builder.Kubectl(ctx); err != nil {
		return fmt.Errorf("finding kubectl: %w", err)
	}
	return nil
}
