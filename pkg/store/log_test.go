package store

import (
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

func TestWhatTheClientSaysGoesToTheLogAtDebug(t *testing.T) { //nolint:paralleltest // the client's logger is global
	core, logs := observer.New(zap.DebugLevel)
	LogTo(zap.New(core))
	t.Cleanup(func() { LogTo(zap.NewNop()) })
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", MaxRetries: -1, DialerRetries: 1})
	t.Cleanup(func() { _ = client.Close() })
	require.Error(t, client.Ping(t.Context()).Err())
	require.NotZero(t, logs.FilterLevelExact(zap.DebugLevel).Len(), "nothing was logged")
	require.Equal(t, logs.Len(), logs.FilterLevelExact(zap.DebugLevel).Len())
}
