package store

import (
	"context"
	"errors"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
)

// Beat says that the process is alive for another HeartbeatTTL.
func (r *Redis) Beat(ctx context.Context, process string) error {
	return r.do(ctx, "beating for "+process, func(ctx context.Context) error {
		return r.client.Set(ctx, r.keys.process(process), "1", HeartbeatTTL).Err()
	})
}

// Alive says of each process whether its heartbeat is there.
func (r *Redis) Alive(ctx context.Context, processes ...string) (map[string]bool, error) {
	alive := make(map[string]bool, len(processes))
	if len(processes) == 0 {
		return alive, nil
	}
	err := r.do(ctx, "reading heartbeats", func(ctx context.Context) error {
		answers := make([]*redis.IntCmd, len(processes))
		_, err := r.client.Pipelined(ctx, func(p redis.Pipeliner) error {
			for i, process := range processes {
				answers[i] = p.Exists(ctx, r.keys.process(process))
			}
			return nil
		})
		for i, process := range processes {
			alive[process] = answers[i].Val() > 0
		}
		return err
	})
	if err != nil {
		return nil, err // an answer that is missing must not look like a death
	}
	return alive, nil
}

// Installation is the id of this installation, made by the first call ever and
// kept in the store: another value means another, or an emptied, store.
func (r *Redis) Installation(ctx context.Context) (string, error) {
	var id string
	err := r.do(ctx, "reading the installation's id", func(ctx context.Context) (err error) {
		if id, err = r.client.Get(ctx, r.keys.installation).Result(); !errors.Is(err, redis.Nil) {
			return err
		}
		// Whoever is first wins; a repeated call finds its own.
		if err := r.client.SetNX(ctx, r.keys.installation, uuid.NewString(), 0).Err(); err != nil {
			return err
		}
		id, err = r.client.Get(ctx, r.keys.installation).Result()
		return err
	})
	if err != nil {
		return "", err
	}
	return id, nil
}
