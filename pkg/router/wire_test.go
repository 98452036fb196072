package router

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A wire of other parts than the router's own would measure something else.
func TestTheWireIsMadeOfTheRoutersParts(t *testing.T) {
	t.Parallel()
	proxy := newRig(t).router.proxy
	transport, buffers := Wire(Options{AllowLoopbackEndpoints: true})
	through, ok := proxy.Transport.(*redialer)
	require.True(t, ok)
	assert.IsType(t, through.wire, transport)
	assert.IsType(t, proxy.BufferPool, buffers)
}
