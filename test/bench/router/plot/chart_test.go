package main

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const charts = `[
	{"file": "lines", "title": "Rates", "x": "connections", "y": "per second", "categories": ["1", "16"],
	 "series": [{"name": "bare", "values": [10, 20]}, {"name": "ours", "values": [9, 18]}],
	 "bound": {"name": "the bound", "value": 8.5}},
	{"file": "bars", "title": "Memory", "y": "kB", "bars": true, "categories": ["resident"],
	 "series": [{"name": "bare", "values": [48]}]}
]`

func TestEachChartIsAnSVGThatSaysWhatItShows(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	require.NoError(t, run(strings.NewReader(charts), folder))
	for file, want := range map[string]struct {
		texts []string
		paths int // at the least: lines, bars, marks
	}{
		"lines.svg": {[]string{"Rates", "connections", "per second", "16", "bare", "ours", "the bound"}, 5},
		"bars.svg":  {[]string{"Memory", "kB", "resident", "bare"}, 1},
	} {
		texts, paths := parts(t, filepath.Join(folder, file))
		assert.Subset(t, texts, want.texts, file)
		assert.GreaterOrEqual(t, paths, want.paths, file)
	}
}

// parts reads the texts of an SVG and counts its paths.
func parts(t *testing.T, path string) (texts []string, paths int) {
	t.Helper()
	file, err := os.Open(path)
	require.NoError(t, err)
	defer func() { _ = file.Close() }()
	decoder, name := xml.NewDecoder(file), ""
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			return texts, paths
		}
		require.NoError(t, err)
		switch token := token.(type) {
		case xml.StartElement:
			name = token.Name.Local
			if name == "path" {
				paths++
			}
		case xml.CharData:
			if name == "text" {
				texts = append(texts, strings.TrimSpace(string(token)))
			}
		case xml.EndElement:
			name = ""
		}
	}
}

func TestWhatCannotBeDrawnIsAnError(t *testing.T) {
	t.Parallel()
	for name, input := range map[string]string{
		"no JSON":            `<svg>`,
		"nothing":            `[{"file": "a", "categories": ["1"]}]`,
		"too few values":     `[{"file": "a", "categories": ["1", "2"], "series": [{"name": "s", "values": [1]}]}]`,
		"nowhere to write":   `[{"file": "no/such/a", "categories": ["1"], "series": [{"name": "s", "values": [1]}]}]`,
		"no name for a file": `[{"categories": ["1"], "series": [{"name": "s", "values": [1]}]}]`,
	} {
		require.Error(t, run(strings.NewReader(input), t.TempDir()), name)
	}
}
