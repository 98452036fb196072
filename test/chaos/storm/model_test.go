package storm

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/agentcube/agentcube/pkg/session"
	"github.com/agentcube/agentcube/test/chaos/check"
)

const id = "00000000-0000-4000-8000-000000000001"

func TestTheFateOfASessionFollowsFromWhatWasDoneToIt(t *testing.T) {
	t.Parallel()
	now := time.Now()
	tests := map[string]struct {
		do   func(*model)
		want check.Fate
	}{
		"created":                           {func(*model) {}, check.Lives},
		"a deletion under way":              {func(m *model) { m.ask(id, "") }, check.Either},
		"a deletion that was granted":       {func(m *model) { m.ask(id, "")(granted) }, check.Gone},
		"a deletion of unknown outcome":     {func(m *model) { m.ask(id, "")(unclear) }, check.Either},
		"a deletion that was never sent":    {func(m *model) { m.ask(id, "")(harmless) }, check.Lives},
		"an unknown one and a granted one":  {func(m *model) { m.ask(id, "")(unclear); m.ask(id, "")(granted) }, check.Gone},
		"its namespace was deleted":         {func(m *model) { m.get(id).space = &space{doomed: true} }, check.Gone},
		"its namespace may have been":       {func(m *model) { m.get(id).space = &space{doubted: true} }, check.Either},
		"its CodeInterpreter was deleted":   {func(m *model) { m.get(id).template = &template{doomed: true} }, check.Gone},
		"its time is not over":              {func(m *model) { k := m.get(id); k.from, k.to = now.Add(1), now.Add(2) }, check.Lives},
		"its time may be over":              {func(m *model) { k := m.get(id); k.from, k.to = now, now.Add(1) }, check.Either},
		"its time has long been over":       {func(m *model) { k := m.get(id); k.from, k.to = now.Add(-2), now.Add(-1) }, check.Gone},
		"nobody was told of it":             {func(m *model) { m.get(id).created = false }, check.Either},
		"nobody was told, but it was ended": {func(m *model) { m.get(id).created = false; m.ask(id, "")(granted) }, check.Gone},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newModel()
			m.told(id, func(*known) {})
			test.do(m)
			assert.Equal(t, test.want, m.sessions[id].fate(now))
		})
	}
}

func TestUseOfASessionPutsItsIdleEndOff(t *testing.T) {
	t.Parallel()
	m := newModel()
	began := time.Now()
	m.told(id, func(k *known) { k.idle, k.from, k.to = time.Minute, began, began.Add(time.Second) })
	m.used(id, began, true)
	k := m.sessions[id]
	assert.Equal(t, check.Lives, k.fate(began.Add(59*time.Second)))
	assert.Equal(t, check.Either, k.fate(began.Add(time.Minute)))
	assert.Equal(t, check.Gone, k.fate(time.Now().Add(time.Minute+session.IdleGrace+endingTakes+time.Second)))
	m.used(id, began.Add(time.Second), false)
	assert.Equal(t, began.Add(time.Minute), k.from, "a request that reached nothing is no use")
}

func TestASessionThatNobodyWasToldOfIsTakenOver(t *testing.T) {
	t.Parallel()
	row := func(idle string) check.Snapshot {
		return check.Snapshot{Store: check.Store{Rows: map[string]check.Row{id: {
			Status: "ready", IdleTimeout: idle, ExpiresAt: time.Now().Add(2 * time.Hour).Format(time.RFC3339),
		}}}}
	}
	m := newModel()
	m.roundDone(row("4h0m0s"))
	assert.Equal(t, check.Lives, m.sessions[id].fate(time.Now()))
	short := newModel()
	short.roundDone(row("10s"))
	assert.Equal(t, check.Either, short.sessions[id].fate(time.Now()), "its time ends when nobody knows")
}
