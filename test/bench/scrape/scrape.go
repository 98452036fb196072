// Package scrape reads what a program says of itself at /metrics. It owns the
// request and the format; what the numbers mean is for the caller to know.
package scrape

import (
	"context"
	"fmt"
	"io"
	"net/http"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// Metrics by name.
type Metrics map[string]*dto.Metric

// Value of a counter or gauge; 0 if there is none of that name.
func (m Metrics) Value(name string) float64 {
	metric := m[name]
	if counter := metric.GetCounter(); counter != nil {
		return counter.GetValue()
	}
	return metric.GetGauge().GetValue()
}

// Read returns the metrics that are one number: those with labels of several
// values are left out.
func Read(ctx context.Context, url string) (Metrics, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("GET %s: %s", url, response.Status)
	}
	return parse(response.Body)
}

func parse(text io.Reader) (Metrics, error) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(text)
	if err != nil {
		return nil, fmt.Errorf("reading metrics: %w", err)
	}
	metrics := make(Metrics, len(families))
	for name, family := range families {
		if all := family.GetMetric(); len(all) == 1 {
			metrics[name] = all[0]
		}
	}
	return metrics, nil
}
