package api

// SessionList answers GET /v1/sessions.
type SessionList struct {
	// Items are ordered by creation.
	Items []Session `json:"items"`
	// Cursor of the next page. Absent: this is the last one.
	Cursor string `json:"cursor,omitempty"`
}
