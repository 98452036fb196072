package cluster

import (
	"context"
	"time"

	"github.com/alicebob/miniredis/v2"
)

// expiryInterval is how often the embedded Redis is told that time has passed: it
// has no clock of its own for the expiry of keys.
const expiryInterval = 100 * time.Millisecond

func startEmbedded(ctx context.Context, options RedisOptions) (*Redis, error) {
	server := miniredis.NewMiniRedis()
	if options.Password != "" {
		server.RequireAuth(options.Password)
	}
	if err := server.StartAddr("127.0.0.1:0"); err != nil {
		return nil, err
	}
	tick, stopTick := context.WithCancel(ctx)
	go passTime(tick, server)
	r := &Redis{Addr: server.Addr(), password: options.Password, embedded: server}
	r.close = closeWith(ctx, func() {
		stopTick()
		server.Close()
	})
	return r, nil
}

func passTime(ctx context.Context, server *miniredis.Miniredis) {
	ticker := time.NewTicker(expiryInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			server.FastForward(expiryInterval)
		case <-ctx.Done():
			return
		}
	}
}
