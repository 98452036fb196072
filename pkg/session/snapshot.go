package session

import "time"

// Snapshot is a session as it was at one moment.
type Snapshot struct {
	Session
	// LastActivity is in full seconds. Zero: unknown.
	LastActivity time.Time
	// Now is the store's clock at that moment.
	Now time.Time
}
