package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/agentcube/agentcube/pkg/session"
)

// ending is the form in which it is kept.
type ending struct {
	Reason    string `json:"reason"`
	OwnerHash string `json:"ownerHash,omitempty"`
}

func encodeEnding(e session.Ending) (string, error) {
	text, err := json.Marshal(ending(e))
	return string(text), err
}

// Ended tells why a session that has no row ended, for session.EndingKept after
// the row was removed. ErrNotFound when that is not known, ErrCorrupt if it
// cannot be read. Whoever wants to know whether there is a session asks for its
// row.
func (r *Redis) Ended(ctx context.Context, id string) (session.Ending, error) {
	var kept ending
	err := r.do(ctx, "reading why session "+id+" ended", func(ctx context.Context) error {
		if !session.ValidID(id) {
			return ErrNotFound
		}
		text, err := r.client.Get(ctx, r.keys.ended(id)).Bytes()
		if errors.Is(err, redis.Nil) {
			return ErrNotFound
		}
		if err != nil {
			return err
		}
		if err := json.Unmarshal(text, &kept); err != nil {
			return fmt.Errorf("%w: %w", ErrCorrupt, err)
		}
		return nil
	})
	return session.Ending(kept), err
}
