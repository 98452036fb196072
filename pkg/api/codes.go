package api

// Error codes of the workload-manager, stable and machine-readable.
const (
	CodeInvalidRequest       = "INVALID_REQUEST"
	CodeNotFound             = "NOT_FOUND"
	CodeMethodNotAllowed     = "METHOD_NOT_ALLOWED"
	CodeTemplateNotFound     = "TEMPLATE_NOT_FOUND"
	CodeSessionNotFound      = "SESSION_NOT_FOUND"
	CodeUnauthenticated      = "UNAUTHENTICATED"
	CodeForbidden            = "FORBIDDEN"
	CodeQuotaExceeded        = "QUOTA_EXCEEDED"
	CodeRejectedByCluster    = "REJECTED_BY_CLUSTER"
	CodeSandboxFailed        = "SANDBOX_FAILED"
	CodeCreateTimeout        = "CREATE_TIMEOUT"
	CodeSandboxUnreachable   = "SANDBOX_UNREACHABLE"
	CodeSessionDeleted       = "SESSION_DELETED"
	CodeSessionEnded         = "SESSION_ENDED"
	CodeIdempotencyKeyReused = "IDEMPOTENCY_KEY_REUSED"
	CodeNotReady             = "NOT_READY"
	CodeStoreUnavailable     = "STORE_UNAVAILABLE"
	CodeClusterUnavailable   = "CLUSTER_UNAVAILABLE"
	CodeClientClosedRequest  = "CLIENT_CLOSED_REQUEST"
	CodeInternal             = "INTERNAL"
)

// Error codes that only the router uses.
const (
	CodeSessionTargetMismatch      = "SESSION_TARGET_MISMATCH"
	CodeUnauthorized               = "UNAUTHORIZED"
	CodeSandboxNotReady            = "SANDBOX_NOT_READY"
	CodeSessionSuspended           = "SESSION_SUSPENDED"
	CodeSandboxTimeout             = "SANDBOX_TIMEOUT"
	CodeServerOverloaded           = "SERVER_OVERLOADED"
	CodeWorkloadManagerUnavailable = "WORKLOAD_MANAGER_UNAVAILABLE"
	CodeJWTSigningFailed           = "JWT_SIGNING_FAILED"
)
