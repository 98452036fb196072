// Package workload owns the templates that sessions are made from, the custom
// resources AgentRuntime and CodeInterpreter: how one is turned into what a
// session needs (Workload), where it is looked up (Lister), and the reconciler
// that keeps the warm pool of a CodeInterpreter as its template says and
// reports in its status how the pool does (Reconciler).
//
// It does not build or send the objects of agent-sandbox: that is
// pkg/sandbox's. It creates no session and decides nothing about one.
package workload

import (
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/agentcube/agentcube/pkg/sandbox"
	"github.com/agentcube/agentcube/pkg/session"
)

// Lifetimes of a template that names none.
const (
	DefaultIdle = 15 * time.Minute
	DefaultMax  = 8 * time.Hour
)

// PublicKeyEnv names the variable that tells a sandbox the public key of the
// router, as PEM. A sandbox reads it once, at its start.
const PublicKeyEnv = "PICOD_AUTH_PUBLIC_KEY"

// Names of the one container of a CodeInterpreter. They differ because running
// installations have it so: with other names their reconciler and ours would
// recycle a pool back and forth during a roll-out.
const (
	containerDirect = "code-interpreter"
	containerPooled = "codeinterpreter"
)

// Workload is what a session needs of its template.
type Workload struct {
	Ref             session.WorkloadRef
	UID             string
	Generation      int64
	ResourceVersion string
	// Ports are the entry points; a valid template has at least one.
	Ports []session.Port
	// Pod is the template of a direct Sandbox.
	Pod sandbox.PodTemplate
	// Warm: the sandboxes come from a pool, by a SandboxClaim.
	Warm bool
	// PoolSize is how many sandboxes the pool keeps ready. Zero: no pool.
	PoolSize int32
	// PoolMade: the status says that the pool and its template stand, so that
	// a claim can be sent.
	PoolMade bool
	// AuthMode is session.AuthModePicoD or session.AuthModeNone. Empty for an
	// AgentRuntime, which has none.
	AuthMode string
	// Idle ends a session that nobody used for so long.
	Idle time.Duration
	// Max bounds the life of a session. Zero: unlimited.
	Max time.Duration
}

// WithPublicKey returns w with PublicKeyEnv set in every container, in place
// of the value that the template may give it. w itself is not changed.
func (w Workload) WithPublicKey(pem string) Workload {
	w.Pod = copyPod(w.Pod)
	for _, container := range containers(w.Pod) {
		env, _ := container["env"].([]any)
		container["env"] = setEnv(env, PublicKeyEnv, pem)
	}
	return w
}

// WithRuntimeClass returns w with the runtime class name, unless the template
// names one itself. w itself is not changed.
func (w Workload) WithRuntimeClass(name string) Workload {
	if named, _ := w.Pod.Spec["runtimeClassName"].(string); named != "" || name == "" {
		return w
	}
	w.Pod = copyPod(w.Pod)
	w.Pod.Spec["runtimeClassName"] = name
	return w
}

// pooled returns the pod template of the pool's sandboxes.
func (w Workload) pooled() sandbox.PodTemplate {
	pod := copyPod(w.Pod)
	for _, container := range containers(pod) {
		container["name"] = containerPooled
	}
	return pod
}

// clone shares nothing mutable with w.
func (w Workload) clone() Workload {
	w.Ports = append([]session.Port(nil), w.Ports...)
	w.Pod = copyPod(w.Pod)
	return w
}

func copyPod(pod sandbox.PodTemplate) sandbox.PodTemplate {
	spec := runtime.DeepCopyJSON(pod.Spec)
	if spec == nil {
		spec = map[string]any{}
	}
	return sandbox.PodTemplate{
		Labels:      maps.Clone(pod.Labels),
		Annotations: maps.Clone(pod.Annotations),
		Spec:        spec,
	}
}

// containers are those of the pod, as the maps that stand in it.
func containers(pod sandbox.PodTemplate) []map[string]any {
	list, _ := pod.Spec["containers"].([]any)
	found := make([]map[string]any, 0, len(list))
	for _, item := range list {
		if container, ok := item.(map[string]any); ok {
			found = append(found, container)
		}
	}
	return found
}

// setEnv gives the variable the value, at its place if env has it. A variable
// that stands there twice is left once: the last one would win.
func setEnv(env []any, name, value string) []any {
	entry := map[string]any{"name": name, "value": value}
	result := make([]any, 0, len(env)+1)
	placed := false
	for _, item := range env {
		if variable, ok := item.(map[string]any); !ok || variable["name"] != name {
			result = append(result, item)
			continue
		}
		if !placed {
			result = append(result, entry)
			placed = true
		}
	}
	if !placed {
		result = append(result, entry)
	}
	return result
}
