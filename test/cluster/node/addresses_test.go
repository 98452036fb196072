package node

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
)

// few returns a pool of n addresses.
func few(n int) *addresses {
	return &addresses{
		size: n,
		pool: func(i int) netip.Addr { return netip.AddrFrom4([4]byte{127, 1, 0, byte(i + 1)}) },
		used: map[netip.Addr]bool{}, named: map[types.NamespacedName]netip.Addr{},
	}
}

func take(t *testing.T, a *addresses, name string, same bool) string {
	t.Helper()
	address, err := a.take(types.NamespacedName{Name: name}, same)
	require.NoError(t, err)
	return address.String()
}

func TestAddressesGoRoundSoThatNoneIsReusedSoon(t *testing.T) {
	t.Parallel()
	a := few(3)
	assert.Equal(t, "127.1.0.1", take(t, a, "a", false))
	a.give(netip.MustParseAddr("127.1.0.1"))
	assert.Equal(t, "127.1.0.2", take(t, a, "a", false))
	assert.Equal(t, "127.1.0.3", take(t, a, "b", false))
	assert.Equal(t, "127.1.0.1", take(t, a, "c", false))
	_, err := a.take(types.NamespacedName{Name: "d"}, false)
	require.ErrorIs(t, err, errNoFreeAddress)
	a.give(netip.MustParseAddr("127.1.0.3"))
	assert.Equal(t, "127.1.0.3", take(t, a, "d", false), "what is in use is skipped")
}

func TestAPodCanKeepTheAddressOfItsName(t *testing.T) {
	t.Parallel()
	a := few(5)
	first := take(t, a, "a", true)
	assert.NotEqual(t, first, take(t, a, "a", true), "not while the other pod has it")
	b := few(5)
	first = take(t, b, "a", true)
	b.give(netip.MustParseAddr(first))
	assert.NotEqual(t, first, take(t, b, "b", true))
	assert.Equal(t, first, take(t, b, "a", true))
}

func TestNodesOnOneMachineDoNotShareAddresses(t *testing.T) {
	t.Parallel()
	if !wholeLoopback() {
		t.Skip("this system has no loopback range to divide")
	}
	seen := map[netip.Addr]bool{}
	for range 4 {
		a, err := reserveAddresses()
		require.NoError(t, err)
		t.Cleanup(a.release)
		for i := range a.size {
			address := a.pool(i)
			require.True(t, address.IsLoopback())
			require.False(t, seen[address], "%s twice", address)
			seen[address] = true
		}
	}
}
