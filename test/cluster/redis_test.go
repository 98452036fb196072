package cluster

import (
	"context"
	"net"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRedisServesRestartsAndIsFlushed(t *testing.T) {
	t.Parallel()
	for name, embedded := range map[string]bool{"the one that is installed": false, "the embedded one": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancel(t.Context())
			r, err := StartRedis(ctx, RedisOptions{Password: "secret", AppendOnly: true, Embedded: embedded})
			require.NoError(t, err)
			require.NoError(t, r.command(t.Context(), "PING"))
			wrong := &Redis{Addr: r.Addr, password: "wrong"}
			require.Error(t, wrong.command(t.Context(), "PING"))
			without := &Redis{Addr: r.Addr}
			require.ErrorContains(t, without.command(t.Context(), "PING"), "NOAUTH")

			require.NoError(t, r.command(t.Context(), "SET", "key", "value"))
			require.NoError(t, r.Stop())
			require.Error(t, r.command(t.Context(), "PING"))
			require.NoError(t, r.Start(t.Context()))
			require.ErrorContains(t, r.command(t.Context(), "GET", "key"), `"$5"`, "it was kept")
			require.NoError(t, r.FlushAll(t.Context()))
			require.ErrorContains(t, r.command(t.Context(), "GET", "key"), `"$-1"`, "it is gone")

			for _, do := range []func() error{r.Pause, r.Resume, r.Kill} {
				if err := do(); !r.Real {
					require.ErrorIs(t, err, ErrEmbedded)
				} else {
					require.NoError(t, err)
				}
			}
			cancel()
			r.Close() // waits for what the end of the context began
			_, err = new(net.Dialer).DialContext(t.Context(), "tcp", r.Addr)
			require.Error(t, err)
		})
	}
}
