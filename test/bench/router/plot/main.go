// Plot draws the charts that bench-router hands it on standard input, each into
// an SVG file. It knows nothing of what was measured.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
)

func main() {
	out := flag.String("out", ".", "`folder` to write to")
	flag.Parse()
	if err := run(os.Stdin, *out); err != nil {
		fmt.Fprintln(os.Stderr, "plot:", err)
		os.Exit(1)
	}
}

func run(in io.Reader, folder string) error {
	var charts []chart
	if err := json.NewDecoder(in).Decode(&charts); err != nil {
		return fmt.Errorf("reading the charts: %w", err)
	}
	for _, c := range charts {
		if err := c.write(folder); err != nil {
			return fmt.Errorf("drawing %q: %w", c.Title, err)
		}
	}
	return nil
}
