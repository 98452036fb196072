package main

import (
	"cmp"
	"slices"
	"time"
)

// median of an even number of values is the higher one in the middle; 0 of none.
func median[T cmp.Ordered](values []T) T { return percentile(values, 50) }

// percentile is the value that p of 100 do not exceed; the zero value of none.
func percentile[T cmp.Ordered](values []T, p int) T {
	if len(values) == 0 {
		var none T
		return none
	}
	sorted := slices.Sorted(slices.Values(values))
	return sorted[min(len(sorted)-1, len(sorted)*p/100)]
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// inTurn is the order of a round: the other way round every second time, since
// whoever comes later meets what the earlier one has left to do.
func inTurn(all []*party, round int) []*party {
	ordered := slices.Clone(all)
	if round%2 == 1 {
		slices.Reverse(ordered)
	}
	return ordered
}
