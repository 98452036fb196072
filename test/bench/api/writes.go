package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/agentcube/agentcube/test/cluster"
)

// writesDir is the program that writes sessions. It needs no more of the tree
// than older revisions have, and is built in each.
const writesDir = "test/bench/api/writes"

// revision is a program that writes sessions, and what it took.
type revision struct {
	name, program string
	// in nanoseconds, of each turn
	create, commit, remove []float64
	// bytes of Redis for each session
	memory []float64
}

// turn is what the program prints: nanoseconds, and bytes.
type turn struct {
	Create float64 `json:"create"`
	Commit float64 `json:"commit"`
	Remove float64 `json:"remove"`
	Memory float64 `json:"memory"`
}

// measureWrites lets this tree and the base write sessions in turns.
func measureWrites(ctx context.Context, s settings, redis *cluster.Redis) (err error) {
	dir, err := os.MkdirTemp("", "agentcube-bench-api-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	own := &revision{name: "this tree", program: filepath.Join(dir, "own")}
	if err := build(ctx, ".", own.program); err != nil {
		return err
	}
	revisions := []*revision{own}
	if s.base != "" {
		base := &revision{name: s.base, program: filepath.Join(dir, "base")}
		if err := buildBase(ctx, filepath.Join(dir, "tree"), base); err != nil {
			return err
		}
		revisions = append(revisions, base)
	}
	turns := max(1, s.rounds/10)
	for i := range turns {
		for j := range revisions {
			if err := revisions[(i+j)%len(revisions)].write(ctx, s.writes, redis); err != nil {
				return err
			}
		}
	}
	fmt.Printf("\n## Writes of a session, one after another: medians of %d in each of %d turns\n\n%-30s %10s %10s %10s %12s\n",
		s.writes, turns, "microseconds", "create", "commit", "remove", "bytes each")
	for _, r := range revisions {
		fmt.Printf("%-30s %10.1f %10.1f %10.1f %12.0f\n", r.name,
			median(r.create)/1e3, median(r.commit)/1e3, median(r.remove)/1e3, median(r.memory))
	}
	return nil
}

func build(ctx context.Context, tree, out string) error {
	compile := exec.CommandContext(ctx, "go", "build", "-o", out, "./"+writesDir)
	compile.Dir = tree
	if text, err := compile.CombinedOutput(); err != nil {
		return fmt.Errorf("building %s: %w\n%s", writesDir, err, text)
	}
	return nil
}

// buildBase builds the program of this tree in a copy of another revision.
func buildBase(ctx context.Context, tree string, base *revision) error {
	if err := os.MkdirAll(filepath.Join(tree, writesDir), 0o755); err != nil {
		return err
	}
	archive := tree + ".tar"
	for _, command := range [][]string{
		{"git", "archive", "--output", archive, base.name},
		{"tar", "--extract", "--file", archive, "--directory", tree},
	} {
		if text, err := exec.CommandContext(ctx, command[0], command[1:]...).CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w\n%s", strings.Join(command, " "), err, text)
		}
	}
	source, err := os.ReadFile(filepath.Join(writesDir, "main.go"))
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(tree, writesDir, "main.go"), source, 0o600); err != nil {
		return err
	}
	return build(ctx, tree, base.program)
}

// write is one turn.
func (r *revision) write(ctx context.Context, n int, redis *cluster.Redis) error {
	if err := redis.FlushAll(ctx); err != nil {
		return err
	}
	run := exec.CommandContext(ctx, r.program, "-addr", redis.Addr, "-sessions", strconv.Itoa(n))
	run.Stderr = os.Stderr
	run.WaitDelay = time.Second
	out, err := run.Output()
	if err != nil {
		return fmt.Errorf("%s: %w", r.name, err)
	}
	var t turn
	if err := json.Unmarshal(out, &t); err != nil {
		return fmt.Errorf("%s: %w", r.name, err)
	}
	r.create, r.commit, r.remove = append(r.create, t.Create), append(r.commit, t.Commit), append(r.remove, t.Remove)
	r.memory = append(r.memory, t.Memory)
	return nil
}
