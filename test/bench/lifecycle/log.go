package main

import (
	"bytes"
	"encoding/json"
	"iter"
	"time"
)

// Messages of the workload-manager's log that are measured by.
const (
	resyncMessage  = "resync"
	collectMessage = "collected"
)

// record is one line of the log.
type record struct {
	Time    time.Time `json:"time"`
	Message string    `json:"msg"`
	// Worked and Waited are in seconds.
	Worked float64 `json:"worked"`
	Waited float64 `json:"waited"`
	Ended  int     `json:"ended"`
}

// records are the lines that are whole.
func records(text []byte) iter.Seq[record] {
	return func(yield func(record) bool) {
		for line := range bytes.Lines(text) {
			var r record
			if json.Unmarshal(line, &r) == nil && !yield(r) {
				return
			}
		}
	}
}
