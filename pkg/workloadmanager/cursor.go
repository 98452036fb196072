package workloadmanager

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/fnv"
	"strings"
	"time"

	"github.com/agentcube/agentcube/pkg/session"
)

// A cursor is, in base64url: its version, the time of creation in seconds since
// the year 0 and nanoseconds, the id, and a hash of the filters that it belongs
// to. Callers are told nothing of that, so a later version may be another.
const (
	cursorVersion = 1
	cursorLength  = 1 + 8 + 4 + 16 + 4
	// The first and the last second that a time of a row can have, as unix
	// seconds: those of the years 0 to 9999.
	firstSecond = -62167219200
	lastSecond  = 253402300799
)

var (
	errCursor        = errors.New("not made by a list")
	errCursorFilters = errors.New("made by a list with other filters")
	cursorEncoding   = base64.RawURLEncoding.Strict()
)

// encodeCursor makes the cursor of a place in what a query lists.
func encodeCursor(q session.Query, at session.Position) string {
	b := make([]byte, 0, cursorLength)
	b = append(b, cursorVersion)
	b = binary.BigEndian.AppendUint64(b, uint64(at.CreatedAt.Unix()-firstSecond)) //nolint:gosec // never negative in a row
	b = binary.BigEndian.AppendUint32(b, uint32(at.CreatedAt.Nanosecond()))       //nolint:gosec // below 1e9
	id, _ := hex.DecodeString(strings.ReplaceAll(at.ID, "-", ""))                 // of a row, so a UUID
	b = append(b, id...)
	b = binary.BigEndian.AppendUint32(b, filtersOf(q))
	return cursorEncoding.EncodeToString(b)
}

// decodeCursor returns the place that a cursor of the same query means. Each
// place has one cursor.
func decodeCursor(q session.Query, cursor string) (session.Position, error) {
	if len(cursor) != cursorEncoding.EncodedLen(cursorLength) { // the decoder passes over line breaks
		return session.Position{}, errCursor
	}
	b, err := cursorEncoding.DecodeString(cursor)
	if err != nil || len(b) != cursorLength || b[0] != cursorVersion {
		return session.Position{}, errCursor
	}
	seconds, nanos := binary.BigEndian.Uint64(b[1:]), binary.BigEndian.Uint32(b[9:])
	if seconds > lastSecond-firstSecond || nanos >= uint32(time.Second) {
		return session.Position{}, errCursor
	}
	if binary.BigEndian.Uint32(b[29:]) != filtersOf(q) {
		return session.Position{}, errCursorFilters
	}
	return session.Position{
		CreatedAt: time.Unix(int64(seconds)+firstSecond, int64(nanos)).UTC(), //nolint:gosec // checked above
		ID:        fmt.Sprintf("%x-%x-%x-%x-%x", b[13:17], b[17:19], b[19:21], b[21:23], b[23:29]),
	}, nil
}

// filtersOf tells filters apart, by accident and not by intent: a cursor that
// somebody makes up shows nothing that another one would not.
func filtersOf(q session.Query) uint32 {
	h := fnv.New32a()
	_, _ = fmt.Fprintf(h, "%q", []string{q.Namespace, q.Kind, q.Name, string(q.State), q.Owner}) // never fails
	return h.Sum32()
}
