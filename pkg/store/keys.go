package store

import (
	"strings"

	"github.com/agentcube/agentcube/pkg/session"
)

// The key space. The first three are shared with existing installations and
// are read and written by their programs too; the others are ours.
//
//	session:<id>           string  the row, JSON, no TTL
//	session:expiry         zset    id -> expiresAt; absent when unlimited
//	session:last_activity  zset    id -> last activity; routers write it with
//	                               XX GT, so that it neither comes back after
//	                               the row has gone nor moves backwards
//	agentcube:due          zset    id -> when the collector must look next
//	agentcube:creating     zset    id -> createdAt, of rows that are creating
//	agentcube:process:<p>  string  heartbeat of a process, TTL 20 s
//	agentcube:installation string  the id of the installation it belongs to
//	agentcube:list         zset    all sessions, in the order of creation: see
//	                               member; every score is 0
//	agentcube:list:<f>:<v> zset    likewise, of the sessions with the value v
//	                               in the field f: namespace, kind and name (of
//	                               the workload), state, owner (by hash)
//	agentcube:ended:<id>   string  why a session that has no row ended, and a
//	                               hash of its owner, JSON; TTL 1 h
//
// Other scores are unix seconds: deadlines and createdAt rounded up, so that nothing
// is due too early, activity rounded down, as existing routers write it.
//
// A script is given all its keys. In a Cluster the tag of a shard would stand
// in each name, rows and indexes alike, with one keys value per shard; this is
// the layout of the one shard there is.
type keys struct {
	rowPrefix     string
	expiry        string
	activity      string
	due           string
	creating      string
	processPrefix string
	installation  string
	listPrefix    string
	endedPrefix   string
}

func newKeys() keys {
	return keys{
		rowPrefix:     "session:",
		expiry:        "session:expiry",
		activity:      "session:last_activity",
		due:           "agentcube:due",
		creating:      "agentcube:creating",
		processPrefix: "agentcube:process:",
		installation:  "agentcube:installation",
		listPrefix:    "agentcube:list",
		endedPrefix:   "agentcube:ended:",
	}
}

func (k keys) row(id string) string { return k.rowPrefix + id }

// ids of the rows among the keys.
func (k keys) ids(names []string) []string {
	ids := make([]string, 0, len(names))
	for _, name := range names {
		if id, ok := strings.CutPrefix(name, k.rowPrefix); ok && session.ValidID(id) {
			ids = append(ids, id)
		}
	}
	return ids
}

func (k keys) ended(id string) string { return k.endedPrefix + id }

func (k keys) process(process string) string { return k.processPrefix + process }

// indexes in the order in which scripts take them.
func (k keys) indexes() []string {
	return []string{k.expiry, k.activity, k.due, k.creating}
}

// session is the KEYS of every script that changes a session: row, expiry,
// activity, due, creating.
func (k keys) session(id string) []string {
	return append([]string{k.row(id)}, k.indexes()...)
}

// list is the key of a list.
func (k keys) list(l session.List) string {
	if l == (session.List{}) {
		return k.listPrefix
	}
	return k.listPrefix + ":" + l.Field + ":" + l.Value
}

func (k keys) lists(of []session.List) []string {
	names := make([]string, len(of))
	for i, l := range of {
		names[i] = k.list(l)
	}
	return names
}

// listPattern matches the keys of all lists.
func (k keys) listPattern() string { return k.listPrefix + "*" }
