package main

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestAnAsyncCreateIsFinishedAtTheEnd(t *testing.T) {
	t.Parallel()
	p := world(t)
	p.api.ready = false
	p.start()
	p.waitServing()
	created := p.create("Prefer", "respond-async")
	require.Equal(t, http.StatusAccepted, created.status, created.body.Message)
	path := <-p.api.created

	p.stop()
	require.Eventually(t, func() bool { return p.get("/livez").status == 0 }, deadline, tick, "nobody asks any more")
	assert.Empty(t, p.done, "a create is under way")
	assert.Contains(t, p.row(), `"status":"creating"`)
	p.api.makeReady(path)
	require.NoError(t, <-p.done)
	row, err := p.redis.Get("session:" + created.body.SessionID)
	require.NoError(t, err)
	assert.Contains(t, row, `"status":"ready"`)
	assert.Equal(t, []string{path}, p.api.sandboxes())
}

func TestAnAsyncCreateIsUndoneAtTheEnd(t *testing.T) {
	t.Parallel()
	p := world(t)
	p.api.ready = false
	undoing, release := p.holdDeletes()
	p.start("--drain-timeout=50ms")
	p.waitServing()
	require.Equal(t, http.StatusAccepted, p.create("Prefer", "respond-async", "Idempotency-Key", "k").status)
	path := <-p.api.created

	p.stop()
	<-undoing
	assert.Empty(t, p.done, "the undo is waited for")
	assert.Contains(t, p.row(), `"status":"deleting"`)
	assert.Equal(t, []string{path}, p.api.sandboxes())
	close(release)
	require.NoError(t, <-p.done)
	assert.Empty(t, p.api.sandboxes())
	assert.Empty(t, p.row())
	for _, key := range p.redis.Keys() {
		assert.NotContains(t, key, "agentcube:key:", "the key is free")
	}
}
