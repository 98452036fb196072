package api

// Query parameters of GET /v1/sessions. An empty filter is refused; an empty
// cursor begins.
const (
	ParamNamespace = "namespace"
	// ParamKind and ParamName are those of the workload.
	ParamKind   = "kind"
	ParamName   = "name"
	ParamState  = "state"
	ParamOwner  = "owner"
	ParamLimit  = "limit"
	ParamCursor = "cursor"
)

// Bounds of ParamLimit.
const (
	DefaultListLimit = 100
	MaxListLimit     = 1000
)

// SessionList answers GET /v1/sessions: a page of sessions, by the time of
// creation, then by id.
type SessionList struct {
	// Items may be fewer than the limit, even none, before the end.
	Items []Session `json:"items"`
	// Cursor gives the next page, to the same filters. Absent: there is nothing
	// more.
	Cursor string `json:"cursor,omitempty"`
}
