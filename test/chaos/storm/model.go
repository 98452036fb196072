package storm

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/agentcube/agentcube/pkg/session"
	"github.com/agentcube/agentcube/test/chaos/check"
)

// endingTakes is how long after the end of its time a session may still be
// there: a minute for the collector, and what the check itself takes.
const endingTakes = time.Minute

// known is what the storm knows of one session.
type known struct {
	id       string
	workload session.WorkloadRef
	// space and template are what it goes with, nil if unknown.
	space    *space
	template *template

	// created: a caller was told that it is there.
	created bool
	why     string
	// gone: an end was asked for and granted. asked counts those under way,
	// unknown those whose outcome is not.
	gone           bool
	asked, unknown int
	// from and to are the first and the last moment at which its own time may
	// end it. Zero: not within any run.
	from, to time.Time
	// idle is its idle timeout, if that is what ends it.
	idle time.Duration
	// touched is when something was last done to its objects.
	touched time.Time
	// settled: its end has been checked.
	settled bool
}

// space is a namespace with templates.
type space struct {
	name string
	// doomed by a deletion that was granted, doubted by one of unknown outcome.
	doomed, doubted bool
	// at is when it was deleted.
	at   time.Time
	warm *template
}

// template is a CodeInterpreter with a warm pool, whose claims go with it.
type template struct {
	name            string
	doomed, doubted bool
	at              time.Time
}

// model is what was done, and so what must be.
type model struct {
	mu        sync.Mutex // guards all below and what hangs on it
	sessions  map[string]*known
	spaces    []*space
	strangers map[string]string // key -> namespace
}

func newModel() *model {
	return &model{sessions: map[string]*known{}, strangers: map[string]string{}}
}

// get needs mu.
func (m *model) get(id string) *known {
	k, ok := m.sessions[id]
	if !ok {
		k = &known{id: id}
		m.sessions[id] = k
	}
	return k
}

// told notes that a caller was told of a session. change fills in what it knows.
func (m *model) told(id string, change func(*known)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	k := m.get(id)
	k.created = true
	change(k)
}

// ask notes that a session's end is asked for, and returns how to say what came
// of it.
func (m *model) ask(id, why string) func(outcome) {
	m.mu.Lock()
	defer m.mu.Unlock()
	k := m.get(id)
	k.asked++
	k.touched = time.Now()
	return func(o outcome) {
		m.mu.Lock()
		defer m.mu.Unlock()
		k.asked--
		k.touched = time.Now()
		switch o {
		case granted:
			k.gone, k.why = true, why
		case unclear:
			k.unknown++
			k.why = why + ", outcome unknown"
		case harmless:
		}
	}
}

// touch notes that something was done to the objects of a session.
func (m *model) touch(id string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.get(id).touched = time.Now()
}

// used notes a request to a session: its idle time begins anew.
func (m *model) used(id string, began time.Time, reached bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	k := m.get(id)
	if k.idle == 0 {
		return
	}
	if reached && k.from.Before(began.Add(k.idle)) {
		k.from = began.Add(k.idle)
	}
	k.to = time.Now().Add(k.idle + session.IdleGrace + endingTakes)
}

// lastTouched is when something was last done to the objects of a session, by
// itself or with what it goes with. It needs mu.
func (k *known) lastTouched() time.Time {
	last := k.touched
	if k.space != nil && k.space.at.After(last) {
		last = k.space.at
	}
	if k.template != nil && k.template.at.After(last) {
		last = k.template.at
	}
	return last
}

// outcome of something that ends sessions.
type outcome int

const (
	granted outcome = iota
	unclear
	harmless
)

// fate of a session. It needs mu.
func (k *known) fate(now time.Time) check.Fate {
	switch {
	case k.gone, k.space != nil && k.space.doomed, k.template != nil && k.template.doomed:
		return check.Gone
	case !k.to.IsZero() && now.After(k.to):
		return check.Gone
	case !k.created, k.asked+k.unknown > 0, k.space != nil && k.space.doubted, k.template != nil && k.template.doubted,
		!k.from.IsZero() && !now.Before(k.from):
		return check.Either
	default:
		return check.Lives
	}
}

// live returns the sessions that must be there, in a stable order.
func (m *model) live(fits func(*known) bool) []*known {
	m.mu.Lock()
	defer m.mu.Unlock()
	var found []*known
	now := time.Now()
	for _, k := range m.sessions {
		if k.fate(now) == check.Lives && fits(k) {
			found = append(found, k)
		}
	}
	slices.SortFunc(found, func(a, b *known) int { return cmp.Compare(a.id, b.id) })
	return found
}

// expectations are those of now.
func (m *model) expectations() []check.Expectation {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	expected := make([]check.Expectation, 0, len(m.sessions))
	for _, k := range m.sessions {
		expected = append(expected, check.Expectation{ID: k.id, Fate: k.fate(now), Why: k.story()})
	}
	return expected
}

// story says why the fate of a session is what it is. It needs mu.
func (k *known) story() string {
	switch {
	case k.why != "":
		return k.why
	case k.space != nil && (k.space.doomed || k.space.doubted):
		return "its namespace " + k.space.name + " was deleted"
	case k.template != nil && (k.template.doomed || k.template.doubted):
		return "its CodeInterpreter " + k.template.name + " was deleted"
	case !k.from.IsZero():
		return "its time ends from " + k.from.Format(time.TimeOnly)
	case !k.created:
		return "nobody was told of it"
	default:
		return "nobody ended it"
	}
}

// strangerKeys are the objects that must not be touched.
func (m *model) strangerKeys() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var keys []string
	for key := range m.strangers {
		keys = append(keys, key)
	}
	return keys
}

// pickSpace chooses a namespace that is there.
func (m *model) pickSpace(value uint64) *space {
	m.mu.Lock()
	defer m.mu.Unlock()
	var there []*space
	for _, s := range m.spaces {
		if !s.doomed && !s.doubted {
			there = append(there, s)
		}
	}
	if len(there) == 0 {
		return nil
	}
	return there[draw(value, len(there))]
}

// warmOf is the CodeInterpreter of a namespace at the moment.
func (m *model) warmOf(s *space) *template {
	m.mu.Lock()
	defer m.mu.Unlock()
	return s.warm
}
