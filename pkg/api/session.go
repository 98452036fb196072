package api

import (
	"encoding/json"
	"time"
)

// States of a session. A state of a newer build is not among them.
const (
	StateCreating  = "creating"
	StateReady     = "ready"
	StateNotReady  = "not-ready"
	StateSuspended = "suspended"
	StateDeleting  = "deleting"
)

// Why a session ended.
const (
	EndedIdle             = "idle"
	EndedExpired          = "expired"
	EndedDeleted          = "deleted"
	EndedDeletedInCluster = "deleted_in_cluster"
	EndedFailed           = "failed"
)

// Session answers GET and PATCH of /v1/sessions/{id}, and is an item of a
// list. What is not known, as of sessions of existing installations, is absent.
type Session struct {
	SessionID string `json:"sessionId"`
	State     string `json:"state"`
	// Reason and Message say why the session is not ready, or why it is being
	// deleted.
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	// Workload is the template that the session was made from.
	Workload WorkloadRef `json:"workload,omitzero"`
	// Object carries the session: a Sandbox or a SandboxClaim.
	Object ObjectRef `json:"object"`
	// Sandbox serves the session: for a claim, the adopted one.
	Sandbox SandboxRef `json:"sandbox,omitzero"`
	// EntryPoints is empty while the sandbox has no address.
	EntryPoints []EntryPoint    `json:"entryPoints"`
	OwnerID     string          `json:"ownerId,omitempty"`
	Metadata    json.RawMessage `json:"metadata,omitempty"`
	CreatedAt   time.Time       `json:"createdAt,omitzero"`
	// ExpiresAt is absent when the life is unlimited.
	ExpiresAt time.Time `json:"expiresAt,omitzero"`
	// IdleTimeout in seconds. Absent: never idle.
	IdleTimeout int64 `json:"idleTimeout,omitempty"`
	// LastActivityAt is in full seconds.
	LastActivityAt time.Time `json:"lastActivityAt,omitzero"`
	// IdleDeadline is when the session ends if nothing more happens. Absent:
	// never.
	IdleDeadline time.Time `json:"idleDeadline,omitzero"`
	Generation   int64     `json:"generation"`
}

// WorkloadRef names an AgentRuntime or a CodeInterpreter.
type WorkloadRef struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
}

// ObjectRef names a Sandbox or a SandboxClaim.
type ObjectRef struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// UID is absent until the object was made.
	UID string `json:"uid,omitempty"`
}

// SandboxRef names a Sandbox.
type SandboxRef struct {
	Name string `json:"name,omitempty"`
	UID  string `json:"uid,omitempty"`
}

// PatchRequest is the body of PATCH /v1/sessions/{id}. What is nil stays as it
// is.
type PatchRequest struct {
	// TTL is the rest of the life, in seconds from now, at most the template's.
	TTL *int64 `json:"ttl,omitempty"`
	// IdleTimeout in seconds.
	IdleTimeout *int64 `json:"idleTimeout,omitempty"`
}
