// Writes creates, commits and removes sessions, one after another, and prints
// the medians in nanoseconds, and what Redis needs for each session, as JSON. It
// is built in several revisions of the source tree, and so needs little of it.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
	"k8s.io/utils/clock"

	"github.com/agentcube/agentcube/pkg/session"
	"github.com/agentcube/agentcube/pkg/store"
)

func main() {
	addr := flag.String("addr", "", "`host:port` of Redis")
	n := flag.Int("sessions", 5_000, "sessions to write")
	flag.Parse()
	if err := run(context.Background(), *addr, *n); err != nil {
		fmt.Fprintln(os.Stderr, "writes:", err)
		os.Exit(1)
	}
}

// result is what is printed.
type result struct {
	Create float64 `json:"create"`
	Commit float64 `json:"commit"`
	Remove float64 `json:"remove"`
	Memory float64 `json:"memory"`
}

func run(ctx context.Context, addr string, n int) error {
	client := store.Client(store.Config{Addrs: []string{addr}})
	rows := store.New(clock.RealClock{}, client, store.Options{})
	defer rows.Close()
	before, err := memory(ctx, client)
	if err != nil {
		return err
	}
	sessions := make([]session.Session, n)
	for i := range sessions {
		sessions[i] = reserved(i)
	}
	var r result
	if r.Create, err = each(sessions, func(s session.Session) error {
		_, err := rows.Create(ctx, s)
		return err
	}); err != nil {
		return err
	}
	if r.Commit, err = each(sessions, func(s session.Session) error {
		_, err := rows.Update(ctx, s.ID, session.Commit(s.Creator.Token, ready(s)))
		return err
	}); err != nil {
		return err
	}
	after, err := memory(ctx, client)
	if err != nil {
		return err
	}
	r.Memory = (after - before) / float64(n)
	if r.Remove, err = each(sessions, func(s session.Session) error {
		return rows.Remove(ctx, s.ID, func(session.Session) error { return nil })
	}); err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(r)
}

// each returns the median of the times that do takes, in nanoseconds.
func each(sessions []session.Session, do func(session.Session) error) (float64, error) {
	took := make([]time.Duration, len(sessions))
	for i, s := range sessions {
		begun := time.Now()
		if err := do(s); err != nil {
			return 0, err
		}
		took[i] = time.Since(begun)
	}
	slices.Sort(took)
	return float64(took[len(took)/2]), nil
}

func memory(ctx context.Context, client redis.UniversalClient) (float64, error) {
	info, err := client.Info(ctx, "memory").Result()
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(info) {
		if value, ok := strings.CutPrefix(line, "used_memory:"); ok {
			return strconv.ParseFloat(strings.TrimSpace(value), 64)
		}
	}
	return 0, errors.New("the store does not tell how much memory it uses")
}

func reserved(i int) session.Session {
	created := time.Now()
	namespace := fmt.Sprintf("tenant-%02d", i%20)
	return session.Session{
		ID:        uuid.NewString(),
		Object:    session.ObjectRef{Kind: session.KindSandbox, Namespace: namespace, Name: fmt.Sprintf("bench-%08d", i)},
		Workload:  session.WorkloadRef{Kind: session.KindAgentRuntime, Namespace: namespace, Name: "bench"},
		Ports:     []session.Port{{Path: "/", Protocol: session.ProtocolHTTP, Port: 8080}},
		OwnerID:   fmt.Sprintf("owner-%03d@example.com", i%100),
		CreatedAt: created, ExpiresAt: created.Add(8 * time.Hour), MaxDuration: 8 * time.Hour, IdleTimeout: 15 * time.Minute,
		State: session.StateCreating, AuthMode: session.AuthModePicoD, KeyID: uuid.NewString(),
		Creator: session.Creator{Process: "bench", Token: uuid.NewString()}, Installation: uuid.NewString(),
	}
}

func ready(s session.Session) session.Observed {
	s.Object.UID = s.Creator.Token // as long as one
	return session.Observed{
		State: session.StateReady, Object: s.Object, Sandbox: session.SandboxRef{Name: s.Object.Name, UID: s.Object.UID},
		Address: "10.0.0.7", ResourceVersion: "7",
	}
}
