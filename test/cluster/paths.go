package cluster

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/agentcube/agentcube/test/cluster/binaries"
)

// paths of the programs, and of the definitions that agent-sandbox needs.
type paths struct {
	etcd, apiServer, controllerManager, controller string
	sandboxCRDs                                    string
}

// findPaths builds what is not in the cache, one after the other: the go command
// uses all cores by itself.
func findPaths(ctx context.Context, builder *binaries.Builder, sandboxVersion string) (paths, error) {
	versions, err := builder.AgentSandboxVersions()
	if err != nil {
		return paths{}, err
	}
	if !slices.Contains(versions, sandboxVersion) {
		return paths{}, fmt.Errorf("agent-sandbox %q is not one of %s", sandboxVersion, strings.Join(versions, ", "))
	}
	var p paths
	controller := binaries.AgentSandbox(sandboxVersion)
	for _, want := range []struct {
		binary binaries.Binary
		path   *string
	}{
		{binaries.Etcd, &p.etcd},
		{binaries.APIServer, &p.apiServer},
		{binaries.ControllerManager, &p.controllerManager},
		{controller, &p.controller},
	} {
		if *want.path, err = builder.Path(ctx, want.binary); err != nil {
			return paths{}, err
		}
	}
	p.sandboxCRDs, err = builder.CRDs(ctx, controller)
	return p, err
}
