package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// Due returns up to limit rows that the collector must look at by now, by the
// store's clock, earliest first. Whoever takes a page moves each of its rows on
// (Postpone, Update, Remove), so that the next call returns the next page.
func (r *Redis) Due(ctx context.Context, limit int) ([]Due, error) {
	var due []Due
	err := r.do(ctx, "reading what is due", func(ctx context.Context) error {
		answer, err := dueScript.Run(ctx, r.client, []string{r.keys.due}, limit).StringSlice()
		if err != nil {
			return err
		}
		for i := 0; i+1 < len(answer); i += 2 {
			at, err := parseScore(answer[i+1])
			if err != nil {
				return err
			}
			due = append(due, Due{ID: answer[i], At: at})
		}
		return nil
	})
	return due, err
}

// Claim moves a row that is due to its next time, rounded up to a second, and
// reports whether it did: of several collectors that read the same page, one
// gets each row.
func (r *Redis) Claim(ctx context.Context, id string, next time.Time) (bool, error) {
	if next.IsZero() {
		return false, fmt.Errorf("claiming session %s: no next time given", id)
	}
	claimed := false
	err := r.do(ctx, "claiming session "+id, func(ctx context.Context) error {
		code, err := claimScript.Run(ctx, r.client, []string{r.keys.due}, id, ceil(next)).Int()
		claimed = code == done
		return err
	})
	return claimed && err == nil, err
}

// Postpone sets when the collector must look at the row next, rounded up to a
// second. A row that has no such time any more gets none.
func (r *Redis) Postpone(ctx context.Context, id string, at time.Time) error {
	if at.IsZero() {
		return fmt.Errorf("postponing session %s: no time given", id)
	}
	return r.do(ctx, "postponing session "+id, func(ctx context.Context) error {
		err := r.client.Do(ctx, "ZADD", r.keys.due, "XX", ceil(at), id).Err()
		if errors.Is(err, redis.Nil) {
			return nil
		}
		return err
	})
}

// Creating returns up to limit rows that are being created, oldest first, that
// come after the given one in that order; zero begins.
func (r *Redis) Creating(ctx context.Context, after Placeholder, limit int) ([]Placeholder, error) {
	var page []Placeholder
	from := ceil(after.CreatedAt)
	if from == noEntry {
		from = "-inf"
	}
	err := r.do(ctx, "reading what is being created", func(ctx context.Context) error {
		for offset := int64(0); len(page) < limit; {
			members, err := r.client.ZRangeArgsWithScores(ctx, redis.ZRangeArgs{
				Key: r.keys.creating, ByScore: true, Start: from, Stop: "+inf",
				Offset: offset, Count: int64(limit),
			}).Result()
			if err != nil {
				return err
			}
			for _, m := range members {
				p := Placeholder{ID: fmt.Sprint(m.Member), CreatedAt: moment(m.Score)}
				if comesAfter(p, after) && len(page) < limit {
					page = append(page, p)
				}
			}
			if len(members) < limit {
				return nil
			}
			offset += int64(len(members))
		}
		return nil
	})
	return page, err
}

// comesAfter is the order of a sorted set: by score, then by member.
func comesAfter(p, q Placeholder) bool {
	if p.CreatedAt.Equal(q.CreatedAt) {
		return p.ID > q.ID
	}
	return p.CreatedAt.After(q.CreatedAt)
}
