//go:build generate

// docs writes the reference of the command line tool, as one page.
package main

import (
	"bytes"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/utils/clock"

	"github.com/agentcube/agentcube/cmd/internal/cli"
	"github.com/agentcube/agentcube/pkg/config"
)

func main() {
	_, root := cli.New(cli.Options{
		Name: "agentcube", Version: "v0", Env: config.ReadCLI(func(string) string { return "" }), Clock: clock.RealClock{},
		IOStreams: genericiooptions.NewTestIOStreamsDiscard(),
	})
	var page bytes.Buffer
	page.WriteString("# The command line tool\n\n<!-- Written by `make generate`. -->\n\n")
	err := write(&page, root)
	if err == nil {
		err = os.WriteFile(os.Args[1], page.Bytes(), 0o644)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// write writes a command, and those below it. The flags of kubectl stand with the
// root only.
func write(page *bytes.Buffer, c *cobra.Command) error {
	c.InitDefaultHelpCmd()
	c.InitDefaultVersionFlag()
	c.DisableAutoGenTag = true
	var one bytes.Buffer
	if err := doc.GenMarkdownCustom(c, &one, anchor); err != nil {
		return err
	}
	text := one.String()
	if before, after, inherits := strings.Cut(text, "### Options inherited from parent commands\n"); inherits {
		_, after, _ = strings.Cut(after, "### SEE ALSO")
		text = before + "### SEE ALSO" + after
	}
	page.WriteString(strings.ReplaceAll(text, "### SEE ALSO", "### See also"))
	for _, sub := range c.Commands() {
		if !sub.IsAvailableCommand() || sub.Name() == "completion" {
			continue
		}
		page.WriteString("\n")
		if err := write(page, sub); err != nil {
			return err
		}
	}
	return nil
}

// anchor turns the name of a command's own page into the link to its heading.
func anchor(file string) string {
	return "#" + strings.ReplaceAll(strings.TrimSuffix(file, ".md"), "_", "-")
}
