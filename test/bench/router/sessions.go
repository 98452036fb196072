package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"
	"k8s.io/utils/clock"

	"github.com/agentcube/agentcube/pkg/api"
	"github.com/agentcube/agentcube/pkg/session"
	"github.com/agentcube/agentcube/pkg/store"
)

const (
	namespace = "bench"
	workload  = "echo"
	// invocations of the workload that all sessions belong to.
	invocations = "/v1/namespaces/" + namespace + "/agent-runtimes/" + workload + "/invocations/"
	// atATime is how many write to the store, warm a router or open WebSockets.
	atATime = 64
	// idleTimeout is far beyond any measurement.
	idleTimeout = 24 * time.Hour
)

// sessionID of session i, the same in every run.
func sessionID(i int) string {
	return uuid.NewSHA1(uuid.NameSpaceOID, []byte("session"+strconv.Itoa(i))).String()
}

// row of session i, as the workload-manager writes it. All sessions have one
// sandbox, so that the proxies' pools of connections are alike.
func (b *bench) row(i int, endpoint string) session.Session {
	name := fmt.Sprintf("%s-%08d", workload, i)
	uid := uuid.NewSHA1(uuid.NameSpaceOID, []byte("object"+strconv.Itoa(i))).String()
	return session.Session{
		ID:              sessionID(i),
		Object:          session.ObjectRef{Kind: session.KindSandbox, Namespace: namespace, Name: name, UID: uid},
		Workload:        session.WorkloadRef{Kind: session.KindAgentRuntime, Namespace: namespace, Name: workload},
		Sandbox:         session.SandboxRef{Name: name, UID: uid},
		Ports:           []session.Port{{Path: "/", Protocol: session.ProtocolHTTP, Port: 8080}},
		EntryPoints:     []session.EntryPoint{{Path: "/", Protocol: session.ProtocolHTTP, Endpoint: endpoint}},
		CreatedAt:       time.Now().Truncate(time.Second),
		IdleTimeout:     idleTimeout,
		State:           session.StateReady,
		AuthMode:        b.authMode,
		Creator:         session.Creator{Process: "bench", Token: uid},
		Generation:      1,
		ResourceVersion: strconv.Itoa(1000 + i),
	}
}

// writeSessions fills the store, and writes the ids to a file for wrk.
func (b *bench) writeSessions(ctx context.Context) error {
	most := b.sessions[len(b.sessions)-1]
	b.say("writing %d sessions to Redis", most)
	rows := store.New(clock.RealClock{}, store.Client(store.Config{Addrs: []string{b.redis.Addr}}), store.Options{})
	defer rows.Close()
	endpoint := strings.TrimPrefix(b.parties.direct.url, "http://")
	err := each(ctx, most, func(ctx context.Context, i int) error {
		_, err := rows.Create(ctx, b.row(i, endpoint))
		return err
	})
	if err != nil {
		return fmt.Errorf("writing sessions: %w", err)
	}
	var ids strings.Builder
	for i := range most {
		ids.WriteString(sessionID(i) + "\n")
	}
	return os.WriteFile(b.idsFile(), []byte(ids.String()), 0o600)
}

func (b *bench) idsFile() string { return filepath.Join(b.dir, "sessions") }

// warm asks a proxy for each of its sessions once.
func (b *bench) warm(ctx context.Context, p *party) error {
	begun := time.Now()
	transport := &http.Transport{MaxIdleConnsPerHost: atATime}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	err := each(ctx, p.sessions, func(ctx context.Context, i int) error {
		response, err := get(ctx, client, p.invocation("small"), sessionID(i))
		if err != nil {
			return err
		}
		defer response.Body.Close()
		_, err = io.Copy(io.Discard, response.Body)
		return err
	})
	if err != nil {
		return fmt.Errorf("warming %s: %w", p.name, err)
	}
	b.say("%s warmed (%s)", p.name, time.Since(begun).Round(time.Millisecond))
	return p.forgetLog()
}

// get is a request of a session that wants 200. The caller closes the body.
func get(ctx context.Context, client *http.Client, url, id string) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set(api.HeaderSessionID, id)
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusOK {
		_ = response.Body.Close() // the status is what matters
		return nil, fmt.Errorf("GET %s: %s", url, response.Status)
	}
	return response, nil
}

// each calls do for every number below n, atATime of them at once.
func each(ctx context.Context, n int, do func(context.Context, int) error) error {
	group, ctx := errgroup.WithContext(ctx)
	for w := range atATime {
		group.Go(func() error {
			for i := w; i < n; i += atATime {
				if err := do(ctx, i); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return group.Wait()
}
