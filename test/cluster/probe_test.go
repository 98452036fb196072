package cluster

import (
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentcube/agentcube/test/cluster/pki"
)

func TestAProbeWantsTheRightServerAndA200(t *testing.T) {
	t.Parallel()
	ours, err := pki.NewCA("ours")
	require.NoError(t, err)
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer secret" {
			w.WriteHeader(http.StatusUnauthorized)
		}
	}))
	t.Cleanup(server.Close)
	theirs := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	address := server.Listener.Addr().String()

	require.NoError(t, probe(server.URL, theirs, "secret")(t.Context()))
	require.ErrorContains(t, probe(server.URL, theirs, "wrong")(t.Context()), "401")
	require.ErrorContains(t, probe(server.URL, ours.Cert, "secret")(t.Context()), "certificate")
	require.NoError(t, handshake(address, theirs)(t.Context()))
	require.ErrorContains(t, handshake(address, ours.Cert)(t.Context()), "certificate")
}
