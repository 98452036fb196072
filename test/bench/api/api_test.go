package main

import (
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentcube/agentcube/pkg/session"
)

// A filter that lets less than a page pass would measure less than it says.
func TestEachFilterAloneLetsAPagePass(t *testing.T) {
	t.Parallel()
	const n = 100_000
	passed, asked := map[string]int{}, map[string]session.Query{}
	single := []string{}
	for _, query := range queries {
		filters, err := url.ParseQuery(query)
		require.NoError(t, err)
		if len(filters) == 1 {
			single = append(single, query)
			asked[query] = session.Query{
				Namespace: filters.Get("namespace"), Kind: filters.Get("kind"), Name: filters.Get("name"),
				State: session.State(filters.Get("state")), Owner: filters.Get("owner"),
			}
		}
	}
	require.Len(t, single, 6)
	for i := range n {
		s := sessionAt(i, time.Unix(0, 0))
		for _, query := range single {
			if asked[query].Matches(s) {
				passed[query]++
			}
		}
	}
	for _, query := range single {
		assert.GreaterOrEqual(t, passed[query], limit, query)
		assert.Less(t, passed[query], n, query)
	}
}

func TestAMedianIsThatOfTheSorted(t *testing.T) {
	t.Parallel()
	assert.Equal(t, 2, median([]int{3, 1, 2}))
	assert.Equal(t, 1, median([]int{1}))
}
