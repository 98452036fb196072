package store

import (
	"fmt"
	"strconv"
	"time"

	"github.com/agentcube/agentcube/pkg/session"
)

// A member of a list is the time of creation and the id, so that the order of
// members of one score, byte by byte, is the order of creation: two sessions of
// one moment need no care, and ZRANGEBYLEX goes on after any place, whether its
// session is still there or not.
//
//	0f0a3f4c3d         seconds since the year 0, hex, 10 digits
//	1878b6af           nanoseconds, hex, 8 digits
//	00000000-0000-…    the id
const (
	secondsDigits = 10
	nanosDigits   = 8
	timeDigits    = secondsDigits + nanosDigits
	// yearZero is the first second that a row can hold, as unix seconds.
	yearZero = -62167219200
)

// member of a place.
func member(p session.Position) string {
	return fmt.Sprintf("%0*x%0*x%s", secondsDigits, p.CreatedAt.Unix()-yearZero, nanosDigits, p.CreatedAt.Nanosecond(), p.ID)
}

// position is the place of a member, as a script returns it. ok is false for
// what is none.
func position(answer any) (p session.Position, ok bool) {
	text, ok := answer.(string)
	if !ok || len(text) != timeDigits+session.IDLength || !session.ValidID(text[timeDigits:]) {
		return p, false
	}
	seconds, err1 := strconv.ParseInt(text[:secondsDigits], 16, 64)
	nanos, err2 := strconv.ParseInt(text[secondsDigits:timeDigits], 16, 64)
	if err1 != nil || err2 != nil || nanos >= int64(time.Second) {
		return p, false
	}
	p = session.Position{CreatedAt: time.Unix(seconds+yearZero, nanos).UTC(), ID: text[timeDigits:]}
	return p, member(p) == text // a sign, or upper case, is another member
}
