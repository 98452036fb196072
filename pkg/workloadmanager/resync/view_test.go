package resync

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/agentcube/agentcube/pkg/session"
)

// A hundred thousand sessions must fit into a small program.
func TestAViewOfManyObjectsIsSmall(t *testing.T) { //nolint:paralleltest // it measures the heap
	const (
		objects = 100_000
		bound   = 10 << 20
	)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	v := newView()
	var absent [][16]byte
	for n := range objects {
		id := fmt.Sprintf("00000000-0000-4000-8000-%012x", n)
		v.add(session.ObjectRef{
			Kind: session.KindSandbox, Namespace: "a-namespace-of-usual-length", Name: "a-name-" + id, UID: id,
		}, id, markOurs)
		absent = append(absent, pack(id)) // as if each were missing too
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	assert.Len(t, v.objects, objects, "nothing collided")
	used := int64(after.HeapAlloc) - int64(before.HeapAlloc)
	assert.Less(t, used, int64(bound), "%d bytes per session", used/objects)
	runtime.KeepAlive(v)
	runtime.KeepAlive(absent)
}

func TestAnIDSurvivesItsPacking(t *testing.T) {
	t.Parallel()
	const id = "12345678-9abc-4def-8123-456789abcdef"
	assert.Equal(t, id, unpack(pack(id)))
	for _, no := range []string{"", "no-id", "12345678-9ABC-4DEF-8123-456789ABCDEF", id + "0"} {
		assert.Zero(t, pack(no), no)
	}
}

func TestAViewKnowsAnObjectByNameAndUID(t *testing.T) {
	t.Parallel()
	v := newView()
	o := session.ObjectRef{Kind: session.KindSandbox, Namespace: "a", Name: "b", UID: "u"}
	v.add(o, "", markOurs)
	cases := map[string]struct {
		change func(*session.ObjectRef)
		want   bool
	}{
		"itself":            {func(*session.ObjectRef) {}, true},
		"without a UID":     {func(r *session.ObjectRef) { r.UID = "" }, true},
		"another UID":       {func(r *session.ObjectRef) { r.UID = "v" }, false},
		"another kind":      {func(r *session.ObjectRef) { r.Kind = session.KindSandboxClaim }, false},
		"another namespace": {func(r *session.ObjectRef) { r.Namespace = "c" }, false},
		"another name":      {func(r *session.ObjectRef) { r.Name = "c" }, false},
	}
	for what, c := range cases {
		ref := o
		c.change(&ref)
		assert.Equal(t, c.want, v.name(ref), what)
	}
}
