package cli

import (
	"context"
	"encoding/json"
	"time"

	"github.com/spf13/cobra"

	"github.com/agentcube/agentcube/cmd/internal/reach"
	"github.com/agentcube/agentcube/pkg/api"
	"github.com/agentcube/agentcube/pkg/client"
)

func (t *Tool) sessions() *cobra.Command {
	return group(&cobra.Command{
		Use:     "sessions",
		Aliases: []string{"session", "s"},
		Short:   "Create, find, inspect, extend and end sessions",
	}, t.sessionsCreate(), t.sessionsDelete(), t.sessionsExtend(), t.sessionsGet(), t.sessionsList())
}

func (t *Tool) sessionsList() *cobra.Command {
	var all bool
	var kind, template string
	var limit int
	var filter client.Filter
	c := &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List sessions",
		Example: `  agentcube sessions list
  agentcube sessions list -A -o wide
  agentcube sessions list --template codeinterpreter/python --state ready -w`,
		Args: args(cobra.NoArgs),
	}
	f := c.Flags()
	f.BoolVarP(&all, "all-namespaces", "A", false, "list the sessions of all namespaces")
	f.StringVar(&kind, "kind", "", "only of this `kind` of template: agentruntime or codeinterpreter")
	f.StringVar(&template, "template", "", "only of this template, as `KIND/NAME`")
	f.StringVar(&filter.State, "state", "", "only in this `state`: creating, ready, not-ready, suspended or deleting")
	f.StringVar(&filter.Owner, "owner", "", "only of this owner")
	f.IntVar(&limit, "limit", 0, "list that many at most; 0 is all")
	t.completeTemplates(c, "template")
	o := addOutput(c, plainFormats...)
	w := addWatch(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		if limit < 0 {
			return usagef("--limit: must not be negative")
		}
		if err := t.fillFilter(&filter, all, kind, template); err != nil {
			return err
		}
		cols := sessionColumns
		if all {
			cols = namespacedColumns
		}
		cl, err := t.client(c.Context(), reach.WorkloadManager)
		if err != nil {
			return err
		}
		look := func(ctx context.Context) ([]watched, error) { return t.look(ctx, cl, filter, limit, all) }
		if w.on {
			return t.follow(c.Context(), o, cols, w.interval, look, func(x watched) thing { return t.gone(x, all) })
		}
		found, err := look(c.Context())
		if err != nil {
			return err
		}
		return t.printSessions(o, cols, found, filter.Namespace)
	}
	return c
}

func (t *Tool) fillFilter(f *client.Filter, all bool, kind, template string) (err error) {
	if !all {
		if f.Namespace, err = t.templateNamespace(); err != nil {
			return err
		}
	}
	if kind != "" {
		if f.Kind, err = kindOf(kind); err != nil {
			return err
		}
	}
	if template != "" {
		if f.Kind, f.Name, err = templateOf(template); err != nil {
			return err
		}
	}
	return nil
}

// printSessions of a namespace, or of all if that is empty.
func (t *Tool) printSessions(o *output, cols columns, found []watched, namespace string) error {
	things := make([]thing, 0, len(found))
	for _, x := range found {
		things = append(things, x.thing)
	}
	if len(things) == 0 && o.isTable() {
		return t.say("No sessions found%s.", in(namespace))
	}
	return o.printAll(t.Out, cols, things)
}

// in says where nothing was found: in a namespace, or anywhere.
func in(namespace string) string {
	if namespace == "" {
		return ""
	}
	return " in namespace " + namespace
}

// pageSize keeps the calls few.
const pageSize = 500

func (t *Tool) look(ctx context.Context, c *client.Client, f client.Filter, limit int, namespaced bool) ([]watched, error) {
	f.PageSize = pageSize
	if limit > 0 {
		f.PageSize = min(limit, pageSize)
	}
	var found []watched
	for s, err := range c.List(ctx, f) {
		if err != nil {
			return nil, err
		}
		found = append(found, t.watchedSession(s, namespaced))
		if len(found) == limit {
			break
		}
	}
	return found, nil
}

// watchedSession changes when something other than its activity does.
func (t *Tool) watchedSession(s api.Session, namespaced bool) watched {
	still := s
	still.LastActivityAt, still.IdleDeadline = time.Time{}, time.Time{}
	version, err := json.Marshal(still)
	if err != nil {
		version = nil // metadata that is no JSON; it cannot have been read from JSON
	}
	return watched{thing: sessionThing(s, t.Clock.Now(), namespaced), key: s.SessionID, version: string(version)}
}

func (t *Tool) gone(x watched, namespaced bool) thing {
	s, ok := x.object.(api.Session)
	if !ok {
		return x.thing
	}
	s.State, s.EntryPoints = stateGone, nil
	return sessionThing(s, t.Clock.Now(), namespaced)
}

func (t *Tool) sessionsGet() *cobra.Command {
	c := &cobra.Command{
		Use:   "get SESSION...",
		Short: "Show sessions",
		Example: `  agentcube sessions get 3f0c8a52-6b1e-4f5e-9c3a-0d2b7a1e4c11
  agentcube sessions get $ID -o yaml
  agentcube sessions get $ID -w`,
		Args: args(cobra.MinimumNArgs(1)), ValidArgsFunction: t.completeSessions,
	}
	o := addOutput(c, plainFormats...)
	on := c.Flags().BoolP("watch", "w", false, "print the session again when it changes, until it ends; one session only")
	c.RunE = func(c *cobra.Command, ids []string) error {
		if *on && len(ids) > 1 {
			return usagef("-w: give one session")
		}
		cl, err := t.client(c.Context(), reach.WorkloadManager)
		if err != nil {
			return err
		}
		if *on {
			return t.watchSession(c.Context(), cl, o, sessionID(ids[0]))
		}
		var things []thing
		var problems []error
		for _, id := range ids {
			s, err := cl.Get(c.Context(), sessionID(id))
			if err != nil {
				problems = append(problems, err)
				continue
			}
			things = append(things, sessionThing(s, t.Clock.Now(), false))
		}
		if len(ids) > 1 {
			err = o.printAll(t.Out, sessionColumns, things)
		} else {
			err = o.printEach(t.Out, sessionColumns, things)
		}
		return join(append(problems, err)...)
	}
	return c
}

// watchWait is how long one read of a watch is held open.
const watchWait = 30 * time.Second

func (t *Tool) watchSession(ctx context.Context, c *client.Client, o *output, id string) error {
	var last watched
	state := ""
	for {
		var s api.Session
		var err error
		if state == "" {
			s, err = c.Get(ctx, id)
		} else {
			s, err = c.Await(ctx, id, state, watchWait)
		}
		switch {
		case ctx.Err() != nil:
			return nil //nolint:nilerr // whoever watches ends it so
		case err != nil:
			return err
		}
		x := t.watchedSession(s, false)
		if x.version != last.version {
			if err := o.printEach(t.Out, sessionColumns, []thing{x.thing}); err != nil {
				return err
			}
		}
		last, state = x, s.State
	}
}
