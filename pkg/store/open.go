package store

import (
	"context"
	"crypto/tls"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
	"k8s.io/utils/clock"
)

// Config says where the store is.
type Config struct {
	// Addrs are host:port of the server, or, with MasterName, of Sentinels.
	Addrs []string
	// MasterName is the name that the Sentinels know the server by.
	MasterName string
	// Username and Password are empty where none is needed.
	Username, Password string
	// SentinelPassword is that of the Sentinels themselves.
	SentinelPassword string
	// DB is the number of the database.
	DB int
	// TLS is nil for plain connections.
	TLS *tls.Config
	// Options of the store that Open returns.
	Options Options
}

// Client builds a client that honours deadlines. It connects to nothing yet.
//
// The client repeats a command whose answer was lost, also one that writes;
// each script says why that is safe. One repetition is enough: it is what a
// connection that was closed while idle needs.
func Client(c Config) redis.UniversalClient {
	o := c.Options.withDefaults()
	return redis.NewUniversalClient(&redis.UniversalOptions{
		Addrs:            c.Addrs,
		MasterName:       c.MasterName,
		Username:         c.Username,
		Password:         c.Password,
		SentinelPassword: c.SentinelPassword,
		DB:               c.DB,
		TLSConfig:        c.TLS,

		ContextTimeoutEnabled: true,
		DialTimeout:           o.CallTimeout,
		ReadTimeout:           o.CallTimeout,
		WriteTimeout:          o.CallTimeout,
		PoolTimeout:           o.CallTimeout,
		MaxRetries:            1,
		DialerRetries:         1,
		MaintNotificationsConfig: &maintnotifications.Config{
			Mode: maintnotifications.ModeDisabled, // a hosted product's feature
		},
	})
}

// Open builds a store and waits until it answers, or ctx ends.
func Open(ctx context.Context, clk clock.Clock, c Config) (*Redis, error) {
	r := New(clk, Client(c), c.Options)
	if err := r.Wait(ctx); err != nil {
		_ = r.Close() // nothing was written; the failure to answer is what matters
		return nil, err
	}
	return r, nil
}
