package sessiontest

import (
	"context"
	"maps"
	"slices"

	"github.com/agentcube/agentcube/pkg/session"
)

// Lists are the places in each list that is not empty.
type Lists map[session.List]map[session.Position]bool

// Put adds a place to a list.
func (x Lists) Put(list session.List, at session.Position) {
	if x[list] == nil {
		x[list] = map[session.Position]bool{}
	}
	x[list][at] = true
}

func (x Lists) add(s session.Session) {
	for _, l := range s.Lists() {
		x.Put(l, s.Position())
	}
}

// move makes what a change makes of the lists, and no more: a row that stood in
// none joins only those that the change puts it into.
func (x Lists) move(have, next session.Session) {
	before, after := have.Lists(), next.Lists()
	moved := have.Position().Compare(next.Position()) != 0
	for _, l := range before {
		if moved || !slices.Contains(after, l) {
			x.remove(l, have.Position())
		}
	}
	for _, l := range after {
		if moved || !slices.Contains(before, l) {
			x.Put(l, next.Position())
		}
	}
}

func (x Lists) remove(list session.List, at session.Position) {
	delete(x[list], at)
	if len(x[list]) == 0 {
		delete(x, list)
	}
}

func (x Lists) dropID(id string) {
	for list, places := range x {
		for at := range places {
			if at.ID == id {
				x.remove(list, at)
			}
		}
	}
}

func (x Lists) clone() Lists {
	c := Lists{}
	for list, places := range x {
		c[list] = maps.Clone(places)
	}
	return c
}

// heal makes the lists those of the rows and returns how many entries changed.
func (x Lists) heal(rows map[string]entry) int {
	want, healed := Lists{}, 0
	for _, e := range rows {
		want.add(e.session)
	}
	for list, places := range want {
		for at := range places {
			if !x[list][at] {
				x.Put(list, at)
				healed++
			}
		}
	}
	for list, places := range x {
		for at := range places {
			if !want[list][at] {
				x.remove(list, at)
				healed++
			}
		}
	}
	return healed
}

// common are the places that are in all lists, in order.
func (x Lists) common(lists []session.List) []session.Position {
	var found []session.Position
	for at := range x[lists[0]] {
		if !slices.ContainsFunc(lists, func(l session.List) bool { return !x[l][at] }) {
			found = append(found, at)
		}
	}
	slices.SortFunc(found, session.Position.Compare)
	return found
}

// List is that of the store that the fake stands for, but for pages that are
// short before the end.
func (f *Fake) List(ctx context.Context, q session.Query) (session.Page, error) {
	if err := ctx.Err(); err != nil {
		return session.Page{}, err
	}
	if q.Limit < 1 {
		return session.Page{}, session.ErrInvalid
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	var page session.Page
	for _, at := range f.indexes.Lists.common(q.Lists()) {
		e, ok := f.rows[at.ID]
		if !ok || at.Compare(q.After) <= 0 || e.session.Position().Compare(at) != 0 || !q.Matches(e.session) {
			continue
		}
		if len(page.Sessions) == q.Limit {
			page.Next = page.Sessions[q.Limit-1].Position()
			break
		}
		last := f.indexes.Activity[at.ID]
		if now := floor(f.now()); last.After(now.Add(maxSkew)) {
			last = now
		}
		page.Sessions = append(page.Sessions, session.Listed{Session: e.session.Clone(), LastActivity: last})
	}
	return page, nil
}

// States is that of the store that the fake stands for.
func (f *Fake) States(ctx context.Context) (map[session.State]int, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	counts := map[session.State]int{}
	for _, state := range session.States {
		counts[state] = len(f.indexes.Lists[session.List{Field: session.ByState, Value: string(state)}])
	}
	return counts, nil
}
