package sieve

import (
	"strconv"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestWhatIsPutIsFoundUntilItIsDropped(t *testing.T) {
	t.Parallel()
	m := New[string, int](3)
	_, ok := m.Get("a")
	require.False(t, ok)
	m.Put("a", 1)
	m.Put("a", 2)
	got, ok := m.Get("a")
	require.True(t, ok)
	assert.Equal(t, 2, got)
	assert.Equal(t, 1, m.Len())
	assert.True(t, m.Delete("a"))
	assert.False(t, m.Delete("a"))
	assert.Zero(t, m.Len())
}

func TestAFullMapDropsTheOldestThatNobodyAskedFor(t *testing.T) {
	t.Parallel()
	m := New[string, int](3)
	for i, key := range []string{"a", "b", "c"} {
		m.Put(key, i)
	}
	m.Get("a")
	m.Put("d", 3)
	assert.ElementsMatch(t, []string{"a", "c", "d"}, keys(m), "b is the oldest nobody asked for")
	m.Put("e", 4)
	assert.ElementsMatch(t, []string{"a", "d", "e"}, keys(m), "the hand goes on from where it was")
	m.Get("d")
	m.Get("e")
	m.Put("f", 5)
	assert.ElementsMatch(t, []string{"d", "e", "f"}, keys(m), "a was asked for, but not since the hand came by")
}

func TestIfAllWereAskedForOneGoesAllTheSame(t *testing.T) {
	t.Parallel()
	m := New[int, int](100)
	for i := range 1000 {
		m.Put(i, i)
		_, ok := m.Get(i)
		require.True(t, ok)
		require.LessOrEqual(t, m.Len(), 100)
	}
	assert.Len(t, keys(m), 100)
}

func TestAClearedMapTakesNewEntries(t *testing.T) {
	t.Parallel()
	m := New[int, int](2)
	for i := range 5 {
		m.Put(i, i)
	}
	m.Clear()
	assert.Zero(t, m.Len())
	for i := range 5 {
		m.Put(i, i)
	}
	assert.Equal(t, 2, m.Len())
}

func TestTheHandSurvivesTheEntryItPointsAt(t *testing.T) {
	t.Parallel()
	m := New[int, int](3)
	for i := range 4 {
		m.Put(i, i)
	}
	for i := range 4 {
		m.Delete(i)
	}
	for i := range 10 {
		m.Put(i, i)
	}
	assert.ElementsMatch(t, []int{7, 8, 9}, keys(m))
}

func TestReadersShareALock(t *testing.T) {
	t.Parallel()
	m := New[string, int](10)
	for i := range 10 {
		m.Put(strconv.Itoa(i), i)
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for i := range 1000 {
				got, ok := m.Get(strconv.Itoa(i % 10))
				assert.True(t, ok)
				assert.Equal(t, i%10, got)
			}
		})
	}
	wg.Wait()
}

// keys walks the list, and checks it against the map.
func keys[K comparable, V any](m *Map[K, V]) []K {
	var all []K
	for n := m.newest; n != none; n = m.at(n).older {
		if known, ok := m.numbers[m.at(n).key]; ok && known == n {
			all = append(all, m.at(n).key)
		}
	}
	return all
}
