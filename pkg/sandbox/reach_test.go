package sandbox

import (
	"context"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestReach(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		code int
		want error
	}{
		"ready":                   {http.StatusOK, nil},
		"starting":                {http.StatusInternalServerError, ErrUnavailable},
		"we may not ask":          {http.StatusForbidden, nil},
		"it does not know anyone": {http.StatusUnauthorized, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client := clientOf(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(test.code) })
			require.ErrorIs(t, Reach(t.Context(), client.Discovery().RESTClient()), test.want)
		})
	}
	t.Run("whoever asks has left", func(t *testing.T) {
		t.Parallel()
		client := clientOf(t, func(http.ResponseWriter, *http.Request) {})
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.ErrorIs(t, Reach(ctx, client.Discovery().RESTClient()), context.Canceled)
	})
}
