package store

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/agentcube/agentcube/pkg/session"
)

// Index makes the indexes agree with the rows and returns the number of
// entries it added or dropped. Rows of existing installations lack those that
// are ours; an entry without a row is dropped. It reads in pages, may run
// beside everything else, and leaves alone what changes under it. Rows that
// cannot be read are passed over and reported, as ErrCorrupt, at the end.
//
// A live session whose last activity is not known counts as active now, since
// a router cannot record activity without an entry.
func (r *Redis) Index(ctx context.Context) (healed int, err error) {
	wanted := newWanted()
	healed, unreadable, err := r.healRows(ctx, wanted)
	if err != nil {
		return healed, err
	}
	for _, index := range r.keys.indexes() {
		dropped, err := r.dropOrphans(ctx, index)
		healed += dropped
		if err != nil {
			return healed, err
		}
	}
	dropped, err := r.dropUnwanted(ctx, wanted)
	healed += dropped
	if err != nil {
		return healed, err
	}
	return healed, unreadable
}

// healRows adds what is missing of the rows, and notes what they want of the
// lists. unreadable tells of rows that were passed over.
func (r *Redis) healRows(ctx context.Context, wanted *wanted) (healed int, unreadable, err error) {
	bad := 0
	for cursor := uint64(0); ; {
		var page []string
		err = r.do(ctx, "scanning rows", func(ctx context.Context) (err error) {
			page, cursor, err = r.client.Scan(ctx, cursor, r.keys.rowPrefix+"*", int64(r.options.Page)).Result()
			return err
		})
		if err != nil {
			return healed, unreadable, err
		}
		rows, err := r.indexed(ctx, page)
		if err != nil {
			return healed, unreadable, err
		}
		var repairs []repair
		for i := range rows {
			fix, err := r.compare(&rows[i])
			if err != nil {
				bad++
				unreadable = fmt.Errorf("%d rows were passed over, the last: %w", bad, err)
			} else if fix != nil {
				repairs = append(repairs, *fix)
			}
		}
		n, err := r.heal(ctx, repairs)
		healed += n
		if err == nil {
			n, err = r.healLists(ctx, rows, wanted)
			healed += n
		}
		if err != nil || cursor == 0 {
			return healed, unreadable, err
		}
	}
}

// indexedRow is a row with what the indexes say of it, in the order of
// keys.indexes; nil: there is no entry.
type indexedRow struct {
	id     string
	row    *redis.StringCmd
	scores [4]any
	now    time.Time
	// session is nil until compare has read the row.
	session *session.Session
}

// indexed reads the rows of a page of keys, those that are rows, and each index
// once for all of them.
func (r *Redis) indexed(ctx context.Context, page []string) ([]indexedRow, error) {
	now, err := r.Now(ctx)
	if err != nil {
		return nil, err
	}
	var rows []indexedRow
	for _, key := range page {
		if id := strings.TrimPrefix(key, r.keys.rowPrefix); session.ValidID(id) { // else it is an index
			rows = append(rows, indexedRow{id: id, now: now})
		}
	}
	if len(rows) == 0 {
		return nil, nil
	}
	err = r.do(ctx, "reading rows and indexes", func(ctx context.Context) error {
		var scores [4]*redis.Cmd
		answers, err := r.client.Pipelined(ctx, func(p redis.Pipeliner) error {
			for i := range rows {
				rows[i].row = p.Get(ctx, r.keys.row(rows[i].id))
			}
			for i, index := range r.keys.indexes() {
				scores[i] = p.Do(ctx, scoresOf(index, rows)...)
			}
			return nil
		})
		if err != nil && !isAnswer(err) {
			return err
		}
		if err := firstFailure(answers); err != nil {
			return err
		}
		return setScores(rows, scores)
	})
	return rows, err
}

// scoresOf asks an index for the entries of all rows. The method of the client
// for it does not tell an absent entry from one of score 0.
func scoresOf(index string, rows []indexedRow) []any {
	words := []any{"ZMSCORE", index}
	for _, row := range rows {
		words = append(words, row.id)
	}
	return words
}

func setScores(rows []indexedRow, answers [4]*redis.Cmd) error {
	for i, answer := range answers {
		scores, err := answer.Slice()
		if err != nil {
			return err
		}
		if len(scores) != len(rows) {
			return fmt.Errorf("%d scores of %d rows: %w", len(scores), len(rows), ErrCorrupt)
		}
		for j := range rows {
			rows[j].scores[i] = scores[j]
		}
	}
	return nil
}

// firstFailure is the first error of a pipeline that is not an answer about
// one row, such as that there is none.
func firstFailure(commands []redis.Cmder) error {
	for _, c := range commands {
		err := c.Err()
		if err != nil && !errors.Is(err, redis.Nil) && !hasCode(err, "WRONGTYPE") {
			return err
		}
	}
	return nil
}

// repair is what is to become of the entries of a row, if it still is the one
// that was read.
type repair struct {
	id, row string
	want    [4]string
}

// compare returns the repair that a row needs, or nil. The error is that of a
// row that cannot be read.
func (r *Redis) compare(row *indexedRow) (*repair, error) {
	text, err := row.row.Result()
	if errors.Is(err, redis.Nil) {
		return nil, nil // removed meanwhile
	}
	if err != nil {
		return nil, fmt.Errorf("session %s: %w: %w", row.id, ErrCorrupt, err)
	}
	s, err := decode(row.id, []byte(text))
	if err != nil {
		return nil, err
	}
	row.session = &s
	activity := row.now.Truncate(time.Second)
	if score := row.scores[1]; score != nil {
		// As a number or as text, depending on the protocol.
		recorded, err := parseScore(fmt.Sprint(score))
		if err != nil {
			return nil, err
		}
		activity = r.clamp(recorded, row.now)
	}
	e := r.entries(s, activity, row.now)
	fix := &repair{id: row.id, row: text, want: [4]string{e.expiry, floor(activity), e.due, e.creating}}
	for i, score := range row.scores {
		if (fix.want[i] != noEntry) != (score != nil) {
			return fix, nil
		}
	}
	return nil, nil
}

// dropOrphans drops the members of an index that have no row.
func (r *Redis) dropOrphans(ctx context.Context, index string) (dropped int, err error) {
	for cursor := uint64(0); ; {
		var page []string
		err = r.do(ctx, "scanning "+index, func(ctx context.Context) (err error) {
			page, cursor, err = r.client.ZScan(ctx, index, cursor, "", int64(r.options.Page)).Result()
			return err
		})
		if err != nil {
			return dropped, err
		}
		orphans, err := r.withoutRow(ctx, page)
		if err != nil {
			return dropped, err
		}
		n, err := r.heal(ctx, orphans)
		dropped += n
		if err != nil || cursor == 0 {
			return dropped, err
		}
	}
}

// withoutRow returns the members of a page, of members and scores in turn,
// the repairs of those that have no row.
func (r *Redis) withoutRow(ctx context.Context, page []string) ([]repair, error) {
	var orphans []repair
	rows := make(map[string]*redis.IntCmd, len(page)/2)
	err := r.do(ctx, "looking for rows", func(ctx context.Context) error {
		_, err := r.client.Pipelined(ctx, func(p redis.Pipeliner) error {
			for i := 0; i < len(page); i += 2 {
				rows[page[i]] = p.Exists(ctx, r.keys.row(page[i]))
			}
			return nil
		})
		return err
	})
	if err != nil {
		return nil, err
	}
	for id, row := range rows {
		if row.Val() == 0 {
			orphans = append(orphans, repair{id: id})
		}
	}
	return orphans, nil
}

// heal makes the repairs and returns how many entries they changed.
func (r *Redis) heal(ctx context.Context, repairs []repair) (healed int, err error) {
	if len(repairs) == 0 {
		return 0, nil
	}
	err = r.do(ctx, "healing indexes", func(ctx context.Context) error {
		answers := make([]*redis.Cmd, len(repairs))
		_, err := r.client.Pipelined(ctx, func(p redis.Pipeliner) error {
			for i, x := range repairs {
				// By its source: a pipeline cannot load a script that is missing.
				answers[i] = healScript.Eval(ctx, p, r.keys.session(x.id), x.id, x.row, x.want[0], x.want[1], x.want[2], x.want[3])
			}
			return nil
		})
		for _, answer := range answers {
			if n, err := answer.Int(); err == nil {
				healed += n
			}
		}
		return err
	})
	return healed, err
}
