package session

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const theirToken = "token"

var (
	object = ObjectRef{Kind: KindSandbox, Namespace: "n", Name: "o", UID: "u1"}
	ports  = []Port{{Path: "/", Protocol: ProtocolHTTP, Port: 8080}}
)

func in(state State) Session {
	s := Session{State: state, Object: object, Ports: ports, Creator: Creator{Process: "p", Token: theirToken}}
	if state == StateReady {
		s.Sandbox = SandboxRef{Name: "o", UID: "u1"}
		s.EntryPoints = EntryPoints(ports, "10.0.0.7")
		s.Generation, s.ResourceVersion = 1, "7"
	}
	return s
}

func seen(change ...func(*Observed)) Observed {
	o := Observed{
		State: StateReady, Object: object, Sandbox: SandboxRef{Name: "o", UID: "u1"},
		Address: "10.0.0.7", ResourceVersion: "8",
	}
	for _, c := range change {
		c(&o)
	}
	return o
}

// newer compares resource versions of one length.
func newer(a, b string) bool { return a > b }

// transitionCase: given, by a change, becomes want; or err, with nothing of it
// changed.
type transitionCase struct {
	given  Session
	change func(*Session) error
	err    error
	want   func(*Session)
}

func TestTransitions(t *testing.T) {
	t.Parallel()
	for group, cases := range map[string]map[string]transitionCase{
		"known": knownCases, "explain": explainCases, "commit": commitCases, "refresh": refreshCases, "delete": deleteCases,
	} {
		for rule, c := range cases {
			t.Run(group+"/"+rule, func(t *testing.T) {
				t.Parallel()
				got, want := c.given.Clone(), c.given.Clone()
				err := c.change(&got)
				if c.err != nil {
					require.ErrorIs(t, err, c.err)
				} else {
					require.NoError(t, err)
					c.want(&want)
				}
				assert.Equal(t, want, got)
			})
		}
	}
}

var knownCases = map[string]transitionCase{
	"the holder records the object's UID": {
		given:  func() Session { s := in(StateCreating); s.Object.UID = ""; return s }(),
		change: Known(theirToken, object),
		want:   func(s *Session) { s.Object.UID = "u1" },
	},
	"the holder records another name": {
		given:  in(StateCreating),
		change: Known(theirToken, ObjectRef{Kind: KindSandbox, Namespace: "n", Name: "other"}),
		want:   func(s *Session) { s.Object = ObjectRef{Kind: KindSandbox, Namespace: "n", Name: "other"} },
	},
	"what is recorded already is no write": {given: in(StateCreating), change: Known(theirToken, object), err: ErrUnchanged},
	"another reservation may not":          {given: in(StateCreating), change: Known("another", object), err: ErrStale},
	"no token holds nothing": {
		given: func() Session { s := in(StateCreating); s.Creator = Creator{}; return s }(), change: Known("", object), err: ErrStale,
	},
	"a session that is being deleted stays so": {given: in(StateDeleting), change: Known(theirToken, object), err: ErrStale},
	"a session that is ready stays so":         {given: in(StateReady), change: Known(theirToken, object), err: ErrStale},
}

var explainCases = map[string]transitionCase{
	"a create is told why it waits": {
		given: in(StateCreating), change: Explain(object, "SandboxNotReady", "pod is pending"),
		want: func(s *Session) { s.Reason, s.Message = "SandboxNotReady", "pod is pending" },
	},
	"what it says already is no write": {
		given:  func() Session { s := in(StateCreating); s.Reason = "SandboxNotReady"; return s }(),
		change: Explain(object, "SandboxNotReady", ""), err: ErrUnchanged,
	},
	"another object explains nothing":     {given: in(StateCreating), change: Explain(ObjectRef{Name: "x"}, "r", "m"), err: ErrStale},
	"a session that is ready is not told": {given: in(StateReady), change: Explain(object, "r", "m"), err: ErrStale},
	"the reason of a deletion stays":      {given: in(StateDeleting), change: Explain(object, "r", "m"), err: ErrStale},
}

var commitCases = map[string]transitionCase{
	"a reservation becomes what the cluster shows": {
		given: in(StateCreating), change: Commit(theirToken, seen()),
		want: func(s *Session) {
			s.State, s.Generation, s.ResourceVersion = StateReady, 1, "8"
			s.Sandbox = SandboxRef{Name: "o", UID: "u1"}
			s.EntryPoints = []EntryPoint{{Path: "/", Protocol: "HTTP", Endpoint: "10.0.0.7:8080"}}
		},
	},
	"its own success, ready, is found":     {given: in(StateReady), change: Commit(theirToken, seen()), err: ErrUnchanged},
	"its own success, not ready, is found": {given: in(StateNotReady), change: Commit(theirToken, seen()), err: ErrUnchanged},
	"its own success, suspended, is found": {given: in(StateSuspended), change: Commit(theirToken, seen()), err: ErrUnchanged},
	"a deletion wins":                      {given: in(StateDeleting), change: Commit(theirToken, seen()), err: ErrStale},
	"another reservation wins":             {given: in(StateCreating), change: Commit("another", seen()), err: ErrStale},
}

var refreshCases = map[string]transitionCase{
	"what the row says already is no write": {given: in(StateReady), change: Refresh(seen(), newer), err: ErrUnchanged},
	"another address is another pod": {
		given: in(StateReady), change: Refresh(seen(func(o *Observed) { o.Address = "10.0.0.8" }), newer),
		want: func(s *Session) {
			s.Generation, s.ResourceVersion = 2, "8"
			s.EntryPoints = []EntryPoint{{Path: "/", Protocol: "HTTP", Endpoint: "10.0.0.8:8080"}}
		},
	},
	"another Sandbox of the same address is another": {
		given: in(StateReady), change: Refresh(seen(func(o *Observed) { o.Sandbox.UID = "u2" }), newer),
		want: func(s *Session) {
			s.Generation, s.ResourceVersion, s.Sandbox.UID = 2, "8", "u2"
		},
	},
	"an address that went away leaves no way in, and counts later": {
		given: in(StateReady),
		change: Refresh(seen(func(o *Observed) {
			o.State, o.Address, o.Reason, o.Message = StateNotReady, "", "SandboxNotReady", "pod is pending"
		}), newer),
		want: func(s *Session) {
			s.State, s.EntryPoints, s.ResourceVersion = StateNotReady, nil, "8"
			s.Reason, s.Message = "SandboxNotReady", "pod is pending"
		},
	},
	"an address that came back is another pod's": {
		given:  func() Session { s := in(StateReady); s.State, s.EntryPoints = StateNotReady, nil; return s }(),
		change: Refresh(seen(), newer),
		want: func(s *Session) {
			s.State, s.Generation, s.ResourceVersion = StateReady, 2, "8"
			s.EntryPoints = EntryPoints(ports, "10.0.0.7")
		},
	},
	"not ready at the same address is the same pod": {
		given: in(StateReady), change: Refresh(seen(func(o *Observed) { o.State = StateNotReady }), newer),
		want: func(s *Session) { s.State, s.ResourceVersion = StateNotReady, "8" },
	},
	"a suspended sandbox has no way in, whatever its pod still has": {
		given: in(StateReady), change: Refresh(seen(func(o *Observed) { o.State = StateSuspended }), newer),
		want: func(s *Session) { s.State, s.EntryPoints, s.ResourceVersion = StateSuspended, nil, "8" },
	},
	"a suspended sandbox seen again is no write": {
		given:  func() Session { s := in(StateReady); s.State, s.EntryPoints = StateSuspended, nil; return s }(),
		change: Refresh(seen(func(o *Observed) { o.State = StateSuspended }), newer), err: ErrUnchanged,
	},
	"a row that rests on a newer object wins": {
		given: in(StateReady), change: Refresh(seen(func(o *Observed) { o.Address, o.ResourceVersion = "10.0.0.8", "6" }), newer), err: ErrStale,
	},
	"a row that rests on the same object takes it": {
		given: in(StateReady), change: Refresh(seen(func(o *Observed) { o.State, o.ResourceVersion = StateNotReady, "7" }), newer),
		want: func(s *Session) { s.State = StateNotReady },
	},
	"another object's sight is refused": {
		given: in(StateReady), change: Refresh(seen(func(o *Observed) { o.Object.UID = "u2" }), newer), err: ErrStale,
	},
	"a sight without UID and Sandbox leaves both": {
		given:  in(StateReady),
		change: Refresh(seen(func(o *Observed) { o.Object.UID, o.Sandbox, o.State = "", SandboxRef{}, StateNotReady }), newer),
		want:   func(s *Session) { s.State, s.ResourceVersion = StateNotReady, "8" },
	},
	"a row that records no ports keeps those of its entry points": {
		given:  func() Session { s := in(StateReady); s.Ports = nil; return s }(),
		change: Refresh(seen(func(o *Observed) { o.State, o.Address = StateNotReady, "" }), newer),
		want:   func(s *Session) { s.State, s.EntryPoints, s.Ports, s.ResourceVersion = StateNotReady, nil, ports, "8" },
	},
	"a row that records no version takes any": {
		given:  func() Session { s := in(StateReady); s.ResourceVersion = ""; return s }(),
		change: Refresh(seen(func(o *Observed) { o.State = StateNotReady }), func(string, string) bool { return true }),
		want:   func(s *Session) { s.State, s.ResourceVersion = StateNotReady, "8" },
	},
	"a session that is being created is not refreshed": {given: in(StateCreating), change: Refresh(seen(), newer), err: ErrStale},
	"a session that is being deleted is not refreshed": {given: in(StateDeleting), change: Refresh(seen(), newer), err: ErrStale},
}

var deleteCases = map[string]transitionCase{
	"no router dials it from here on": {
		given:  func() Session { s := in(StateReady); s.Message, s.Attempts = "m", 3; return s }(),
		change: Delete(ReasonIdle, time.Time{}),
		want: func(s *Session) {
			s.State, s.EntryPoints, s.Reason, s.Message, s.Attempts = StateDeleting, nil, ReasonIdle, "", 0
		},
	},
	"it is allowed while creating": {
		given: in(StateCreating), change: Delete(ReasonDeleted, time.Time{}),
		want: func(s *Session) { s.State, s.Reason = StateDeleting, ReasonDeleted },
	},
	"the second finds the first and keeps its reason": {
		given:  func() Session { s := in(StateDeleting); s.Reason = ReasonIdle; return s }(),
		change: Delete(ReasonDeleted, time.Time{}), err: ErrUnchanged,
	},
	"an unknown outcome is recorded also in a deletion, with its failures kept": {
		given:  func() Session { s := in(StateDeleting); s.Reason, s.Attempts = ReasonIdle, 3; return s }(),
		change: Delete(ReasonDeleted, born),
		want:   func(s *Session) { s.UnknownUntil = born },
	},
	"an earlier unknown outcome changes nothing": {
		given:  func() Session { s := in(StateDeleting); s.UnknownUntil = born; return s }(),
		change: Delete(ReasonDeleted, born.Add(-1)), err: ErrUnchanged,
	},
	"the same unknown outcome changes nothing": {
		given:  func() Session { s := in(StateDeleting); s.UnknownUntil = born; return s }(),
		change: Delete(ReasonDeleted, born), err: ErrUnchanged,
	},
	"a known outcome does not shorten an unknown one": {
		given:  func() Session { s := in(StateCreating); s.UnknownUntil = born; return s }(),
		change: Delete(ReasonFailed, time.Time{}),
		want:   func(s *Session) { s.State, s.Reason = StateDeleting, ReasonFailed },
	},
}

func TestGuards(t *testing.T) {
	t.Parallel()
	s := in(StateDeleting)
	require.NoError(t, HeldBy(theirToken)(s))
	require.ErrorIs(t, HeldBy("another")(s), ErrStale)
	require.ErrorIs(t, HeldBy("")(Session{}), ErrStale)
	require.NoError(t, Names(object)(s))
	for _, other := range []ObjectRef{
		{Kind: KindSandboxClaim, Namespace: "n", Name: "o", UID: "u1"},
		{Kind: KindSandbox, Namespace: "m", Name: "o", UID: "u1"},
		{Kind: KindSandbox, Namespace: "n", Name: "p", UID: "u1"},
		{Kind: KindSandbox, Namespace: "n", Name: "o", UID: "u2"},
	} {
		require.ErrorIs(t, Names(other)(s), ErrStale)
	}
	require.NoError(t, Names(ObjectRef{Kind: KindSandbox, Namespace: "n", Name: "o"})(s), "an unknown UID is not compared")
}

func TestEntryPoints(t *testing.T) {
	t.Parallel()
	assert.Nil(t, EntryPoints(ports, ""))
	assert.Nil(t, EntryPoints(nil, "10.0.0.7"))
	assert.Equal(t, []EntryPoint{{Path: "/", Protocol: "HTTP", Endpoint: "[fd00::7]:8080"}}, EntryPoints(ports, "fd00::7"))
}

func TestPortsOfEntryPointsThatMakeNoSenseAreLeftOut(t *testing.T) {
	t.Parallel()
	s := Session{EntryPoints: []EntryPoint{
		{Path: "/a", Endpoint: "10.0.0.7"},
		{Path: "/b", Endpoint: "10.0.0.7:http"},
		{Path: "/c", Endpoint: "10.0.0.7:65536"},
		{Path: "/d", Protocol: "HTTPS", Endpoint: "[::1]:65535"},
	}}
	assert.Equal(t, []Port{{Path: "/d", Protocol: "HTTPS", Port: 65535}}, s.ports())
}

func TestValidID(t *testing.T) {
	t.Parallel()
	const id = "0123abcd-89ef-4567-89ab-cdef01234567"
	assert.True(t, ValidID(id))
	for i := range id {
		for _, c := range []byte{'A', 'g', '`', '/', ':', '\n', 0} {
			spoilt := []byte(id)
			spoilt[i] = c
			assert.False(t, ValidID(string(spoilt)), "%q", spoilt)
		}
		swapped := []byte(id)
		if swapped[i] == '-' {
			swapped[i] = '0'
		} else {
			swapped[i] = '-'
		}
		assert.False(t, ValidID(string(swapped)), "%q", swapped)
	}
	for _, other := range []string{"", "expiry", "last_activity", "*", id[1:], id + "0", " " + id[1:]} {
		assert.False(t, ValidID(other), "%q", other)
	}
}

func TestCanonical(t *testing.T) {
	t.Parallel()
	valid := func() Session {
		return Session{ID: "0123abcd-89ef-4567-89ab-cdef01234567", Object: object, State: StateReady}
	}
	kept := map[string]struct{ given, want func(*Session) }{
		"times are in UTC": {
			func(s *Session) { s.CreatedAt = born.In(time.FixedZone("", 3600)) }, func(s *Session) { s.CreatedAt = born },
		},
		"nothing is empty but not nil": {
			func(s *Session) {
				s.Ports, s.EntryPoints = []Port{}, []EntryPoint{}
				s.Metadata, s.Unknown = json.RawMessage(" null "), map[string]json.RawMessage{}
			}, func(*Session) {},
		},
		"no state is ready": {func(s *Session) { s.State = "" }, func(*Session) {}},
		"a Sandbox is its own object": {
			func(s *Session) { s.Object.UID, s.Sandbox.UID = "", "u1" }, func(s *Session) { s.Sandbox = SandboxRef{"o", "u1"} },
		},
		"an object is not a Sandbox yet": {func(*Session) {}, func(*Session) {}},
		"a claim's Sandbox is another object": {
			func(s *Session) { s.Object.Kind, s.Object.UID, s.Sandbox.UID = KindSandboxClaim, "", "u2" },
			func(s *Session) { s.Object.Kind, s.Object.UID, s.Sandbox.UID = KindSandboxClaim, "", "u2" },
		},
		"JSON keeps its bytes but not what surrounds it": {
			func(s *Session) {
				s.Metadata, s.Unknown = json.RawMessage(" { } "), map[string]json.RawMessage{"x": json.RawMessage(" 1e400\n")}
			},
			func(s *Session) {
				s.Metadata, s.Unknown = json.RawMessage("{ }"), map[string]json.RawMessage{"x": json.RawMessage("1e400")}
			},
		},
	}
	for rule, c := range kept {
		t.Run(rule, func(t *testing.T) {
			t.Parallel()
			given, want := valid(), valid()
			c.given(&given)
			c.want(&want)
			got, err := given.Canonical()
			require.NoError(t, err)
			assert.Equal(t, want, got)
		})
	}
	for i, spoil := range []func(*Session){
		func(s *Session) { s.ID = "expiry" },
		func(s *Session) { s.Object.Kind = "" },
		func(s *Session) { s.Object.Namespace = "" },
		func(s *Session) { s.Object.Name = "" },
		func(s *Session) { s.Metadata = json.RawMessage("{") },
		func(s *Session) { s.Unknown = map[string]json.RawMessage{"x": nil} },
		func(s *Session) { s.ExpiresAt = time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC) },
		func(s *Session) { s.UnknownUntil = time.Date(-1, 1, 1, 0, 0, 0, 0, time.UTC) },
	} {
		t.Run(fmt.Sprintf("refused %d", i), func(t *testing.T) {
			t.Parallel()
			s := valid()
			spoil(&s)
			_, err := s.Canonical()
			require.ErrorIs(t, err, ErrInvalid)
		})
	}
}

func TestACloneSharesNothing(t *testing.T) {
	t.Parallel()
	s := in(StateReady)
	s.Metadata = json.RawMessage(`1`)
	s.Unknown = map[string]json.RawMessage{"x": json.RawMessage(`1`)}
	before, c := s.Clone(), s.Clone()
	c.Ports[0].Port, c.EntryPoints[0].Path, c.Metadata[0], c.Unknown["x"][0] = 1, "x", '2', '2'
	c.Unknown["y"] = nil
	assert.Equal(t, before, s)
}

func TestObjectsInMessages(t *testing.T) {
	t.Parallel()
	assert.Equal(t, "Sandbox n/o", object.String())
}

func TestLive(t *testing.T) {
	t.Parallel()
	for state, want := range map[State]bool{
		StateCreating: false, StateReady: true, StateNotReady: true, StateSuspended: true, StateDeleting: false,
	} {
		assert.Equal(t, want, Session{State: state}.Live(), state)
	}
}

func TestServedAt(t *testing.T) {
	t.Parallel()
	ports := []Port{{Path: "/", Protocol: "HTTP", Port: 8080}}
	at := func(address string) Session { return Session{Ports: ports, EntryPoints: EntryPoints(ports, address)} }
	for sentence, c := range map[string]struct {
		row  Session
		want bool
	}{
		"its address":                    {at("10.0.0.7"), true},
		"another address":                {at("10.0.0.8"), false},
		"none":                           {at(""), false},
		"neither address nor ports":      {Session{}, false},
		"its address, without the ports": {Session{EntryPoints: EntryPoints(ports, "10.0.0.7")}, true},
	} {
		t.Run(sentence, func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, c.want, c.row.ServedAt("10.0.0.7"))
		})
	}
}
