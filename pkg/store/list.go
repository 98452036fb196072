package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"github.com/agentcube/agentcube/pkg/session"
)

// Bounds of the work of one List.
const (
	// listStep is how many members of lists one script looks at, and how many
	// rows one command reads; the server does nothing else meanwhile, for about
	// a millisecond.
	listStep = 500
	// listShare is how many of those rows are decoded one after another.
	listShare = 125
	// listMembers bounds how many members of the shortest list are looked up in
	// the others, when hardly any is in all of them.
	listMembers = 100_000
	// listRows bounds how many rows are read beyond the limit: those of entries
	// that are out of date.
	listRows = 5_000
)

// listScript looks at the members of the shortest of the lists KEYS, from the
// bound ARGV[1] on, in the form of ZRANGEBYLEX, at most ARGV[2] of them. It
// returns {more, last, members}: the members that are in all lists, at most
// ARGV[3]; the last one that was looked at, ” if there was none; and whether
// there may be more after it. It writes nothing.
var listScript = redis.NewScript(`
local shortest, least
for i = 1, #KEYS do
  local length = redis.call('ZCARD', KEYS[i])
  if not least or length < least then shortest, least = i, length end
end
local found = redis.call('ZRANGEBYLEX', KEYS[shortest], ARGV[1], '+', 'LIMIT', 0, ARGV[2])
local more, last = 0, found[#found] or ''
if #found == tonumber(ARGV[2]) then more = 1 end
for i = 1, #KEYS do
  if i ~= shortest and #found > 0 then
    local common = {}
    for j, score in ipairs(redis.call('ZMSCORE', KEYS[i], unpack(found))) do
      if score then common[#common + 1] = found[j] end
    end
    found = common
  end
end
local wanted = tonumber(ARGV[3])
if #found > wanted then
  more, last = 1, found[wanted]
  for i = #found, wanted + 1, -1 do found[i] = nil end
end
return {more, last, found}
`)

// List returns the sessions that match the query and come after its place, in
// the order of creation, up to its limit. The rows decide: an entry whose row
// does not match, is gone or cannot be read is passed over. A session that
// matches all the time is on one page of a walk, and no session is on two.
//
// A page may be short before the end, when its filters have very little in
// common: work is bounded, and the next page goes on from there.
func (r *Redis) List(ctx context.Context, q session.Query) (session.Page, error) {
	if q.Limit < 1 {
		return session.Page{}, fmt.Errorf("listing sessions: a page of %d: %w", q.Limit, ErrInvalid)
	}
	w := listing{Redis: r, query: q, names: r.keys.lists(q.Lists()), after: q.After}
	for {
		finished, err := w.step(ctx)
		if err != nil {
			return session.Page{}, err
		}
		if finished {
			return w.page, nil
		}
	}
}

// listing is one List under way.
type listing struct {
	*Redis

	query session.Query
	names []string // keys of the lists
	after session.Position
	page  session.Page
	// members looked at, and rows read, so far
	members, rows int
}

// step looks at some members and reads the rows of those that are in all lists.
func (w *listing) step(ctx context.Context) (finished bool, err error) {
	// One more than are missing, to know whether anything follows.
	wanted := min(w.query.Limit-len(w.page.Sessions)+1, listStep)
	looked := wanted
	if len(w.names) > 1 {
		looked = listStep
	}
	found, more, err := w.common(ctx, looked, wanted)
	if err != nil {
		return false, err
	}
	rows, err := w.listed(ctx, found)
	if err != nil {
		return false, err
	}
	for _, row := range rows {
		if len(w.page.Sessions) == w.query.Limit {
			w.page.Next = w.page.Sessions[w.query.Limit-1].Position()
			return true, nil
		}
		w.page.Sessions = append(w.page.Sessions, row)
	}
	w.members += looked
	w.rows += len(found)
	switch {
	case !more:
		return true, nil
	case len(w.page.Sessions) == w.query.Limit, w.members >= listMembers, w.rows >= w.query.Limit+listRows:
		w.page.Next = w.after
		return true, nil
	}
	return false, nil
}

// common moves on by some members of the shortest list, and returns those that
// are in all. more: there may be others after them.
func (w *listing) common(ctx context.Context, looked, wanted int) (found []session.Position, more bool, err error) {
	from := "-"
	if w.after.ID != "" {
		from = "(" + member(w.after)
	}
	err = w.do(ctx, "listing sessions", func(ctx context.Context) error {
		found = nil
		answer, err := listScript.Run(ctx, w.client, w.names, from, looked, wanted).Slice()
		if err != nil {
			return err
		}
		if len(answer) != 3 {
			return fmt.Errorf("a list answers %v: %w", answer, ErrCorrupt)
		}
		more = answer[0] == int64(1)
		if last, ok := position(answer[1]); ok {
			w.after = last
		} else if more {
			return fmt.Errorf("a list has the member %q: %w", answer[1], ErrCorrupt)
		}
		members, _ := answer[2].([]any)
		for _, m := range members {
			if p, ok := position(m); ok {
				found = append(found, p)
			}
		}
		return nil
	})
	return found, more, err
}

// listed reads the rows at the places and returns those that match.
func (w *listing) listed(ctx context.Context, at []session.Position) ([]session.Listed, error) {
	if len(at) == 0 {
		return nil, nil
	}
	names, scores := make([]string, len(at)), []any{"ZMSCORE", w.keys.activity}
	for i, p := range at {
		names[i] = w.keys.row(p.ID)
		scores = append(scores, p.ID)
	}
	var found []session.Listed
	err := w.do(ctx, "reading the rows of a list", func(ctx context.Context) error {
		var rows *redis.SliceCmd
		var activity *redis.Cmd
		var clock *redis.TimeCmd
		if _, err := w.client.Pipelined(ctx, func(p redis.Pipeliner) error {
			rows, activity, clock = p.MGet(ctx, names...), p.Do(ctx, scores...), p.Time(ctx)
			return nil
		}); err != nil {
			return err
		}
		lasts, err := activity.Slice()
		if err != nil || len(lasts) != len(at) {
			return fmt.Errorf("the activity of %d sessions is %d: %w", len(at), len(lasts), errors.Join(err, ErrCorrupt))
		}
		found, err = w.matching(at, rows.Val(), lasts, clock.Val())
		return err
	})
	return found, err
}

// matching returns those of the rows that match, in order. Decoding is most of
// the work of a list, so it is done by several at a time.
func (w *listing) matching(at []session.Position, rows, lasts []any, now time.Time) ([]session.Listed, error) {
	found := make([]session.Listed, len(at))
	var group errgroup.Group
	for first := 0; first < len(at); first += listShare {
		group.Go(func() error {
			for i := first; i < min(first+listShare, len(at)); i++ {
				s, ok := w.match(rows[i], at[i])
				if !ok {
					continue
				}
				last, err := w.activityOf(lasts[i], now)
				if err != nil {
					return err
				}
				found[i] = session.Listed{Session: s, LastActivity: last}
			}
			return nil
		})
	}
	err := group.Wait()
	return slices.DeleteFunc(found, func(l session.Listed) bool { return l.ID == "" }), err
}

// match decodes a row that was found at a place, if it belongs there and is
// asked for.
func (w *listing) match(row any, at session.Position) (session.Session, bool) {
	text, ok := row.(string)
	if !ok {
		return session.Session{}, false // removed meanwhile
	}
	s, err := decode(at.ID, []byte(text))
	return s, err == nil && s.Position().Compare(at) == 0 && w.query.Matches(s)
}

// activityOf reads the answer of ZMSCORE for one session: nil, or a score, as a
// number or as text, depending on the protocol.
func (w *listing) activityOf(score any, now time.Time) (time.Time, error) {
	if score == nil {
		return time.Time{}, nil
	}
	last, err := parseScore(fmt.Sprint(score))
	return w.clamp(last, now.UTC()), err
}

// States is how many sessions there are in each state, as the lists have it.
func (r *Redis) States(ctx context.Context) (map[session.State]int, error) {
	counts := make(map[session.State]int, len(session.States))
	err := r.do(ctx, "counting sessions", func(ctx context.Context) error {
		answers := make([]*redis.IntCmd, len(session.States))
		_, err := r.client.Pipelined(ctx, func(p redis.Pipeliner) error {
			for i, state := range session.States {
				answers[i] = p.ZCard(ctx, r.keys.list(session.List{Field: session.ByState, Value: string(state)}))
			}
			return nil
		})
		for i, state := range session.States {
			counts[state] = int(answers[i].Val())
		}
		return err
	})
	if err != nil {
		return nil, err // a count that is missing must not look like none
	}
	return counts, nil
}

// moves are the lists that a change takes a session out of, and those that it
// puts it into. Most changes are none of that.
func moves(have, next session.Session) (left, joined []session.List) {
	before, after := have.Lists(), next.Lists()
	if have.Position().Compare(next.Position()) != 0 {
		return before, after // under another member
	}
	for _, l := range before {
		if !slices.Contains(after, l) {
			left = append(left, l)
		}
	}
	for _, l := range after {
		if !slices.Contains(before, l) {
			joined = append(joined, l)
		}
	}
	return left, joined
}
