package scrape

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestCountersAndGaugesAreRead(t *testing.T) {
	t.Parallel()
	metrics, err := parse(strings.NewReader(`# TYPE go_goroutines gauge
go_goroutines 12
# TYPE go_memstats_alloc_bytes_total counter
go_memstats_alloc_bytes_total 1.5e+06
# TYPE requests counter
requests{code="200"} 1
requests{code="404"} 2
`))
	require.NoError(t, err)
	assert.InDelta(t, 12, metrics.Value("go_goroutines"), 0)
	assert.InDelta(t, 1.5e6, metrics.Value("go_memstats_alloc_bytes_total"), 0)
	assert.Zero(t, metrics.Value("requests"), "several numbers are not one")
	assert.Zero(t, metrics.Value("absent"))
}

func TestWhatIsNoMetricIsAnError(t *testing.T) {
	t.Parallel()
	_, err := parse(strings.NewReader("<html>"))
	require.Error(t, err)
}
