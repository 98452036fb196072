package main

import (
	"errors"
	"fmt"
	"image/color"
	"path/filepath"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/vg"
	_ "gonum.org/v1/plot/vg/vgsvg" // the format of the files
)

// Size of a chart, and of its parts.
const (
	width, height = 16 * vg.Centimeter, 9 * vg.Centimeter
	barWidth      = 14 * vg.Millimeter
	lineWidth     = vg.Millimeter / 2
	legendFont    = font.Length(9)
	legendWidth   = 0.8 // in categories
)

// chart is what bench-router hands over. Values stand over their categories.
type chart struct {
	File       string   `json:"file"`
	Title      string   `json:"title"`
	X          string   `json:"x"`
	Y          string   `json:"y"`
	Categories []string `json:"categories"`
	Series     []series `json:"series"`
	Bars       bool     `json:"bars"`
	Bound      *bound   `json:"bound"`
}

type series struct {
	Name   string    `json:"name"`
	Values []float64 `json:"values"`
}

type bound struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
}

func (c chart) write(folder string) error {
	p, err := c.draw()
	if err != nil {
		return err
	}
	return p.Save(width, height, filepath.Join(folder, c.File+".svg"))
}

func (c chart) draw() (*plot.Plot, error) {
	if c.File == "" || len(c.Series) == 0 || len(c.Categories) == 0 {
		return nil, errors.New("nothing to draw")
	}
	p := plot.New()
	p.BackgroundColor = color.White // it is read on dark pages too
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = c.Title, c.X, c.Y
	p.Title.Padding = 4 * vg.Millimeter
	p.Y.Min = 0
	p.Add(plotter.NewGrid())
	for i, s := range c.Series {
		if len(s.Values) != len(c.Categories) {
			return nil, fmt.Errorf("%s has %d values for %d categories", s.Name, len(s.Values), len(c.Categories))
		}
		if err := c.addSeries(p, i, s); err != nil {
			return nil, fmt.Errorf("%s: %w", s.Name, err)
		}
	}
	c.addBound(p)
	p.NominalX(c.Categories...)
	// The legend stands in a column of its own, where nothing is drawn.
	p.X.Min, p.X.Max = -0.5, float64(len(c.Categories))+legendWidth-0.5
	p.Y.Max *= 1.05
	p.Legend.Top, p.Legend.Padding = true, vg.Millimeter
	p.Legend.TextStyle.Font.Size = legendFont
	return p, nil
}

func (c chart) addSeries(p *plot.Plot, i int, s series) error {
	if c.Bars {
		bars, err := plotter.NewBarChart(plotter.Values(s.Values), barWidth)
		if err != nil {
			return err
		}
		bars.Color = plotutil.Color(i)
		bars.LineStyle.Width = 0
		bars.Offset = barWidth * (vg.Length(i) - vg.Length(len(c.Series)-1)/2)
		p.Add(bars)
		p.Legend.Add(s.Name, bars)
		return nil
	}
	points := make(plotter.XYs, len(s.Values))
	for x, value := range s.Values {
		points[x] = plotter.XY{X: float64(x), Y: value}
	}
	line, marks, err := plotter.NewLinePoints(points)
	if err != nil {
		return err
	}
	line.Color, line.Width = plotutil.Color(i), lineWidth
	marks.Color, marks.Shape = plotutil.Color(i), plotutil.Shape(i)
	p.Add(line, marks)
	p.Legend.Add(s.Name, line, marks)
	return nil
}

func (c chart) addBound(p *plot.Plot) {
	if c.Bound == nil {
		return
	}
	value := c.Bound.Value
	line := plotter.NewFunction(func(float64) float64 { return value })
	line.XMin, line.XMax = -0.5, float64(len(c.Categories))-0.5
	line.Samples = 2
	line.Color = color.Gray{Y: 90}
	line.Dashes = []vg.Length{vg.Millimeter * 2, vg.Millimeter}
	p.Add(line)
	p.Legend.Add(c.Bound.Name, line)
	p.Y.Max = max(p.Y.Max, value)
}
