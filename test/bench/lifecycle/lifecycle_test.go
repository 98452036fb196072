package main

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestReadsOfRowsAreCountedInScriptsToo(t *testing.T) {
	t.Parallel()
	const (
		first  = "session:0b7f2c9e-58d1-4a52-9c1f-6f6f0d6a7e11"
		second = "session:0b7f2c9e-58d1-4a52-9c1f-6f6f0d6a7e12"
	)
	var seen traffic
	seen.rows = map[string]bool{}
	for _, line := range []string{
		`+1700000000.000001 [0 127.0.0.1:40000] "zscore" "session:expiry" "x"`,
		`+1700000001.000002 [0 127.0.0.1:40000] "get" "` + first + `"`,
		`+1700000002.000002 [0 lua] "GET" "` + first + `"`,
		`+1700000003.500000 [0 lua] "GET" "` + second + `"`,
		`+1700000004.000002 [0 lua] "SET" "` + second + `" "{\"a\":\"GET\"}"`,
		`+1700000005.000002 [0 127.0.0.1:40000] "get" "agentcube:installation"`,
	} {
		c, ok := parseCommand(line + "\r\n")
		require.True(t, ok, line)
		seen.add(c)
	}
	assert.Equal(t, 6, seen.commands)
	assert.Len(t, seen.rows, 2)
	assert.Equal(t, 1, seen.plain)
	assert.Equal(t, 2, seen.scripts)
	assert.Equal(t, 2499998*time.Microsecond, seen.last.Sub(seen.first))
}

func TestWhatIsNoCommandIsPassedOver(t *testing.T) {
	t.Parallel()
	for _, line := range []string{"", "+OK\r\n", "-ERR\r\n", `+1700000000.000001 [0 127.0.0.1:40000] "get"`} {
		_, ok := parseCommand(line)
		assert.False(t, ok, line)
	}
}

func TestCallsOfACommandAreRead(t *testing.T) {
	t.Parallel()
	info := "# Commandstats\r\ncmdstat_getex:calls=7,usec=1\r\ncmdstat_get:calls=42,usec=73,usec_per_call=1.0\r\n"
	for command, want := range map[string]int64{"get": 42, "mget": 0} {
		got, err := parseCalls(info, command)
		require.NoError(t, err)
		assert.Equal(t, want, got, command)
	}
}

func TestRecordsOfALogThatIsBeingWritten(t *testing.T) {
	t.Parallel()
	log := []byte(`{"time":"2026-01-02T03:04:05Z","msg":"collected","ended":3}` + "\nnot a record\n" +
		`{"time":"2026-01-02T03:04:06Z","msg":"resync","worked":1.5}` + "\n" + `{"time":"2026-01`)
	records := slices.Collect(records(log))
	require.Len(t, records, 2)
	assert.Equal(t, 3, records[0].Ended)
	assert.InDelta(t, 1.5, records[1].Worked, 0)
}
