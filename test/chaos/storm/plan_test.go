package storm

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func steps(seed uint64, n int) []Step {
	p := NewPlanner(seed, []string{"a", "b", "c"})
	drawn := make([]Step, n)
	for i := range drawn {
		drawn[i] = p.Next()
	}
	return drawn
}

func TestASeedAlwaysGivesTheSameSteps(t *testing.T) {
	t.Parallel()
	first := steps(1, 500)
	assert.Equal(t, first, steps(1, 500))
	assert.NotEqual(t, first, steps(2, 500))
}

func TestAFullRunHasEachKindOfStepAndEachFaultOftenEnough(t *testing.T) {
	t.Parallel()
	kinds, faults := map[Kind]int{}, map[string]int{}
	for _, s := range steps(1, 2000) {
		kinds[s.Kind]++
		if s.Kind == Fault {
			faults[s.Fault]++
		}
		assert.GreaterOrEqual(t, s.Pause, shortPause)
		assert.Less(t, s.Pause, longPause)
	}
	for _, w := range weights {
		assert.Equal(t, 10*w.weight, kinds[w.kind], w.kind)
	}
	for name, n := range faults {
		assert.InDelta(t, kinds[Fault]/3, n, 1, name)
	}
	assert.Len(t, faults, 3)
}

func TestAPointThatWasNotReachedComesAgainAtOnce(t *testing.T) {
	t.Parallel()
	p := newPoints(NewPlanner(1, nil), []string{"a", "b"})
	first := p.next()
	p.missed(first)
	assert.Equal(t, first, p.next())
	second := p.next()
	assert.NotEqual(t, first, second)
	assert.Equal(t, first, p.next(), "all have come, so it begins anew")
}
