package check

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// fillLists gives rows that were spoilt the lists that they have then.
func fillLists(s *Snapshot) {
	s.Store.Lists = map[string][]string{}
	for id, row := range s.Store.Rows {
		if row.CreatedAt == "" {
			row.CreatedAt = "2026-03-04T05:06:07.5Z"
			s.Store.Rows[id] = row
		}
		member, err := listMember(id, row)
		if err != nil {
			continue
		}
		for _, list := range listsOf(row) {
			s.Store.Lists[list] = append(s.Store.Lists[list], member)
		}
	}
}

func TestListsAreThoseOfTheRows(t *testing.T) {
	t.Parallel()
	row := Row{
		Namespace: "n", Status: "ready", OwnerID: "owner", CreatedAt: "0000-01-01T00:00:01.000000016Z",
		Workload: Workload{Kind: "AgentRuntime", Namespace: "n", Name: "echo"},
	}
	const member = "0000000001" + "00000010" + direct
	all := []string{
		"agentcube:list", "agentcube:list:namespace:n", "agentcube:list:kind:AgentRuntime", "agentcube:list:name:echo",
		"agentcube:list:state:ready", "agentcube:list:owner:4c1029697ee358715d3a14a2add817c4",
	}
	for what, c := range map[string]struct {
		spoil func(*Store)
		want  []string
	}{
		"nothing":                    {func(*Store) {}, nil},
		"a row that its list lacks":  {func(s *Store) { s.Lists[all[1]] = nil }, []string{RowWithoutEntry}},
		"no list at all":             {func(s *Store) { delete(s.Lists, all[4]) }, []string{RowWithoutEntry}},
		"an entry of another state":  {func(s *Store) { s.Lists["agentcube:list:state:deleting"] = []string{member} }, []string{WrongEntry}},
		"an entry at another time":   {func(s *Store) { s.Lists[all[0]] = []string{"1" + member[1:]} }, []string{WrongEntry, RowWithoutEntry}},
		"an entry without a row":     {func(s *Store) { s.Lists[all[0]] = append(s.Lists[all[0]], member[:18]+ended) }, []string{EntryWithoutRow}},
		"what is no member":          {func(s *Store) { s.Lists["agentcube:list:x:y"] = []string{"x"} }, []string{EntryWithoutRow}},
		"a row that cannot be read":  {func(s *Store) { s.Unreadable[direct] = "x"; delete(s.Rows, direct) }, nil},
		"a row of an unknown moment": {func(s *Store) { edit(s.Rows, direct, func(r *Row) { r.CreatedAt = "" }); s.Lists = nil }, []string{RowUnreadable}},
	} {
		s := Store{Rows: map[string]Row{direct: row}, Unreadable: map[string]string{}, Lists: map[string][]string{}}
		for _, list := range all {
			s.Lists[list] = []string{member}
		}
		c.spoil(&s)
		k := &checker{Snapshot: Snapshot{Store: s}}
		k.lists()
		var kinds []string
		for _, v := range k.found {
			kinds = append(kinds, v.Kind)
		}
		assert.Equal(t, c.want, kinds, what)
	}
}
