package check

import (
	"cmp"
	"fmt"
	"maps"
	"net"
	"net/http"
	"slices"
	"time"
)

// Violation is one thing that is not as it must be.
type Violation struct {
	// Kind is one of the constants below.
	Kind string
	// Session is its id, if it is about one.
	Session string
	Detail  string
	// Final: waiting cannot heal it.
	Final bool
}

func (v Violation) String() string {
	if v.Session == "" {
		return v.Kind + ": " + v.Detail
	}
	return fmt.Sprintf("%s: session %s: %s", v.Kind, v.Session, v.Detail)
}

// The kinds of violations.
const (
	ObjectWithoutRow = "object without a row"
	RowWithoutObject = "row without its object"
	RowUnreadable    = "row unreadable"
	RowStuck         = "row stuck"
	RowNotReady      = "row not ready"
	LabelLost        = "label not restored"
	LifetimesDiffer  = "object says other lifetimes"
	EntryWithoutRow  = "index entry without a row"
	RowWithoutEntry  = "row without an index entry"
	WrongEntry       = "index entry of another state"
	WrongEndpoint    = "endpoint is not the pod's"
	WrongSandbox     = "row names another sandbox"
	EndedEarly       = "live session ended early"
	NotEnded         = "session that ended is there"
	WrongAnswer      = "wrong answer of the router"
	StrangerTouched  = "object of a stranger is gone"
)

// Check returns every violation, in a stable order.
func Check(s Snapshot) []Violation {
	c := &checker{Snapshot: s}
	c.objects()
	c.rows()
	c.indexes()
	c.lists()
	c.sessions()
	c.strangers()
	slices.SortFunc(c.found, func(a, b Violation) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Session, b.Session), cmp.Compare(a.Detail, b.Detail))
	})
	return c.found
}

type checker struct {
	Snapshot
	found []Violation
}

func (c *checker) report(kind, id, format string, args ...any) {
	c.found = append(c.found, Violation{Kind: kind, Session: id, Detail: fmt.Sprintf(format, args...)})
}

func (c *checker) final(kind, id, format string, args ...any) {
	c.report(kind, id, format, args...)
	c.found[len(c.found)-1].Final = true
}

// objects: every object of ours has a row that names it. One that is on its
// way out needs none.
func (c *checker) objects() {
	for key, o := range c.Cluster.Objects {
		if o.SessionID == "" || o.Installation != c.Cluster.Installation || o.Deleting {
			continue
		}
		row, ok := c.Store.Rows[o.SessionID]
		switch {
		case !ok && c.Store.Unreadable[o.SessionID] != "":
		case !ok:
			c.report(ObjectWithoutRow, o.SessionID, "%s (%s)", key, o.UID)
		case row.Object() != key, row.ObjectUID != "" && row.ObjectUID != o.UID:
			c.report(ObjectWithoutRow, o.SessionID, "%s (%s), while the row names %s (%s)", key, o.UID, row.Object(), row.ObjectUID)
		}
	}
}

// rows: every row names an object that is there, says what it is, and leads to
// its pod.
func (c *checker) rows() {
	for id, why := range c.Store.Unreadable {
		c.final(RowUnreadable, id, "%s", why)
	}
	for id, row := range c.Store.Rows {
		object, ok := c.Cluster.Objects[row.Object()]
		switch {
		case !row.Live():
			c.report(RowStuck, id, "%s, of %s", row.Status, row.Object())
			continue
		case !ok, object.Deleting:
			c.report(RowWithoutObject, id, "%s (%s)", row.Object(), row.ObjectUID)
			continue
		case row.ObjectUID != object.UID:
			c.report(RowWithoutObject, id, "%s is %s, not %q", row.Object(), object.UID, row.ObjectUID)
			continue
		case object.SessionID != id:
			c.report(LabelLost, id, "%s has the label %q", row.Object(), object.SessionID)
		}
		c.lifetimes(id, row, object)
		c.endpoints(id, row, object)
	}
}

// lifetimes: both sides say the same, and no change is on its way.
func (c *checker) lifetimes(id string, row Row, object Object) {
	if want := wholeSecond(row.ExpiresAt); object.ShutdownTime != want {
		c.report(LifetimesDiffer, id, "%s ends %q, its row %q", row.Object(), object.ShutdownTime, row.ExpiresAt)
	}
	if object.IdleTimeout != row.IdleTimeout {
		c.report(LifetimesDiffer, id, "%s is idle after %q, its row after %q", row.Object(), object.IdleTimeout, row.IdleTimeout)
	}
	if row.Pending != nil {
		c.report(LifetimesDiffer, id, "the row has a change that is not through: %v", row.Pending)
	}
}

// wholeSecond is the first full second that is not before the end of a row.
// Empty: it has none.
func wholeSecond(expires string) string {
	at, err := time.Parse(time.RFC3339, expires)
	if err != nil || at.Year() == 1 {
		return ""
	}
	return at.Add(time.Second - 1).Truncate(time.Second).UTC().Format(time.RFC3339)
}

func (c *checker) endpoints(id string, row Row, object Object) {
	if row.Status != "ready" {
		c.report(RowNotReady, id, "%s, of %s", row.Status, row.Object())
		return
	}
	if row.SandboxName != object.Sandbox {
		c.report(WrongSandbox, id, "%q, while %s is served by %q", row.SandboxName, row.Object(), object.Sandbox)
		return
	}
	served, ok := c.Cluster.Objects[Key("Sandbox", row.Namespace, object.Sandbox)]
	if !ok || served.UID != row.SandboxID {
		c.report(WrongSandbox, id, "%s is %q, not %q", object.Sandbox, served.UID, row.SandboxID)
	}
	pod, ok := c.Cluster.Pods[row.Namespace+"/"+object.Sandbox]
	if !ok || pod.Gone || pod.Address == "" {
		c.report(WrongEndpoint, id, "%v, while no pod of %s runs", row.EntryPoints, object.Sandbox)
		return
	}
	if len(row.EntryPoints) == 0 {
		c.report(WrongEndpoint, id, "none, while the pod has %s", pod.Address)
	}
	for _, e := range row.EntryPoints {
		if host, _, err := net.SplitHostPort(e.Endpoint); err != nil || host != pod.Address {
			c.report(WrongEndpoint, id, "%s, while the pod has %s", e.Endpoint, pod.Address)
		}
	}
}

// indexes: an entry has a row, and a row the entries of its state.
func (c *checker) indexes() {
	for _, index := range Indexes {
		members := map[string]bool{}
		for _, id := range c.Store.Members[index] {
			members[id] = true
			_, ok := c.Store.Rows[id]
			if !ok && c.Store.Unreadable[id] == "" {
				c.report(EntryWithoutRow, id, "%s", index)
			}
		}
		for id, row := range c.Store.Rows {
			switch wanted := indexed(index, row); {
			case wanted && !members[id]:
				c.report(RowWithoutEntry, id, "%s, in %s", row.Status, index)
			case !wanted && members[id]:
				c.report(WrongEntry, id, "%s, in %s", row.Status, index)
			}
		}
	}
}

// indexed tells whether a row belongs into an index.
func indexed(index string, row Row) bool {
	expires := row.ExpiresAt != "" && row.ExpiresAt != "0001-01-01T00:00:00Z"
	idle, _ := time.ParseDuration(row.IdleTimeout)
	switch index {
	case IndexExpiry:
		return expires
	case IndexDue:
		return !row.Live() || expires || idle > 0
	case IndexCreating:
		return row.Status == "creating"
	default:
		return true
	}
}

// sessions: each has met its fate.
func (c *checker) sessions() {
	for _, e := range c.Sessions {
		row, there := c.Store.Rows[e.ID]
		switch {
		case e.Fate == Lives && !there:
			c.final(EndedEarly, e.ID, "no row (%s)", e.Why)
			continue
		case e.Fate == Lives && row.Status == "deleting":
			c.final(EndedEarly, e.ID, "it is being deleted (%s)", e.Why)
			continue
		case e.Fate == Gone && there:
			c.report(NotEnded, e.ID, "%s (%s)", row.Status, e.Why)
		}
		if answer, asked := c.Answers[e.ID]; asked {
			c.answer(e, row, there, answer)
		}
	}
}

func (c *checker) answer(e Expectation, row Row, there bool, a Answer) {
	switch {
	case a.Failure != "":
		c.report(WrongAnswer, e.ID, "%s (%s)", a.Failure, e.Why)
	case !there:
		if a.Status != http.StatusNotFound || a.Code != "SESSION_NOT_FOUND" {
			c.report(WrongAnswer, e.ID, "%d %s by pod %q of a session without a row (%s)", a.Status, a.Code, a.Pod, e.Why)
		}
	case e.Fate == Gone:
		// Reported already.
	case a.Status != http.StatusOK || a.Code != "":
		c.report(WrongAnswer, e.ID, "%d %s of a live session (%s)", a.Status, a.Code, e.Why)
	case a.Session != e.ID:
		c.report(WrongAnswer, e.ID, "it names session %q", a.Session)
	default:
		object := c.Cluster.Objects[row.Object()]
		pod := c.Cluster.Pods[row.Namespace+"/"+object.Sandbox]
		if a.Pod != object.Sandbox || a.UID != pod.UID {
			c.report(WrongAnswer, e.ID, "pod %s (%s) answered, not %s (%s)", a.Pod, a.UID, object.Sandbox, pod.UID)
		}
	}
}

func (c *checker) strangers() {
	for _, key := range slices.Sorted(maps.Keys(toSet(c.Strangers))) {
		if o, ok := c.Cluster.Objects[key]; !ok || o.Deleting {
			c.final(StrangerTouched, "", "%s", key)
		}
	}
}

func toSet(keys []string) map[string]bool {
	set := make(map[string]bool, len(keys))
	for _, k := range keys {
		set[k] = true
	}
	return set
}
