package check

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestWhatIsWrongWithKeysIsFound(t *testing.T) {
	t.Parallel()
	own := func(s *Snapshot, id, key string) {
		edit(s.Store.Rows, id, func(r *Row) { r.Idempotency.Key, r.Generation = key, 1 })
	}
	tests := map[string]struct {
		spoil func(*Snapshot)
		want  []string // kinds, in order
		final bool
	}{
		"a key of a session, and one of a session that has ended": {
			spoil: func(s *Snapshot) {
				own(s, direct, "k")
				s.Store.Keys = map[string]KeyRecord{"k": {Session: direct}, "l": {Session: ended, Left: time.Hour}}
			},
		},
		"a key without an end that names a session without a row": {
			spoil: func(s *Snapshot) { s.Store.Keys = map[string]KeyRecord{"k": {Session: ended}} },
			want:  []string{KeyForever},
		},
		"one that ends too late": {
			spoil: func(s *Snapshot) { s.Store.Keys = map[string]KeyRecord{"k": {Session: ended, Left: time.Hour + 1}} },
			want:  []string{KeyForever},
		},
		"a row whose key is free": {
			spoil: func(s *Snapshot) { own(s, direct, "k") },
			want:  []string{KeyLost},
		},
		"a row whose create failed, and whose key is free": {
			spoil: func(s *Snapshot) {
				own(s, direct, "k")
				edit(s.Store.Rows, direct, func(r *Row) { r.Status, r.Generation = "deleting", 0 })
				s.Sessions[0].Fate, s.Answers = Either, nil
			},
			want: []string{RowStuck},
		},
		"a row whose key names another session": {
			spoil: func(s *Snapshot) {
				own(s, direct, "k")
				s.Store.Keys = map[string]KeyRecord{"k": {Session: warm}}
			},
			want: []string{KeyLost},
		},
		"a key that ends before its session": {
			spoil: func(s *Snapshot) {
				own(s, direct, "k")
				s.Store.Keys = map[string]KeyRecord{"k": {Session: direct, Left: time.Minute}}
			},
			want: []string{KeyEnds},
		},
		"two sessions of one key": {
			spoil: func(s *Snapshot) {
				own(s, direct, "k")
				own(s, warm, "k")
				s.Store.Keys = map[string]KeyRecord{"k": {Session: direct}}
			},
			want: []string{KeyLost, KeyTwice},
		},
		"a record that cannot be read": {
			spoil: func(s *Snapshot) { s.Store.Keys = map[string]KeyRecord{"k": {}} },
			want:  []string{KeyUnreadable}, final: true,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := good()
			test.spoil(&s)
			fillLists(&s)
			var kinds []string
			for _, v := range Check(s) {
				kinds = append(kinds, v.Kind)
				assert.Equal(t, test.final, v.Final, v)
			}
			assert.Equal(t, test.want, kinds)
		})
	}
}
