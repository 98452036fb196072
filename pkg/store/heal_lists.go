package store

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"maps"
	"slices"

	"github.com/redis/go-redis/v9"
)

// listKeys is how many lists are read with one round trip.
const listKeys = 50

// relistScript adds the member ARGV[2] to the lists KEYS[2..], or, with ARGV[3]
// 'drop', removes it from them, if the row KEYS[1] still is ARGV[1] (”: absent).
// Returns the number of entries changed. A second run finds nothing left to do:
// 0.
var relistScript = redis.NewScript(`
if (redis.call('GET', KEYS[1]) or '') ~= ARGV[1] then return 0 end
local changed = 0
for i = 2, #KEYS do
  if ARGV[3] == 'drop' then changed = changed + redis.call('ZREM', KEYS[i], ARGV[2])
  else changed = changed + redis.call('ZADD', KEYS[i], 0, ARGV[2]) end
end
return changed
`)

const (
	addEntries  = "add"
	dropEntries = "drop"
)

// wanted is the entries that the rows of a pass have in lists, as hashes: some
// fifty bytes for each row. What it does not hold is looked at again, and what
// it holds by mistake, once in 2^64 entries, is passed over until the next pass.
type wanted struct {
	seed   maphash.Seed
	hashes []uint64
}

func newWanted() *wanted { return &wanted{seed: maphash.MakeSeed()} }

func (w *wanted) hash(list, member string) uint64 {
	var h maphash.Hash
	h.SetSeed(w.seed)
	_, _ = h.WriteString(list) // never fails
	_ = h.WriteByte(0)
	_, _ = h.WriteString(member)
	return h.Sum64()
}

func (w *wanted) add(list, member string) { w.hashes = append(w.hashes, w.hash(list, member)) }

// seal must come between add and has.
func (w *wanted) seal() { slices.Sort(w.hashes) }

func (w *wanted) has(list, member string) bool {
	_, found := slices.BinarySearch(w.hashes, w.hash(list, member))
	return found
}

// relisting is what is to become of one member in some lists, if the row still
// is the one that was read.
type relisting struct {
	id, row, member string
	lists           []string
}

// entry is that of a row in a list.
type entry struct {
	row    *indexedRow
	member string
}

// healLists adds the rows of a page to the lists that they are missing from.
func (r *Redis) healLists(ctx context.Context, rows []indexedRow, wanted *wanted) (int, error) {
	entries := map[string][]entry{} // by list
	for i := range rows {
		if rows[i].session == nil {
			continue
		}
		m := member(rows[i].session.Position())
		for _, name := range r.keys.lists(rows[i].session.Lists()) {
			wanted.add(name, m)
			entries[name] = append(entries[name], entry{&rows[i], m})
		}
	}
	if len(entries) == 0 {
		return 0, nil
	}
	missing, err := r.missing(ctx, entries)
	if err != nil {
		return 0, err
	}
	return r.relist(ctx, addEntries, missing)
}

// missing returns what must be added, row by row.
func (r *Redis) missing(ctx context.Context, entries map[string][]entry) ([]relisting, error) {
	missing := map[*indexedRow]relisting{}
	err := r.do(ctx, "reading lists", func(ctx context.Context) error {
		answers := make(map[string]*redis.Cmd, len(entries))
		if _, err := r.client.Pipelined(ctx, func(p redis.Pipeliner) error {
			for name, of := range entries {
				words := []any{"ZMSCORE", name}
				for _, e := range of {
					words = append(words, e.member)
				}
				answers[name] = p.Do(ctx, words...)
			}
			return nil
		}); err != nil {
			return err
		}
		for name, answer := range answers {
			scores, err := answer.Slice()
			if err != nil || len(scores) != len(entries[name]) {
				return fmt.Errorf("%d scores of %d entries: %w", len(scores), len(entries[name]), errors.Join(err, ErrCorrupt))
			}
			note(missing, name, entries[name], scores)
		}
		return nil
	})
	return slices.Collect(maps.Values(missing)), err
}

// note puts the entries that a list lacks to those of their rows.
func note(missing map[*indexedRow]relisting, list string, entries []entry, scores []any) {
	for i, e := range entries {
		if scores[i] != nil {
			continue
		}
		x := missing[e.row]
		x.id, x.row, x.member = e.row.id, e.row.row.Val(), e.member
		x.lists = append(x.lists, list)
		missing[e.row] = x
	}
}

// dropUnwanted drops what no row wants from the lists: entries without a row,
// and those of another state or other values.
func (r *Redis) dropUnwanted(ctx context.Context, wanted *wanted) (dropped int, err error) {
	wanted.seal()
	for cursor := uint64(0); ; {
		var names []string
		err := r.do(ctx, "scanning lists", func(ctx context.Context) (err error) {
			names, cursor, err = r.client.Scan(ctx, cursor, r.keys.listPattern(), int64(r.options.Page)).Result()
			return err
		})
		if err != nil {
			return dropped, err
		}
		for some := range slices.Chunk(names, listKeys) {
			n, err := r.dropFrom(ctx, some, wanted)
			dropped += n
			if err != nil {
				return dropped, err
			}
		}
		if cursor == 0 {
			return dropped, nil
		}
	}
}

// dropFrom drops what is not wanted from some lists, a page of each at a time.
func (r *Redis) dropFrom(ctx context.Context, names []string, wanted *wanted) (dropped int, err error) {
	cursors := make(map[string]uint64, len(names))
	for _, name := range names {
		cursors[name] = 0
	}
	for len(cursors) > 0 {
		pages, err := r.listPages(ctx, cursors)
		if err != nil {
			return dropped, err
		}
		var doubtful []relisting
		for name, page := range pages {
			members, next := page.Val()
			if cursors[name] = next; next == 0 {
				delete(cursors, name)
			}
			for i := 0; i < len(members); i += 2 { // each with its score
				if !wanted.has(name, members[i]) {
					doubtful = append(doubtful, relisting{member: members[i], lists: []string{name}})
				}
			}
		}
		n, err := r.dropStale(ctx, doubtful)
		dropped += n
		if err != nil {
			return dropped, err
		}
	}
	return dropped, nil
}

// listPages reads a page of each list.
func (r *Redis) listPages(ctx context.Context, cursors map[string]uint64) (map[string]*redis.ScanCmd, error) {
	pages := make(map[string]*redis.ScanCmd, len(cursors))
	err := r.do(ctx, "reading lists", func(ctx context.Context) error {
		_, err := r.client.Pipelined(ctx, func(p redis.Pipeliner) error {
			for name, cursor := range cursors {
				pages[name] = p.ZScan(ctx, name, cursor, "", int64(r.options.Page))
			}
			return nil
		})
		return err
	})
	return pages, err
}

// dropStale reads the row of each entry, and drops those that it does not want.
func (r *Redis) dropStale(ctx context.Context, doubtful []relisting) (int, error) {
	if len(doubtful) == 0 {
		return 0, nil
	}
	var stale []relisting
	err := r.do(ctx, "reading rows", func(ctx context.Context) error {
		stale = nil
		answers := make([]*redis.StringCmd, len(doubtful))
		commands, err := r.client.Pipelined(ctx, func(p redis.Pipeliner) error {
			for i := range doubtful {
				at, _ := position(doubtful[i].member) // what is no member has no row
				doubtful[i].id = at.ID
				answers[i] = p.Get(ctx, r.keys.row(at.ID))
			}
			return nil
		})
		if err != nil && !isAnswer(err) {
			return err
		}
		if err := firstFailure(commands); err != nil {
			return err
		}
		for i, answer := range answers {
			if row, drop := r.unwanted(doubtful[i], answer); drop {
				doubtful[i].row = row
				stale = append(stale, doubtful[i])
			}
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	return r.relist(ctx, dropEntries, stale)
}

// unwanted reports whether the row, which it returns, does not want the entry.
// One that cannot be read wants everything.
func (r *Redis) unwanted(entry relisting, answer *redis.StringCmd) (row string, drop bool) {
	row, err := answer.Result()
	if errors.Is(err, redis.Nil) {
		return "", true
	}
	if err != nil {
		return "", false
	}
	s, err := decode(entry.id, []byte(row))
	if err != nil {
		return "", false
	}
	return row, member(s.Position()) != entry.member || !slices.Contains(r.keys.lists(s.Lists()), entry.lists[0])
}

// relist makes the changes and returns how many entries they changed.
func (r *Redis) relist(ctx context.Context, change string, work []relisting) (changed int, err error) {
	for some := range slices.Chunk(work, r.options.Page) {
		err = r.do(ctx, "healing lists", func(ctx context.Context) error {
			answers := make([]*redis.Cmd, len(some))
			_, err := r.client.Pipelined(ctx, func(p redis.Pipeliner) error {
				for i, x := range some {
					// By its source: a pipeline cannot load a script that is missing.
					answers[i] = relistScript.Eval(ctx, p, append([]string{r.keys.row(x.id)}, x.lists...), x.row, x.member, change)
				}
				return nil
			})
			for _, answer := range answers {
				if n, err := answer.Int(); err == nil {
					changed += n
				}
			}
			return err
		})
		if err != nil {
			return changed, err
		}
	}
	return changed, nil
}
