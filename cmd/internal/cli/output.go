package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/printers"
	"sigs.k8s.io/yaml"
)

// Formats that are not templates. The first two are tables.
const (
	formatTable = ""
	formatWide  = "wide"
	formatJSON  = "json"
	formatYAML  = "yaml"
	formatName  = "name"
)

var plainFormats = []string{formatJSON, formatYAML, formatName, formatWide}

// output is how things are printed.
type output struct {
	format    string
	noHeaders bool
	templates *genericclioptions.KubeTemplatePrintFlags
	template  printers.ResourcePrinter
	table     interface { // remembers its widths, for a watch
		io.Writer
		Flush() error
	}
	headed bool
}

// addOutput gives a command the flag -o.
func addOutput(c *cobra.Command, formats ...string) *output {
	o := &output{templates: genericclioptions.NewKubeTemplatePrintFlags()}
	formats = append(formats, o.templates.AllowedFormats()...)
	c.Flags().StringVarP(&o.format, "output", "o", "", "`format` of the output: "+strings.Join(formats, ", "))
	if slices.Contains(formats, formatWide) {
		c.Flags().BoolVar(&o.noHeaders, "no-headers", false, "print tables without their headers")
	}
	_ = c.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(formats, cobra.ShellCompDirectiveNoFileComp)) // the flag is there
	before := c.PreRunE
	c.PreRunE = func(c *cobra.Command, args []string) error {
		if before != nil {
			if err := before(c, args); err != nil {
				return err
			}
		}
		return o.complete(formats)
	}
	return o
}

// complete checks the flags.
func (o *output) complete(formats []string) error {
	if o.format == formatTable || slices.Contains(plainFormats, o.format) && slices.Contains(formats, o.format) {
		return nil
	}
	var err error
	if o.template, err = o.templates.ToPrinter(o.format); genericclioptions.IsNoCompatiblePrinterError(err) {
		return usagef("-o %s: give one of %s", o.format, strings.Join(formats, ", "))
	}
	if err != nil {
		return usagef("-o %s: %w", o.format, err)
	}
	return nil
}

func (o *output) isTable() bool { return o.format == formatTable || o.format == formatWide }

// thing is what can be printed.
type thing struct {
	name string // as in "session/3f…"
	// object is what encodes to JSON.
	object any
	// cells of the table; wide ones follow.
	cells, wide []string
}

// columns of a table; wide ones follow.
type columns struct{ narrow, wide []string }

// printAll prints several things: in JSON, one object with all as its items.
func (o *output) printAll(w io.Writer, cols columns, things []thing) error {
	if o.isTable() || o.format == formatName {
		return o.printEach(w, cols, things)
	}
	items := make([]any, 0, len(things))
	for _, t := range things {
		items = append(items, t.object)
	}
	return o.encode(w, map[string]any{"items": items})
}

// printEach prints things one by one.
func (o *output) printEach(w io.Writer, cols columns, things []thing) error {
	switch {
	case len(things) == 0:
		return nil
	case o.isTable():
		return o.printTable(w, cols, things)
	case o.format == formatName:
		for _, t := range things {
			if _, err := fmt.Fprintln(w, t.name); err != nil {
				return err
			}
		}
		return nil
	}
	for _, t := range things {
		if err := o.encode(w, t.object); err != nil {
			return err
		}
	}
	return nil
}

func (o *output) printTable(w io.Writer, cols columns, things []thing) error {
	if o.table == nil {
		o.table = printers.GetNewTabWriter(w)
	}
	if !o.headed && !o.noHeaders {
		o.row(cols.narrow, cols.wide)
	}
	o.headed = true
	for _, t := range things {
		o.row(t.cells, t.wide)
	}
	return o.table.Flush()
}

// row: what a cell holds cannot steer the terminal.
func (o *output) row(cells, wide []string) {
	if o.format == formatWide {
		cells = slices.Concat(cells, wide)
	}
	shown := make([]string, len(cells))
	for i, cell := range cells {
		shown[i] = printers.EscapeTerminal(strings.Map(oneLine, cell))
		if cell == "" {
			shown[i] = "<none>"
		}
	}
	fmt.Fprintln(o.table, strings.Join(shown, "\t"))
}

func oneLine(r rune) rune {
	if r == '\n' || r == '\t' || r == '\r' {
		return ' '
	}
	return r
}

func (o *output) encode(w io.Writer, object any) error {
	text, err := json.MarshalIndent(object, "", "    ")
	if err != nil {
		return fmt.Errorf("encoding the output: %w", err)
	}
	switch o.format {
	case formatJSON:
		_, err = fmt.Fprintf(w, "%s\n", text)
	case formatYAML:
		if text, err = yaml.JSONToYAML(text); err == nil {
			_, err = fmt.Fprintf(w, "%s", text)
		}
	default:
		var content map[string]any
		if err = json.Unmarshal(text, &content); err == nil {
			err = o.template.PrintObj(&unstructured.Unstructured{Object: content}, w)
		}
	}
	return err
}
