package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/agentcube/agentcube/cmd/internal/reach"
	"github.com/agentcube/agentcube/pkg/client"
)

// completeTimeout bounds how long a shell waits, and completeMost what it shows.
const (
	completeTimeout = 3 * time.Second
	completeMost    = 100
)

// completeSessions offers ids, each with what it is.
func (t *Tool) completeSessions(c *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	ctx, cancel := context.WithTimeout(c.Context(), completeTimeout)
	defer cancel()
	t.findWays() // the flags of an unfinished line are read late
	cl, err := t.client(ctx, reach.WorkloadManager)
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	namespace, err := t.templateNamespace()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	page, err := cl.Page(ctx, client.Filter{Namespace: namespace, PageSize: completeMost}, "")
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	var ids []cobra.Completion
	for _, s := range page.Items {
		ids = append(ids, cobra.CompletionWithDesc(s.SessionID, s.State+" "+workload(s.Workload)))
	}
	return ids, cobra.ShellCompDirectiveNoFileComp
}

// completeTemplateArgs offers KIND/NAME as the first argument.
func (t *Tool) completeTemplateArgs(c *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	ctx, cancel := context.WithTimeout(c.Context(), completeTimeout)
	defer cancel()
	found, err := t.lookAtTemplates(ctx, false)
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	var names []cobra.Completion
	for _, x := range found {
		names = append(names, x.name)
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

func (t *Tool) completeTemplates(c *cobra.Command, flag string) {
	_ = c.RegisterFlagCompletionFunc(flag, func(c *cobra.Command, _ []string, text string) ([]cobra.Completion, cobra.ShellCompDirective) { // the flag is there
		return t.completeTemplateArgs(c, nil, text)
	})
}
