package cli

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/agentcube/agentcube/cmd/internal/reach"
	"github.com/agentcube/agentcube/pkg/api"
	"github.com/agentcube/agentcube/pkg/client"
)

// createFlags of `sessions create`.
type createFlags struct {
	client.CreateOptions
	metadata string
	wait     bool
	timeout  time.Duration
}

func (t *Tool) sessionsCreate() *cobra.Command {
	var f createFlags
	c := &cobra.Command{
		Use:   "create KIND/NAME",
		Short: "Create a session",
		Long: `Create a session from an AgentRuntime or a CodeInterpreter, and wait until it is
ready. What goes on meanwhile is told on standard error.`,
		Example: `  agentcube sessions create codeinterpreter/python
  agentcube sessions create agentruntime/echo --ttl 1h --idle-timeout 10m
  ID=$(agentcube sessions create codeinterpreter/python -o jsonpath={.sessionId})`,
		Args: args(cobra.ExactArgs(1)), ValidArgsFunction: t.completeTemplateArgs,
	}
	flags := c.Flags()
	flags.DurationVar(&f.TTL, "ttl", 0, "let it live that long at most; 0 is as long as its template says")
	flags.DurationVar(&f.IdleTimeout, "idle-timeout", 0, "let it be unused that long; 0 is as long as its template says")
	flags.StringVar(&f.metadata, "metadata", "", "keep this JSON `object` with it")
	flags.StringVar(&f.Key, "idempotency-key", "", "`key` of this create: all creates with it get one session")
	flags.BoolVar(&f.wait, "wait", true, "wait until it is ready")
	flags.DurationVar(&f.timeout, "timeout", 2*time.Minute, "wait that long at most")
	o := addOutput(c, plainFormats...)
	c.RunE = func(c *cobra.Command, args []string) error {
		if err := t.fillCreate(&f, args[0]); err != nil {
			return err
		}
		cl, err := t.client(c.Context(), reach.WorkloadManager)
		if err != nil {
			return err
		}
		s, err := t.create(c.Context(), cl, f)
		if err != nil {
			return err
		}
		if o.format == formatTable {
			return t.print("session/%s %s", s.SessionID, map[bool]string{true: "created", false: s.State}[s.State == api.StateReady])
		}
		return o.printEach(t.Out, sessionColumns, []thing{sessionThing(s, t.Clock.Now(), false)})
	}
	return c
}

func (t *Tool) fillCreate(f *createFlags, template string) (err error) {
	if f.Kind, f.Name, err = templateOf(template); err != nil {
		return err
	}
	if f.Namespace, err = t.templateNamespace(); err != nil {
		return err
	}
	if f.TTL < 0 || f.IdleTimeout < 0 {
		return usagef("--ttl and --idle-timeout: must not be negative")
	}
	if f.metadata != "" {
		var object map[string]any
		if err := json.Unmarshal([]byte(f.metadata), &object); err != nil {
			return usagef("--metadata: must be a JSON object: %w", err)
		}
		f.Metadata = json.RawMessage(f.metadata)
	}
	if f.Key == "" {
		f.Key = rand.Text()
	}
	f.Async = true
	return nil
}

// create makes the session, and waits for it.
func (t *Tool) create(ctx context.Context, c *client.Client, f createFlags) (api.Session, error) {
	begun := t.Clock.Now()
	ctx, cancel := context.WithTimeout(ctx, f.timeout)
	defer cancel()
	created, err := c.Create(ctx, f.CreateOptions)
	if err != nil {
		if ctx.Err() != nil {
			err = &cutOffError{why: ctx.Err(), err: err, next: "Repeat the command with --idempotency-key " + f.Key + " to get the session that is made"}
		}
		return api.Session{}, err
	}
	s := sessionOf(created, f.CreateOptions)
	if s.State != api.StateCreating || !f.wait {
		return s, nil
	}
	progress := func(s api.Session) {
		text := s.State
		if s.Message != "" {
			text += ": " + s.Message
		}
		_ = t.say("session/%s %s (%s)", s.SessionID, text, t.Clock.Since(begun).Round(time.Second)) // the session matters, not the talk
	}
	progress(s)
	s, err = c.WaitReady(ctx, created.SessionID, progress)
	if err != nil && ctx.Err() != nil {
		err = &cutOffError{why: ctx.Err(), err: err, next: fmt.Sprintf(
			"It is still being made: look with `%[1]s sessions get %[2]s`, end it with `%[1]s sessions delete %[2]s`", t.Name, created.SessionID)}
	}
	return s, err
}

// sessionOf is a session as the answer to its create tells it.
func sessionOf(c api.CreateResponse, o client.CreateOptions) api.Session {
	s := api.Session{
		SessionID: c.SessionID, State: c.State,
		Workload:    api.WorkloadRef{Kind: string(o.Kind), Namespace: o.Namespace, Name: o.Name},
		Object:      api.ObjectRef{Kind: c.Kind, Namespace: o.Namespace, Name: c.SandboxName},
		Sandbox:     api.SandboxRef{UID: c.SandboxID},
		EntryPoints: c.EntryPoints, OwnerID: c.OwnerID, Metadata: o.Metadata,
		IdleTimeout: c.IdleTimeout, Generation: c.Generation,
	}
	if s.State == "" {
		s.State = api.StateReady // an existing installation answers when it is
	}
	if c.ExpiresAt != nil {
		s.ExpiresAt = *c.ExpiresAt
	}
	return s
}

// cutOffError: the wait ended before what was waited for.
type cutOffError struct {
	// why the wait ended: the error of its context
	why error
	// err is what the last call came to
	err  error
	next string
}

func (e *cutOffError) Error() string {
	text := "interrupted"
	if errors.Is(e.why, context.DeadlineExceeded) {
		text = "not ready in time"
	}
	if _, answered := errors.AsType[*client.Error](e.err); answered {
		text += ": " + e.err.Error()
	}
	return text
}

func (e *cutOffError) Unwrap() error { return e.err }
