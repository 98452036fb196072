package session

import "time"

// Row is what a scan tells of a row: enough to find its object, and no more.
type Row struct {
	ID        string
	Object    ObjectRef
	State     State
	CreatedAt time.Time
	// Unreadable: there is a row, but only its id is known.
	Unreadable bool
}

// RowOf is the session as a scan tells of it.
func RowOf(s Session) Row {
	return Row{ID: s.ID, Object: s.Object, State: s.State, CreatedAt: s.CreatedAt}
}
