package httpserver

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	clocktesting "k8s.io/utils/clock/testing"
)

func TestDependenciesAreAMetric(t *testing.T) {
	t.Parallel()
	h := NewHealth(clocktesting.NewFakeClock(time.Unix(0, 0)), zap.NewNop())
	h.Detail("store", func(context.Context) error { return errors.New("refused") })
	h.Detail("cluster", func(context.Context) error { return nil })
	require.NoError(t, testutil.CollectAndCompare(h, strings.NewReader(`
# HELP agentcube_dependency_up 1 if what this process depends on was in order when the metrics were read, else 0.
# TYPE agentcube_dependency_up gauge
agentcube_dependency_up{dependency="cluster"} 1
agentcube_dependency_up{dependency="store"} 0
`)))
}
