package main

import (
	"fmt"
	"io"
	"time"
)

// Bounds that the figures are printed beside.
const (
	resyncBound   = 10 * time.Second
	residentBound = 400e6
	pageBound     = 10 * time.Millisecond
	// spareReads of rows for each that is due.
	spareReads = 0.1
)

// result is what one run showed.
type result struct {
	notDue, due int
	watchList   bool

	loaded, synced, settled time.Duration
	resync                  *resync // nil: none was seen

	// processor time until the caches were synced, and from there on until
	// everything was compared
	syncCPU, settleCPU time.Duration
	// bytes, once everything was compared
	resident, peak, heap, nextGC int64

	page page // of metrics, once everything was compared

	ended, passes int
	traffic       traffic
}

func (r result) print(out io.Writer) {
	lists := "streamed"
	if !r.watchList {
		lists = "not streamed, as of older API servers"
	}
	fmt.Fprintf(out, "\n## %d sessions and %d that become due; first lists %s\n\n", r.notDue, r.due, lists)
	line := func(what, value, bound string) { fmt.Fprintf(out, "%-58s %12s   %s\n", what, value, bound) }
	line("rows written to Redis", seconds(r.loaded), "")
	line("start to synced caches", seconds(r.synced), "")
	line("synced caches to every object compared with its row", seconds(r.settled), "")
	if r.resync == nil {
		line("synced caches to the end of the resync", "-", "no resync in this build")
	} else {
		line("synced caches to the end of the resync", seconds(r.resync.ended), "(bound: "+seconds(resyncBound)+")")
		line("  the resync alone", seconds(r.resync.took), "")
	}
	line("processor time for that, and to sync the caches", seconds(r.settleCPU)+" "+seconds(r.syncCPU), "")
	line("resident", megabytes(r.resident), fmt.Sprintf("(bound: %.0f MB with 100000 sessions)", residentBound/1e6))
	line("  most since the start", megabytes(r.peak), "")
	line("  heap in use, and where it is collected next", megabytes(r.heap)+" "+megabytes(r.nextGC), "")
	line("metrics page, the median and the worst of "+fmt.Sprint(pageReads-1), millis(r.page.median)+" "+millis(r.page.worst),
		fmt.Sprintf("(bound: %s) %d kB", millis(pageBound), r.page.bytes/1000))
	line("sessions ended", fmt.Sprintf("%d", r.ended), fmt.Sprintf("in %d pass(es)", r.passes))
	line("  rows read", fmt.Sprintf("%d", len(r.traffic.rows)),
		fmt.Sprintf("(bound: %.0f)", float64(r.due)*(1+spareReads)))
	line("  how often", fmt.Sprintf("%d", r.traffic.plain+r.traffic.scripts),
		fmt.Sprintf("%d by commands, %d within scripts, of them the comparisons of compare-and-set", r.traffic.plain, r.traffic.scripts))
	line("  in", seconds(r.pass()), "")
}

// pass is how long the rows were worked on.
func (r result) pass() time.Duration { return r.traffic.last.Sub(r.traffic.first) }

// printPasses shows what a pass costs beside more and more sessions that it has
// nothing to do with.
func printPasses(out io.Writer, results []result) {
	fmt.Fprintf(out, "\n## One pass beside sessions that are not due (should be flat)\n\n%12s %8s %8s %10s %10s\n",
		"not due", "ended", "rows", "commands", "time")
	for _, r := range results {
		fmt.Fprintf(out, "%12d %8d %8d %10d %10s\n", r.notDue, r.ended, len(r.traffic.rows), r.traffic.commands, seconds(r.pass()))
	}
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.2f s", d.Seconds()) }

func millis(d time.Duration) string { return fmt.Sprintf("%.1f ms", float64(d)/1e6) }

func megabytes(bytes int64) string { return fmt.Sprintf("%.0f MB", float64(bytes)/1e6) }
