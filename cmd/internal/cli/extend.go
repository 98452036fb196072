package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/agentcube/agentcube/cmd/internal/reach"
	"github.com/agentcube/agentcube/pkg/api"
	"github.com/agentcube/agentcube/pkg/client"
)

func (t *Tool) sessionsExtend() *cobra.Command {
	var l client.Lifetimes
	c := &cobra.Command{
		Use:   "extend SESSION",
		Short: "Change how long a session may live",
		Long: `Change how long a session may live, at most as long as its template allows. Only
what is named changes. Without flags it counts as activity: the idle time of the
session starts anew.`,
		Example: `  agentcube sessions extend $ID --ttl 2h
  agentcube sessions extend $ID --idle-timeout 30m
  agentcube sessions extend $ID`,
		Args: args(cobra.ExactArgs(1)), ValidArgsFunction: t.completeSessions,
	}
	c.Flags().DurationVar(&l.TTL, "ttl", 0, "let it live that long from now")
	c.Flags().DurationVar(&l.IdleTimeout, "idle-timeout", 0, "let it be unused that long")
	o := addOutput(c, formatJSON, formatYAML, formatName)
	c.RunE = func(c *cobra.Command, ids []string) error {
		for _, flag := range []string{"ttl", "idle-timeout"} {
			if d, err := c.Flags().GetDuration(flag); err == nil && c.Flags().Changed(flag) && d < time.Second {
				return usagef("--%s: must be a second or more", flag)
			}
		}
		id := sessionID(ids[0])
		cl, err := t.client(c.Context(), reach.WorkloadManager)
		if err != nil {
			return err
		}
		s, done, err := t.extend(c.Context(), cl, id, l, o.format != formatTable)
		if err != nil {
			return err
		}
		if o.format == formatTable {
			return t.print("session/%s %s", id, done)
		}
		return o.printEach(t.Out, sessionColumns, []thing{sessionThing(s, t.Clock.Now(), false)})
	}
	return c
}

// extend changes what is named, or keeps the session alive, and says what it did.
// It reads the session only if that is to be shown.
func (t *Tool) extend(
	ctx context.Context, c *client.Client, id string, l client.Lifetimes, show bool,
) (s api.Session, done string, err error) {
	if l == (client.Lifetimes{}) {
		err = c.Keepalive(ctx, id)
		if err == nil && show {
			s, err = c.Get(ctx, id)
		}
		return s, "kept alive", err
	}
	if s, err = c.Patch(ctx, id, l); err != nil {
		return s, "", err
	}
	now := t.Clock.Now()
	return s, fmt.Sprintf("ends in %s, or in %s if it is not used", until(now, s.ExpiresAt), until(now, s.IdleDeadline)), nil
}

func (t *Tool) sessionsDelete() *cobra.Command {
	var ignore bool
	c := &cobra.Command{
		Use:     "delete SESSION...",
		Aliases: []string{"rm"},
		Short:   "End sessions",
		Args:    args(cobra.MinimumNArgs(1)), ValidArgsFunction: t.completeSessions,
	}
	c.Flags().BoolVar(&ignore, "ignore-not-found", false, "a session that is not there is no error")
	c.RunE = func(c *cobra.Command, ids []string) error {
		cl, err := t.client(c.Context(), reach.WorkloadManager)
		if err != nil {
			return err
		}
		var problems []error
		for _, id := range ids {
			id = sessionID(id)
			err := cl.Delete(c.Context(), id)
			switch {
			case ignore && errors.Is(err, client.ErrSessionNotFound):
			case err != nil:
				problems = append(problems, err)
			default:
				problems = append(problems, t.print("session/%s deleted", id))
			}
		}
		return join(problems...)
	}
	return c
}

// print writes a line to the output.
func (t *Tool) print(format string, args ...any) error {
	_, err := fmt.Fprintf(t.Out, format+"\n", args...)
	return err
}

// say writes a line beside the output.
func (t *Tool) say(format string, args ...any) error {
	_, err := fmt.Fprintf(t.ErrOut, format+"\n", args...)
	return err
}
