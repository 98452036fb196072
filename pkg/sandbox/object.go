// Package sandbox owns everything that knows agent-sandbox and client-go:
// which API version a cluster serves, how the objects of a session are built
// and read, the client that creates and deletes them, and the informers that
// follow them.
//
// What leaves it is small plain values; no unstructured map does, except the
// pod template that passes through untouched. It does not decide what a
// session becomes: that is the workload-manager's.
package sandbox

import (
	"time"

	"github.com/agentcube/agentcube/pkg/session"
)

// Labels and annotations of the objects that carry a session.
const (
	LabelSessionID = "runtime.agentcube.io/session-id"
	// LabelWorkloadName bears WorkloadLabel of the workload's name.
	LabelWorkloadName = "runtime.agentcube.io/workload-name"
	LabelSandboxName  = "runtime.agentcube.io/sandbox-name"
	LabelManagedBy    = "managed-by"
	LabelInstallation = "runtime.agentcube.io/installation"
	// LabelOwnerHash bears OwnerHash, since a label value could not bear the
	// owner itself; AnnotationOwner does.
	LabelOwnerHash  = "agentcube.io/owner-hash"
	AnnotationOwner = "agentcube.io/owner"
	// AnnotationIdle is a Go duration.
	AnnotationIdle = "runtime.agentcube.io/idle-timeout"
	// ManagedByAgentCube is the value of LabelManagedBy.
	ManagedByAgentCube = "agentcube-workload-manager"
)

// Spec is what is needed to build the object that carries a session.
type Spec struct {
	// Object names it; the UID is empty.
	Object       session.ObjectRef
	SessionID    string
	Workload     session.WorkloadRef
	Installation string
	OwnerID      string
	// IdleTimeout is told to the operator by an annotation. Zero: none.
	IdleTimeout time.Duration
	// ShutdownTime ends the object even when no workload-manager lives. Zero:
	// never.
	ShutdownTime time.Time
	// Pod is the template of a direct Sandbox. Not used for a claim.
	Pod PodTemplate
	// WorkloadUID makes the object be owned by its workload. Set for claims.
	WorkloadUID string
}

// PodTemplate passes through as it is: a field that this build does not know
// must reach the sandbox unharmed.
type PodTemplate struct {
	Labels, Annotations map[string]string
	// Spec is a core/v1 PodSpec as JSON data.
	Spec map[string]any
}

// Object is what is read of a Sandbox or SandboxClaim.
type Object struct {
	Ref       session.ObjectRef
	SessionID string
	// Workload is WorkloadLabel of the workload's name.
	Workload        string
	Installation    string
	ResourceVersion string
	CreatedAt       time.Time
	// Deleting: a deletionTimestamp is set.
	Deleting bool
	// Ready: the Ready condition is true and nobody suspended it. An address
	// is a different matter.
	Ready bool
	// Suspended: its pod is, or is about to be, gone by somebody's wish.
	Suspended bool
	// Outdated: the controller has not acted on the latest change of the
	// Sandbox's spec, so that the status may tell of a pod that is about to go.
	// A claim does not tell; its Sandbox does.
	Outdated bool
	// Failure is set when the object will never become ready.
	Failure *Failure
	// Reason and Message of the Ready condition.
	Reason, Message string
	// Addresses of the pod. Empty: none at the moment.
	Addresses []string
	// SandboxName is the Sandbox's own name: for a claim, that of the adopted
	// one, empty while it has none.
	SandboxName string
	// Assigned is the Sandbox that a claim's controller has picked and is about
	// to adopt; SandboxName follows once that is done.
	Assigned string
	// SandboxUID is empty for a claim: its status does not tell.
	SandboxUID string
}

// Failure is a condition that cannot heal.
type Failure struct {
	Reason, Message string
	// Quota: a ResourceQuota or a limit stands in the way.
	Quota bool
	// Ended: it served, and its pod or its time is over; not a failed start.
	Ended bool
}
