package gc_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/agentcube/agentcube/pkg/workloadmanager/gc"
)

// The index keeps whole seconds, rounded up, while passes begin at any moment:
// what a pass brings up must be due in this very pass, since the next one would
// move it on again.
func TestPlaceholdersOfADeadCreatorComeUpWheneverThePassBegins(t *testing.T) {
	t.Parallel()
	for _, fraction := range []time.Duration{0, time.Millisecond, 500 * time.Millisecond, 999 * time.Millisecond} {
		t.Run(fraction.String(), func(t *testing.T) {
			t.Parallel()
			in(t, func(t *testing.T, w *world) {
				s := w.session(creating)
				w.pass(heartbeat + fraction)
				assert.Equal(t, gc.Stats{Due: 1, Ended: 1}, w.collect())
				w.gone(s, "its creator is dead")
			})
		})
	}
}
