package main

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"
)

//go:embed draw.lua
var script []byte

// loadTimeout is how long a request may take on a machine that others use too.
const loadTimeout = 20 * time.Second

// turn is what the load generator saw of one party.
type turn struct {
	requests int
	took     time.Duration
	p50, p99 time.Duration
}

// rate in requests a second.
func (t turn) rate() float64 { return float64(t.requests) / t.took.Seconds() }

// request is what is asked of the sandbox.
type request struct {
	// what the sandbox is to do, as it names it.
	what string
	// sent is the length of the body, in bytes. 0: a GET without one.
	sent int
}

// load runs wrk with one thread: a second one would take the other core from
// the proxy.
func (b *bench) load(ctx context.Context, p *party, r request, connections int) (turn, error) {
	draw := filepath.Join(b.dir, "draw.lua")
	if err := os.WriteFile(draw, script, 0o600); err != nil {
		return turn{}, err
	}
	seconds := int(math.Ceil(b.duration.Seconds())) // wrk knows whole ones only
	wrk := exec.CommandContext(ctx, "wrk", "--threads=1", "--connections="+strconv.Itoa(connections),
		fmt.Sprintf("--duration=%ds", seconds), fmt.Sprintf("--timeout=%ds", int(loadTimeout.Seconds())),
		"--script="+draw, p.invocation(r.what), "--", b.idsFile(), strconv.Itoa(p.sessions), strconv.Itoa(b.seed), strconv.Itoa(r.sent))
	text, err := wrk.CombinedOutput()
	if err != nil {
		return turn{}, fmt.Errorf("loading %s: %w\n%s", p.name, err, text)
	}
	t, err := parseTurn(text)
	if err != nil {
		return turn{}, fmt.Errorf("loading %s: %w\n%s", p.name, err, text)
	}
	return t, p.forgetLog()
}

// figures is the line that the script writes.
type figures struct {
	Requests int   `json:"requests"`
	Micros   int64 `json:"micros"`
	P50      int64 `json:"p50"`
	P99      int64 `json:"p99"`
	Connect  int   `json:"connect"`
	Read     int   `json:"read"`
	Write    int   `json:"write"`
	Timeout  int   `json:"timeout"`
	Status   int   `json:"status"`
}

// parseTurn reads what wrk printed. Requests that failed make a turn worthless:
// an error is answered faster than a request is forwarded.
func parseTurn(output []byte) (turn, error) {
	_, line, found := bytes.Cut(output, []byte("figures "))
	if !found {
		return turn{}, errors.New("wrk printed no figures")
	}
	line, _, _ = bytes.Cut(line, []byte("\n"))
	var f figures
	if err := json.Unmarshal(line, &f); err != nil {
		return turn{}, fmt.Errorf("reading the figures of wrk: %w", err)
	}
	if failed := f.Connect + f.Read + f.Write + f.Timeout + f.Status; failed > 0 {
		return turn{}, fmt.Errorf("%d of %d requests failed", failed, f.Requests)
	}
	if f.Requests == 0 || f.Micros == 0 {
		return turn{}, errors.New("no request was answered")
	}
	return turn{
		requests: f.Requests, took: time.Duration(f.Micros) * time.Microsecond,
		p50: time.Duration(f.P50) * time.Microsecond, p99: time.Duration(f.P99) * time.Microsecond,
	}, nil
}
