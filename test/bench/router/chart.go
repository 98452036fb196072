package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// plotter draws charts. It is a module of its own, so that what it needs stays
// out of this one.
const plotter = "test/bench/router/plot"

// chart is what the plotter draws. Values stand over their categories.
type chart struct {
	// File has no extension.
	File       string   `json:"file"`
	Title      string   `json:"title"`
	X          string   `json:"x"`
	Y          string   `json:"y"`
	Categories []string `json:"categories"`
	Series     []series `json:"series"`
	Bars       bool     `json:"bars,omitempty"`
	Bound      *bound   `json:"bound,omitempty"`
}

type series struct {
	Name   string    `json:"name"`
	Values []float64 `json:"values"`
}

// bound is a line across a chart.
type bound struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
}

// plot writes the charts of what was measured, if plots are wanted.
func (b *bench) plot(ctx context.Context) error {
	if b.plots == "" {
		return nil
	}
	folder, err := filepath.Abs(b.plots)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	text, err := json.Marshal(b.charts)
	if err != nil {
		return err
	}
	draw := exec.CommandContext(ctx, "go", "run", "-C", plotter, ".", "-out", folder)
	draw.Stdin = bytes.NewReader(text)
	if said, err := draw.CombinedOutput(); err != nil {
		return fmt.Errorf("plotting: %w\n%s", err, said)
	}
	b.say("%d plots written to %s", len(b.charts), folder)
	return nil
}
