package router

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A wire of other settings than the router's own would measure something else.
func TestTheWireHasTheRoutersSettings(t *testing.T) {
	t.Parallel()
	rig := newRig(t)
	through, ok := rig.router.proxy.Transport.(*redialer)
	require.True(t, ok)
	wire, ok := through.wire.(*transports)
	require.True(t, ok)
	got, buffers := Wire(rig.router.opts)
	transport, ok := got.(*http.Transport)
	require.True(t, ok)
	assert.Equal(t, settings(wire.http1), settings(transport))
	assert.IsType(t, rig.router.proxy.BufferPool, buffers)
}

func settings(t *http.Transport) map[string]any {
	return map[string]any{
		"protocols":         t.Protocols.String(),
		"handshake timeout": t.TLSHandshakeTimeout,
		"response timeout":  t.ResponseHeaderTimeout,
		"continue timeout":  t.ExpectContinueTimeout,
		"longest head":      t.MaxResponseHeaderBytes,
		"idle timeout":      t.IdleConnTimeout,
		"idle":              []int{t.MaxIdleConns, t.MaxIdleConnsPerHost, t.MaxConnsPerHost},
		"compression":       !t.DisableCompression,
		"buffers":           []int{t.ReadBufferSize, t.WriteBufferSize},
		"keep-alive":        !t.DisableKeepAlives,
	}
}
