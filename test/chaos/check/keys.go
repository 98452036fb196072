package check

import (
	"slices"
	"time"
)

// KeyPrefix is that of the records of idempotency keys.
const KeyPrefix = "agentcube:key:"

// keyLife is how long a key outlives its session.
const keyLife = time.Hour

// The kinds of violations that are about keys.
const (
	KeyTwice      = "two sessions of one idempotency key"
	KeyLost       = "row whose idempotency key is not its own"
	KeyEnds       = "idempotency key that ends before its session"
	KeyForever    = "idempotency key of a session without a row has no end"
	KeyUnreadable = "record of an idempotency key unreadable"
)

// KeyRecord is that of an idempotency key.
type KeyRecord struct {
	// Session that it names. Empty: it cannot be read.
	Session string
	// Left is how long it is there. Zero: it has no end.
	Left time.Duration
}

// Idempotency is what a row says of its key.
type Idempotency struct {
	Key string `json:"key"`
}

// failed reports whether the create of the row has failed, which frees its key.
func (r Row) failed() bool { return r.Status == "deleting" && r.Generation == 0 }

// keys: a key names one session, as long as there is one; the record of a session
// that has ended is bounded.
func (c *checker) keys() {
	sessions := map[string][]string{}
	for id, row := range c.Store.Rows {
		name := row.Idempotency.Key
		if name == "" || row.failed() {
			continue
		}
		sessions[name] = append(sessions[name], id)
		switch key, ok := c.Store.Keys[name]; {
		case !ok:
			c.report(KeyLost, id, "the key is free")
		case key.Session != id:
			c.report(KeyLost, id, "the key names %s", key.Session)
		case key.Left > 0:
			c.report(KeyEnds, id, "in %s", key.Left)
		}
	}
	for _, ids := range sessions {
		if slices.Sort(ids); len(ids) > 1 {
			c.report(KeyTwice, ids[0], "and %v", ids[1:])
		}
	}
	for name, key := range c.Store.Keys {
		_, there := c.Store.Rows[key.Session]
		switch {
		case key.Session == "":
			c.final(KeyUnreadable, "", "%s", name)
		case !there && c.Store.Unreadable[key.Session] == "" && (key.Left == 0 || key.Left > keyLife):
			c.report(KeyForever, key.Session, "%s has %s left", name, key.Left)
		}
	}
}
