package cluster

import (
	"encoding/csv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestEveryUserHasATokenOfItsOwn(t *testing.T) {
	t.Parallel()
	all := newTokens()
	records, err := csv.NewReader(strings.NewReader(string(all.file()))).ReadAll()
	require.NoError(t, err)
	users := map[string]string{}
	for _, r := range records {
		require.Len(t, r, 4)
		assert.GreaterOrEqual(t, len(r[0]), 26, "128 bits")
		assert.Equal(t, "system:masters", r[3])
		users[r[1]] = r[0]
	}
	assert.Equal(t, map[string]string{
		"admin": all.admin, "controller-manager": all.controllerManager,
		"agent-sandbox-controller": all.controller, "node": all.node,
	}, users)
}
