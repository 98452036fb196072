package store

import (
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/agentcube/agentcube/pkg/session"
)

// noEntry as a score tells a script that the index has no entry of the row.
const noEntry = ""

// The years that a time of a row can have, 1 to 9999, as unix seconds.
const (
	minSeconds = -62135596800
	maxSeconds = 253402300799
)

// ceil is the score of a deadline: the first full second that is not before
// it. Zero: no entry.
func ceil(t time.Time) string {
	if t.IsZero() {
		return noEntry
	}
	seconds := t.Unix()
	if t.Nanosecond() > 0 {
		seconds++
	}
	return strconv.FormatInt(seconds, 10)
}

// floor is the score of an activity.
func floor(t time.Time) string { return strconv.FormatInt(t.Unix(), 10) }

// moment is the time of a score, cut to what a row can hold.
func moment(score float64) time.Time {
	score = min(max(score, minSeconds), maxSeconds)
	whole, part := math.Modf(score)
	return time.Unix(int64(whole), int64(part*float64(time.Second))).UTC()
}

// parseScore reads a score as a script returns it.
func parseScore(text string) (time.Time, error) {
	score, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(score) {
		return time.Time{}, fmt.Errorf("score %q is not a number: %w", text, session.ErrCorrupt)
	}
	return moment(score), nil
}
