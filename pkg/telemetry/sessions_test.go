package telemetry

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// scraped is the page of metrics with sessions that are counted so.
func scraped(t *testing.T, count func(context.Context) (map[string]int, error)) string {
	t.Helper()
	registry := NewRegistry("workload-manager", Build{})
	registry.MustRegister(NewSessions(count))
	answer := httptest.NewRecorder()
	MetricsHandler(registry).ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", http.NoBody))
	require.Equal(t, http.StatusOK, answer.Code, "all else is told whatever the store does")
	require.Contains(t, answer.Body.String(), "agentcube_build_info")
	return answer.Body.String()
}

func TestSessionsAreCountedWhenTheyAreScraped(t *testing.T) {
	t.Parallel()
	n := 0
	count := func(context.Context) (map[string]int, error) {
		n++
		return map[string]int{"ready": n, "creating": 0}, nil
	}
	for _, want := range []string{"1", "2"} {
		page := scraped(t, count)
		assert.Contains(t, page, `agentcube_sessions{state="ready"} `+want+"\n")
		assert.Contains(t, page, `agentcube_sessions{state="creating"} 0`+"\n")
	}
}

func TestWhatCannotBeCountedIsNotTold(t *testing.T) {
	t.Parallel()
	page := scraped(t, func(context.Context) (map[string]int, error) {
		return map[string]int{"ready": 7}, errors.New("store is away")
	})
	assert.NotContains(t, page, "agentcube_sessions")
}

func TestACountThatHangsHoldsUpNoScrape(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		page := scraped(t, func(ctx context.Context) (map[string]int, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		})
		assert.NotContains(t, page, "agentcube_sessions")
		assert.LessOrEqual(t, time.Since(begun), time.Second)
	})
}
