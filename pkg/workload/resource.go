package workload

import (
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/agentcube/agentcube/pkg/session"
)

// groupVersion of the templates.
var groupVersion = schema.GroupVersion{Group: "runtime.agentcube.volcano.sh", Version: "v1alpha1"}

// resources are the templates' plurals by kind.
var resources = map[string]schema.GroupVersionResource{
	session.KindAgentRuntime:    groupVersion.WithResource("agentruntimes"),
	session.KindCodeInterpreter: groupVersion.WithResource("codeinterpreters"),
}
