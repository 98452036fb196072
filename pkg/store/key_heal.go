package store

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/agentcube/agentcube/pkg/session"
)

// restoreKeyScript writes the record ARGV[2] of a key that has none, if the
// row still is ARGV[1]. KEYS: row, record. Returns the number of records
// written. A second run finds it: 0.
var restoreKeyScript = redis.NewScript(`
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
if redis.call('SET', KEYS[2], ARGV[2], 'NX') then return 1 end
return 0
`)

// endKeyScript gives the record ARGV[1], which names a session without a row,
// the time that it has after a session. KEYS: row, record. Returns the number of
// records changed. A second run finds the time set: 0.
var endKeyScript = redis.NewScript(`
if redis.call('EXISTS', KEYS[1]) == 1 or redis.call('GET', KEYS[2]) ~= ARGV[1] then return 0 end
if redis.call('TTL', KEYS[2]) ~= -1 then return 0 end
return redis.call('EXPIRE', KEYS[2], ` + strconv.Itoa(int(session.KeyLife/time.Second)) + `)
`)

// restoreKeys writes the records of keys that rows have and nobody else does,
// as after a record was lost, and returns how many.
func (r *Redis) restoreKeys(ctx context.Context, page []indexedRow) (restored int, err error) {
	answers, err := r.pipelined(ctx, "restoring idempotency keys", func(p redis.Pipeliner) (answers []*redis.Cmd) {
		for _, row := range page {
			text, err := row.row.Result()
			if err != nil || !strings.Contains(text, `"idempotency":`) {
				continue
			}
			s, err := decode(row.id, []byte(text))
			if err != nil || s.KeyFreed() {
				continue // unreadable, or the key was freed
			}
			if key := changeKey(s, takeKey); key != (keyChange{}) {
				keys := []string{r.keys.row(s.ID), r.keys.idempotency(key.name)}
				answers = append(answers, restoreKeyScript.Eval(ctx, p, keys, text, key.value))
			}
		}
		return answers
	})
	return sum(answers), err
}

// endKeys finds the records of sessions that have no row and yet no end, which
// the removal of a row by a program that knows no keys leaves behind, and gives
// them one. It returns how many.
func (r *Redis) endKeys(ctx context.Context) (ended int, err error) {
	for cursor := uint64(0); ; {
		var page []string
		err = r.do(ctx, "scanning idempotency keys", func(ctx context.Context) (err error) {
			page, cursor, err = r.client.Scan(ctx, cursor, r.keys.keyPrefix+"*", int64(r.options.Page)).Result()
			return err
		})
		if err != nil {
			return ended, err
		}
		n, err := r.endPage(ctx, page)
		ended += n
		if err != nil || cursor == 0 {
			return ended, err
		}
	}
}

func (r *Redis) endPage(ctx context.Context, page []string) (ended int, err error) {
	if len(page) == 0 {
		return 0, nil
	}
	records := make([]*redis.StringCmd, len(page))
	_, err = r.pipelined(ctx, "reading idempotency keys", func(p redis.Pipeliner) []*redis.Cmd {
		for i, key := range page {
			records[i] = p.Get(ctx, key)
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	answers, err := r.pipelined(ctx, "ending idempotency keys", func(p redis.Pipeliner) (answers []*redis.Cmd) {
		for i, key := range page {
			record, err := records[i].Result()
			if err != nil {
				continue // gone, or no record of ours
			}
			holder, _ := parseHolder(record) // of one that cannot be read there is no row
			answers = append(answers, endKeyScript.Eval(ctx, p, []string{r.keys.row(holder.ID), key}, record))
		}
		return answers
	})
	return sum(answers), err
}

// pipelined runs what fill gives, unless that is nothing. The error is the first
// that is not the answer that there is none.
func (r *Redis) pipelined(ctx context.Context, what string, fill func(redis.Pipeliner) []*redis.Cmd) ([]*redis.Cmd, error) {
	var answers []*redis.Cmd
	err := r.do(ctx, what, func(ctx context.Context) error {
		p := r.client.Pipeline()
		answers = fill(p)
		all, err := p.Exec(ctx)
		if err == nil || errors.Is(err, redis.Nil) || isAnswer(err) {
			return firstFailure(all)
		}
		return err
	})
	return answers, err
}

func sum(answers []*redis.Cmd) (total int) {
	for _, answer := range answers {
		if n, err := answer.Int(); err == nil {
			total += n
		}
	}
	return total
}
