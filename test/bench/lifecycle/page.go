package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"
)

// pageReads of the metrics page, of which the median and the worst are told.
const pageReads = 41

// page is what it costs to read the metrics page.
type page struct {
	median, worst time.Duration
	bytes         int64
}

// readPage reads the page again and again, on one connection as a server of
// Prometheus does. The first time does not count: it opens that connection.
func readPage(ctx context.Context, url string) (p page, err error) {
	client := &http.Client{Transport: &http.Transport{DisableCompression: true}}
	defer client.CloseIdleConnections()
	var took []time.Duration
	for range pageReads {
		begun := time.Now()
		if p.bytes, err = get(ctx, client, url); err != nil {
			return page{}, err
		}
		took = append(took, time.Since(begun))
	}
	took = took[1:]
	slices.Sort(took)
	p.median, p.worst = took[len(took)/2], took[len(took)-1]
	return p, nil
}

func get(ctx context.Context, client *http.Client, url string) (int64, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, err
	}
	response, err := client.Do(request)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("GET %s: %s", url, response.Status)
	}
	return io.Copy(io.Discard, response.Body)
}
