// Package api owns the JSON that travels between callers, the router and the
// workload-manager: request and response bodies, headers and error codes.
// Fields of existing installations keep their names and order; ours follow.
//
// It holds no behaviour and imports the standard library only.
package api

import (
	"encoding/json"
	"time"
)

// Headers of the wire.
const (
	HeaderSessionID         = "x-agentcube-session-id"
	HeaderSessionGeneration = "x-agentcube-session-generation"
	// HeaderUserIdentity carries the router's token that names the owner.
	HeaderUserIdentity = "X-AgentCube-User-Identity"
	HeaderRequestID    = "X-Request-Id"
)

// CreateRequest is the body of POST /v1/agent-runtime and
// /v1/code-interpreter.
type CreateRequest struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace"`
	// TTL caps the life, in seconds. Nil: the template's.
	TTL *int64 `json:"ttl,omitempty"`
	// IdleTimeout in seconds. Nil: the template's.
	IdleTimeout *int64 `json:"idleTimeout,omitempty"`
	// Metadata is kept as it is; an object of at most 4 KiB.
	Metadata json.RawMessage `json:"metadata,omitempty"`
}

// EntryPoint is one way into the sandbox.
type EntryPoint struct {
	Path     string `json:"path"`
	Protocol string `json:"protocol"`
	// Endpoint is host:port without a scheme.
	Endpoint string `json:"endpoint"`
}

// CreateResponse answers a create, with status 200.
type CreateResponse struct {
	Kind      string `json:"kind"`
	SessionID string `json:"sessionId"`
	// SandboxID is the UID of the Sandbox, also for a claim.
	SandboxID string `json:"sandboxId"`
	// SandboxName is the name of the object: for a claim, the claim's.
	SandboxName string       `json:"sandboxName"`
	EntryPoints []EntryPoint `json:"entryPoints"`
	OwnerID     string       `json:"ownerId,omitempty"`

	State string `json:"state"`
	// ExpiresAt is absent when the life is unlimited.
	ExpiresAt *time.Time `json:"expiresAt,omitempty"`
	// IdleTimeout in seconds. Absent: never idle.
	IdleTimeout int64 `json:"idleTimeout,omitempty"`
	Generation  int64 `json:"generation"`
}

// DeleteResponse answers a delete.
type DeleteResponse struct {
	Message string `json:"message"`
}

// Status answers the health routes.
type Status struct {
	Status string `json:"status"`
}

// Error is the body of every error of the workload-manager.
type Error struct {
	Message string `json:"message"`
	Code    string `json:"code"`
	// Reason why a session ended that is not found. Absent: unknown, or not
	// the caller's affair.
	Reason    string `json:"reason,omitempty"`
	RequestID string `json:"requestId,omitempty"`
}

// RouterError is the body of every error of the router's own.
type RouterError struct {
	Error string `json:"error"`
	Code  string `json:"code"`
	// Reason is that of Error.
	Reason    string `json:"reason,omitempty"`
	RequestID string `json:"requestId,omitempty"`
}
