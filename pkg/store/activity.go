package store

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/agentcube/agentcube/pkg/session"
)

// touchBatch is how many sessions one command touches. The server does nothing
// else for as long as it takes, some hundred microseconds.
const touchBatch = 256

// Touch records when sessions were last active, in seconds. A session that is
// gone stays gone, and an activity older than the recorded one changes nothing.
func (r *Redis) Touch(ctx context.Context, activity map[string]time.Time) error {
	return r.do(ctx, "recording activity", func(ctx context.Context) error {
		_, err := r.client.Pipelined(ctx, func(p redis.Pipeliner) error {
			for members := range slices.Chunk(touched(activity), touchBatch) {
				p.ZAddArgs(ctx, r.keys.activity, redis.ZAddArgs{XX: true, GT: true, Members: members})
			}
			return nil
		})
		return err
	})
}

func touched(activity map[string]time.Time) []redis.Z {
	members := make([]redis.Z, 0, len(activity))
	for id, at := range activity {
		if session.ValidID(id) {
			members = append(members, redis.Z{Score: float64(at.Unix()), Member: id})
		}
	}
	return members
}

// LastActivity is when the session was last active, in seconds. Zero: unknown.
// An activity further ahead of the store's clock than the skew allowed was
// written by a router whose clock is wrong: it counts as now and is set to
// now.
func (r *Redis) LastActivity(ctx context.Context, id string) (time.Time, error) {
	var last time.Time
	err := r.do(ctx, "reading the activity of session "+id, func(ctx context.Context) error {
		score, err := activityScript.Run(ctx, r.client, []string{r.keys.activity},
			id, int64(r.options.MaxSkew/time.Second)).Text()
		if errors.Is(err, redis.Nil) {
			return nil
		}
		if err != nil {
			return err
		}
		last, err = parseScore(score)
		return err
	})
	return last, err
}
