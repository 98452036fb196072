package check

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"
)

// ListPrefix is how the keys of all lists begin.
const ListPrefix = "agentcube:list"

// lists: a list has the rows of its value, each at its time of creation, and no
// others.
func (c *checker) lists() {
	wanted := c.wantedLists()
	for list, members := range c.Store.Lists {
		there := map[string]bool{}
		for _, member := range members {
			there[member] = true
			if _, ok := wanted[list][member]; !ok {
				c.unwanted(list, member)
			}
		}
		for member := range there {
			delete(wanted[list], member)
		}
	}
	for list, members := range wanted {
		for _, id := range members {
			c.report(RowWithoutEntry, id, "%s, in %s", c.Store.Rows[id].Status, list)
		}
	}
}

// wantedLists are the sessions of each member of each list.
func (c *checker) wantedLists() map[string]map[string]string {
	wanted := map[string]map[string]string{}
	for id, row := range c.Store.Rows {
		member, err := listMember(id, row)
		if err != nil {
			c.final(RowUnreadable, id, "createdAt: %s", err)
			continue
		}
		for _, list := range listsOf(row) {
			if wanted[list] == nil {
				wanted[list] = map[string]string{}
			}
			wanted[list][member] = id
		}
	}
	return wanted
}

// unwanted reports an entry that no row has.
func (c *checker) unwanted(list, member string) {
	id := member[min(len(member), timeDigits):]
	row, ok := c.Store.Rows[id]
	switch {
	case ok:
		c.report(WrongEntry, id, "%s, in %s at %s", row.Status, list, member)
	case c.Store.Unreadable[id] == "":
		c.report(EntryWithoutRow, id, "%s", list)
	}
}

// timeDigits of a member come before the id.
const timeDigits = 18

// listMember is the time of creation, in seconds since the year 0 and
// nanoseconds, and the id.
func listMember(id string, row Row) (string, error) {
	at, err := time.Parse(time.RFC3339, row.CreatedAt)
	if err != nil {
		return "", err
	}
	year0 := time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC).Unix()
	return fmt.Sprintf("%010x%08x%s", at.Unix()-year0, at.Nanosecond(), id), nil
}

func listsOf(row Row) []string {
	names := []string{ListPrefix}
	for _, f := range [][2]string{
		{"namespace", row.Namespace},
		{"kind", row.Workload.Kind},
		{"name", row.Workload.Name},
		{"state", row.Status},
		{"owner", ownerHash(row.OwnerID)},
	} {
		if f[1] != "" {
			names = append(names, ListPrefix+":"+f[0]+":"+f[1])
		}
	}
	return names
}

func ownerHash(owner string) string {
	if owner == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(owner))
	return hex.EncodeToString(sum[:16])
}
