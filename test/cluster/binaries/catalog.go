// Package binaries builds the programs of the development cluster from their
// own Go modules (test/cluster/modules) and keeps them in a cache folder, so
// that a fresh checkout of the same versions does not build them again.
//
// It does not run them. Versions live in the go.mod of each module alone.
package binaries

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Binary is a program that can be built.
type Binary struct {
	// Name of the executable.
	Name string
	// Module is the folder below test/cluster/modules, Package the import path
	// of the command in it.
	Module, Package string
	// FirstTime tells people how long the first build takes on two cores.
	FirstTime string
	// CRDs is the Go module whose k8s/crds folder is kept beside the binary; ""
	// for none.
	CRDs string
}

// The programs of the control plane.
var (
	Etcd = Binary{
		Name: "etcd", Module: "kubernetes", Package: "go.etcd.io/etcd/server/v3", FirstTime: "about a minute",
	}
	APIServer = Binary{
		Name: "kube-apiserver", Module: "kubernetes", Package: "k8s.io/kubernetes/cmd/kube-apiserver",
		FirstTime: "about six minutes",
	}
	ControllerManager = Binary{
		Name: "kube-controller-manager", Module: "kubernetes", Package: "k8s.io/kubernetes/cmd/kube-controller-manager",
		FirstTime: "about two minutes",
	}
	Kubectl = Binary{
		Name: "kubectl", Module: "kubernetes", Package: "k8s.io/kubernetes/cmd/kubectl", FirstTime: "about half a minute",
	}
)

const (
	sandboxModule = "sigs.k8s.io/agent-sandbox"
	sandboxPrefix = "agent-sandbox-"
)

// AgentSandbox is the agent-sandbox controller of a version such as "v0.5.6".
func AgentSandbox(version string) Binary {
	return Binary{
		Name:      "agent-sandbox-controller",
		Module:    sandboxPrefix + version,
		Package:   sandboxModule + "/cmd/agent-sandbox-controller",
		FirstTime: "under a minute",
		CRDs:      sandboxModule,
	}
}

// AgentSandboxVersions lists the versions of agent-sandbox that can be built,
// newest first by name.
func (b *Builder) AgentSandboxVersions() ([]string, error) {
	entries, err := os.ReadDir(filepath.Join(b.source, "modules"))
	if err != nil {
		return nil, fmt.Errorf("listing the versions of agent-sandbox: %w", err)
	}
	var versions []string
	for _, e := range entries {
		if version, ok := strings.CutPrefix(e.Name(), sandboxPrefix); ok {
			versions = append(versions, version)
		}
	}
	slices.Sort(versions)
	slices.Reverse(versions)
	return versions, nil
}
