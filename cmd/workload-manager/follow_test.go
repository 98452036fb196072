package main

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/utils/clock"
)

func TestAReadThatWaitsIsAnsweredWhenTheProgramIsToEnd(t *testing.T) {
	t.Parallel()
	p := world(t)
	a := p.startOn(clock.RealClock{})
	p.waitServing()
	created := p.create()
	require.Equal(t, http.StatusOK, created.status, created.body.Message)
	answered := make(chan answer, 1)
	go func() { answered <- p.get("/v1/sessions/" + created.body.SessionID + "?wait=2m") }()
	require.Eventually(t, func() bool { return a.changes.Waiters() == 1 }, deadline, tick)
	p.end()
	got := <-answered
	assert.Equal(t, http.StatusOK, got.status)
	assert.Equal(t, created.body.SessionID, got.body.SessionID)
}
