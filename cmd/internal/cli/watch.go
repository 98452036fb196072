package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"
)

// watch flags of a command.
type watch struct {
	on       bool
	interval time.Duration
}

func addWatch(c *cobra.Command) *watch {
	w := &watch{}
	c.Flags().BoolVarP(&w.on, "watch", "w", false, "after what there is, print what changes")
	c.Flags().DurationVar(&w.interval, "watch-interval", 2*time.Second, "pause between two looks of a watch")
	return w
}

// watched is a thing, and what tells that it changed.
type watched struct {
	thing
	key, version string
}

// follow prints what changes from one look to the next, until ctx ends. gone is
// how a thing is printed that is not there any more.
func (t *Tool) follow(
	ctx context.Context, o *output, cols columns, every time.Duration,
	look func(context.Context) ([]watched, error), gone func(watched) thing,
) error {
	ticker := t.Clock.NewTicker(every)
	defer ticker.Stop()
	var known []watched
	for {
		found, err := look(ctx)
		if ctx.Err() != nil {
			return nil // whoever watches ends it so
		}
		if err != nil {
			return err
		}
		if err := o.printEach(t.Out, cols, changes(known, found, gone)); err != nil {
			return err
		}
		known = found
		select {
		case <-ticker.C():
		case <-ctx.Done():
			return nil
		}
	}
}

// changes in the order of the looks: what is new or other, then what is gone.
func changes(before, now []watched, gone func(watched) thing) []thing {
	versions := make(map[string]string, len(before))
	for _, w := range before {
		versions[w.key] = w.version
	}
	there := make(map[string]bool, len(now))
	var changed []thing
	for _, w := range now {
		there[w.key] = true
		if version, known := versions[w.key]; !known || version != w.version {
			changed = append(changed, w.thing)
		}
	}
	for _, w := range before {
		if !there[w.key] {
			changed = append(changed, gone(w))
		}
	}
	return changed
}
