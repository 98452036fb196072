package session

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"time"
)

// EndingKept is how long it is known why a session ended.
const EndingKept = time.Hour

// reasons are all that a session can end for.
var reasons = []string{ReasonIdle, ReasonExpired, ReasonDeleted, ReasonDeletedInCluster, ReasonFailed}

// Ending is what is kept of a session that is gone. It is small whatever the
// session was, since many may end in an hour.
type Ending struct {
	// Reason is one of the reasons above.
	Reason string
	// OwnerHash tells the owner without keeping the name. Empty: there was none.
	OwnerHash string
}

// EndingOf is what is to be kept of the session when its row goes: a row that
// nobody has marked goes because its object did.
func EndingOf(s Session) Ending {
	e := Ending{Reason: ReasonDeletedInCluster, OwnerHash: ownerHash(s.OwnerID)}
	if s.State != StateDeleting {
		return e
	}
	if e.Reason = s.Reason; !slices.Contains(reasons, e.Reason) {
		e.Reason = ReasonDeleted
	}
	return e
}

// VisibleTo reports whether the caller may know the reason: the owner may, and
// so may a caller who does not say who it is, where nobody has to.
func (e Ending) VisibleTo(caller string) bool {
	return caller == "" || e.OwnerHash == "" || e.OwnerHash == ownerHash(caller)
}

func ownerHash(owner string) string {
	if owner == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(owner))
	return hex.EncodeToString(sum[:16])
}
