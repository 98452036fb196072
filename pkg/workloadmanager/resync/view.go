package resync

import (
	"encoding/hex"
	"hash/maphash"
	"iter"

	"github.com/agentcube/agentcube/pkg/session"
)

// view is what a list showed of all objects, in 32 bytes each: a hundred
// thousand fit into a few megabytes. It keeps hashes instead of names. Two that
// collide are one object to it, which costs a read or delays a removal to the
// next pass, whose hashes are other ones; nothing is removed on its word alone.
type view struct {
	seed    maphash.Seed
	objects map[uint64]shown
	// ours are the objects that this installation may judge, of any age.
	ours int
}

// shown is one object.
type shown struct {
	id    [16]byte // of the session that its label names; zero: of none
	uid   uint32   // hash
	marks marks
}

type marks uint8

const (
	// markOurs: it bears this installation's id.
	markOurs marks = 1 << iota
	// markYoung: its creation may still be under way.
	markYoung
	// markNamed: a row names it.
	markNamed
	// markOrphan: a look at the row its label names found that none names it.
	markOrphan
)

func newView() *view { return &view{seed: maphash.MakeSeed(), objects: map[uint64]shown{}} }

// key of an object in the view: its name, without its UID.
func (v *view) key(ref session.ObjectRef) uint64 {
	ref.UID = ""
	return maphash.Comparable(v.seed, ref)
}

func (v *view) uid(uid string) uint32 { return uint32(maphash.String(v.seed, uid)) }

// add notes an object that was listed, with the id of the session it carries.
func (v *view) add(ref session.ObjectRef, sessionID string, m marks) {
	if m&markOurs != 0 {
		v.ours++
	}
	v.objects[v.key(ref)] = shown{id: pack(sessionID), uid: v.uid(ref.UID), marks: m}
}

// name notes that a row names an object, and reports whether the list showed
// it. A row that records no UID names whatever bears the name.
func (v *view) name(ref session.ObjectRef) bool {
	key := v.key(ref)
	o, ok := v.objects[key]
	if !ok || !v.same(o, ref) {
		return false
	}
	o.marks |= markNamed
	v.objects[key] = o
	return true
}

// carries is name, and reports as well whether the object's label names the
// session: somebody may have changed it while nobody watched.
func (v *view) carries(ref session.ObjectRef, id string) bool {
	return v.name(ref) && v.objects[v.key(ref)].id == pack(id)
}

func (v *view) same(o shown, ref session.ObjectRef) bool {
	return ref.UID == "" || o.uid == v.uid(ref.UID)
}

// with returns the keys of the objects that have all marks of the first and
// none of the second.
func (v *view) with(all, none marks) iter.Seq[uint64] {
	return func(yield func(uint64) bool) {
		for key, o := range v.objects {
			if o.marks&all == all && o.marks&none == 0 && !yield(key) {
				return
			}
		}
	}
}

func (v *view) count(all, none marks) int {
	n := 0
	for range v.with(all, none) {
		n++
	}
	return n
}

// pack is a session id in binary. Zero for what is no id, which no row has.
func pack(id string) (packed [16]byte) {
	if !session.ValidID(id) {
		return packed
	}
	digits := id[:8] + id[9:13] + id[14:18] + id[19:23] + id[24:]
	_, _ = hex.Decode(packed[:], []byte(digits)) // a valid id is hex
	return packed
}

func unpack(packed [16]byte) string {
	digits := hex.EncodeToString(packed[:])
	return digits[:8] + "-" + digits[8:12] + "-" + digits[12:16] + "-" + digits[16:20] + "-" + digits[20:]
}
