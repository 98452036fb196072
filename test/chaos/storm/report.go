package storm

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/agentcube/agentcube/test/chaos/check"
)

const (
	// met is how often each crash point and each fault must come up.
	met = 3
	// readyPercent of the creates must give a session, in a run of so many that
	// a single outage cannot decide. In a shorter one some must.
	readyPercent = 50
	manyCreates  = 100
)

// Report is what a storm came to.
type Report struct {
	Options
	Steps, Rounds int
	Took          time.Duration
	Violations    []string

	mu       sync.Mutex // guards the rest
	outcomes map[Kind]map[string]int
	points   []string
	faults   []string
	last     string
	rows     int
	answers  int
}

func newReport(o Options) *Report { return &Report{Options: o, outcomes: map[Kind]map[string]int{}} }

func (r *Report) expect(points, faults []string) { r.points, r.faults = points, faults }

func (r *Report) count(k Kind, outcome string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.outcomes[k] == nil {
		r.outcomes[k] = map[string]int{}
	}
	r.outcomes[k][outcome]++
}

// checked notes what the last check looked at.
func (r *Report) checked(s check.Snapshot) {
	entries := 0
	for _, members := range s.Store.Members {
		entries += len(members)
	}
	fates := map[check.Fate]int{}
	for _, e := range s.Sessions {
		fates[e.Fate]++
	}
	r.rows += len(s.Store.Rows)
	r.answers += len(s.Answers)
	r.last = fmt.Sprintf("%d rows, %d index entries, %d objects, %d pods; %d sessions that live, %d that are gone, "+
		"%d whose end is not known; %d asked for through the router",
		len(s.Store.Rows), entries, len(s.Cluster.Objects), len(s.Cluster.Pods),
		fates[check.Lives], fates[check.Gone], fates[check.Either], len(s.Answers))
}

func isCreate(k Kind) bool { return strings.HasPrefix(string(k), "create") }

// creates returns how many there were and how many gave a session.
func (r *Report) creates() (all, good int) {
	for kind, outcomes := range r.outcomes {
		if !isCreate(kind) {
			continue
		}
		for outcome, n := range outcomes {
			if outcome == nothing {
				continue // none was sent
			}
			all += n
			if outcome == ready {
				good += n
			}
		}
	}
	return all, good
}

// Shortfalls are what the storm did too little of to prove anything.
func (r *Report) Shortfalls() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var short []string
	if all, good := r.creates(); good == 0 || all >= manyCreates && 100*good < readyPercent*all {
		short = append(short, fmt.Sprintf("%d of %d creates gave a session; %d %% of many must, and some of few", good, all, readyPercent))
	}
	if !r.Cover {
		return short
	}
	for kind, names := range map[Kind][]string{Crash: r.points, Fault: r.faults} {
		for _, name := range names {
			if n := r.outcomes[kind][name]; n < met {
				short = append(short, fmt.Sprintf("%s %q came up %d times; %d are wanted", kind, name, n, met))
			}
		}
	}
	slices.Sort(short)
	return short
}

// Print writes the mix of outcomes and, as the last line, the verdict.
func (r *Report) Print(to io.Writer) {
	fmt.Fprintf(to, "\nOutcomes of %d steps in %d rounds, seed %d:\n", r.Steps, r.Rounds, r.Seed)
	for _, kind := range slices.Sorted(maps.Keys(r.outcomes)) {
		fmt.Fprintf(to, "  %s\n", kind)
		for _, outcome := range slices.Sorted(maps.Keys(r.outcomes[kind])) {
			fmt.Fprintf(to, "    %5d  %s\n", r.outcomes[kind][outcome], outcome)
		}
	}
	fmt.Fprintf(to, "Checked: %d rows, %d answers of the router.\n", r.rows, r.answers)
	for _, v := range r.Violations {
		fmt.Fprintf(to, "violation: %s\n", v)
	}
	for _, s := range r.Shortfalls() {
		fmt.Fprintf(to, "shortfall: %s\n", s)
	}
	fmt.Fprintln(to, r.Verdict())
}

// OK tells whether the storm proves what it is to prove.
func (r *Report) OK() bool { return len(r.Violations) == 0 && len(r.Shortfalls()) == 0 }

// Verdict is one line.
func (r *Report) Verdict() string {
	word := "OK"
	switch {
	case len(r.Violations) > 0:
		word = "VIOLATION"
	case len(r.Shortfalls()) > 0:
		word = "SHORTFALL"
	}
	all, good := r.creates()
	crashes, faults := 0, 0
	for _, p := range r.points {
		crashes += r.outcomes[Crash][p]
	}
	for _, f := range r.faults {
		faults += r.outcomes[Fault][f]
	}
	return fmt.Sprintf("chaos: %s seed=%d steps=%d rounds=%d creates=%d ready=%d crashes=%d faults=%d violations=%d shortfalls=%d took=%s",
		word, r.Seed, r.Steps, r.Rounds, all, good, crashes, faults, len(r.Violations), len(r.Shortfalls()), r.Took.Round(time.Second))
}
