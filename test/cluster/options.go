package cluster

import (
	"cmp"
	"io"
	"os"
	"time"

	"github.com/agentcube/agentcube/test/cluster/node"
)

// DefaultAgentSandbox is the version of agent-sandbox that a cluster serves
// unless told otherwise.
const DefaultAgentSandbox = "v0.5.6"

// CacheVariable is the environment variable that names the folder for built
// binaries where Options.CacheDir does not.
const CacheVariable = "AGENTCUBE_CACHE"

// Options of a cluster. The zero value is a good cluster for a test.
type Options struct {
	// AgentSandbox is the version of agent-sandbox, "v0.5.6" (the default) or
	// "v0.4.6": one of test/cluster/modules/agent-sandbox-*.
	AgentSandbox string
	// Dir takes certificates, kubeconfigs, logs and the data of etcd. A folder
	// that is given stays after Stop, and a later start on it finds the same
	// objects. By default it is a new temporary folder, removed by Stop.
	Dir string
	// CacheDir takes the built binaries; the folder named by AGENTCUBE_CACHE or
	// else agentcube in the user's cache folder by default.
	CacheDir string
	// CRDs are files, or folders with files, of custom resource definitions that
	// are installed before the controllers start. The garbage collector looks for
	// new resources only every 30 s: owners of a kind that is installed later
	// cascade that much later.
	CRDs []string
	// BootTime is how long a pod takes from being bound to being Ready; 300 ms by
	// default.
	BootTime time.Duration
	// AtEnd is what a pod's address does after the pod; it refuses by default.
	AtEnd node.End
	// Log takes progress lines; nil for none.
	Log io.Writer
}

// withDefaults fills what is not set. It is the only reader of the environment
// in this package.
func (o Options) withDefaults() Options {
	o.AgentSandbox = cmp.Or(o.AgentSandbox, DefaultAgentSandbox)
	o.CacheDir = cmp.Or(o.CacheDir, os.Getenv(CacheVariable))
	if o.Log == nil {
		o.Log = io.Discard
	}
	return o
}
