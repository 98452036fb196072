package cluster

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentcube/agentcube/test/cluster/process"
)

func TestAPortThatWasLostIsReplaced(t *testing.T) {
	t.Parallel()
	var p ports
	t.Cleanup(p.release)
	lost := &process.ExitError{Tail: "bind: address already in use"}
	tried := map[int]bool{}
	err := p.onFreePorts(2, func(taken []*process.Port) error {
		require.Len(t, taken, 2)
		for _, port := range taken {
			require.False(t, tried[port.Number()])
			tried[port.Number()] = true
		}
		if len(tried) < 6 {
			return lost
		}
		return nil
	})
	require.NoError(t, err)
	assert.Len(t, tried, 6)

	calls := 0
	other := errors.New("other")
	require.ErrorIs(t, p.onFreePorts(1, func([]*process.Port) error { calls++; return other }), other)
	assert.Equal(t, 1, calls, "any other end is final")

	calls = 0
	require.ErrorIs(t, p.onFreePorts(1, func([]*process.Port) error { calls++; return lost }), lost)
	assert.Equal(t, portRaces, calls)
}
