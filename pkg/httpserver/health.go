package httpserver

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"time"

	"go.uber.org/zap"
	"k8s.io/utils/clock"
)

// detailTimeout bounds the checks of all dependencies together. It is under
// the second that a kubelet waits for a probe by default.
const detailTimeout = 500 * time.Millisecond

// Phases of a process, as they stand in the body of a readiness answer.
const (
	phaseStarting = "starting"
	phaseReady    = "ready"
	phaseDraining = "draining"
)

// What the body says of a dependency. The cause is logged only: it names
// addresses, and these routes are open to whoever reaches the port.
const (
	detailOK      = "ok"
	detailFailing = "failing"
)

// Health is the state of this process: starting, ready, draining. Trouble
// with a dependency that all replicas share is told in the body and never
// changes the status, since taking every replica out at once helps nobody.
type Health struct {
	clk clock.WithTicker
	log *zap.Logger

	mu      sync.Mutex
	phase   string            // guarded by mu
	details []detail          // guarded by mu
	last    map[string]string // what was found last, by name; guarded by mu
}

type detail struct {
	name  string
	check func(context.Context) error
}

// NewHealth is the health of a process that is starting.
func NewHealth(clk clock.WithTicker, log *zap.Logger) *Health {
	return &Health{clk: clk, log: log, phase: phaseStarting, last: map[string]string{}}
}

// Ready ends the start. A process that drains stays so.
func (h *Health) Ready() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.phase == phaseStarting {
		h.phase = phaseReady
	}
}

// Drain makes readiness fail for good.
func (h *Health) Drain() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.phase = phaseDraining
}

// Detail adds a dependency to the body of the readiness answer. The check
// must return soon after its context ends, which is within half a second.
func (h *Health) Detail(name string, check func(context.Context) error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.details = append(h.details, detail{name, check})
}

// Readyz answers 200 while the process serves, else 503, with what is known of
// its dependencies.
func (h *Health) Readyz(w http.ResponseWriter, r *http.Request) {
	details := h.check(r.Context())
	h.mu.Lock()
	phase := h.phase
	h.mu.Unlock()
	code := http.StatusOK
	if phase != phaseReady {
		code = http.StatusServiceUnavailable
	}
	writeJSON(w, code, struct {
		Status  string            `json:"status"`
		Details map[string]string `json:"details,omitempty"`
	}{phase, details})
}

// Status answers 200 with a fixed status: whoever gets it knows that the
// process lives, and no more.
func Status(status string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, struct {
			Status string `json:"status"`
		}{status})
	}
}

// check asks all dependencies at once; one that does not answer in time is
// failing.
func (h *Health) check(ctx context.Context) map[string]string {
	h.mu.Lock()
	details := h.details
	h.mu.Unlock()
	checks, cancel := context.WithCancel(ctx)
	defer cancel()
	timer := h.clk.NewTimer(detailTimeout)
	defer timer.Stop()

	results := make(chan finding, len(details)) // a late one does not block
	missing := make(map[string]bool, len(details))
	for _, d := range details {
		missing[d.name] = true
		go func() { results <- finding{d.name, d.check(checks)} }()
	}
	found := make(map[string]string, len(details))
	for len(missing) > 0 {
		select {
		case f := <-results:
			delete(missing, f.name)
			found[f.name] = h.note(ctx, f)
		case <-timer.C():
			for name := range missing {
				found[name] = h.note(ctx, finding{name, errNoAnswer})
			}
			return found
		case <-ctx.Done():
			return found // nobody reads the answer
		}
	}
	return found
}

// finding is what a check returned.
type finding struct {
	name string
	err  error
}

var errNoAnswer = fmt.Errorf("no answer within %s", detailTimeout)

// note returns how the body puts a finding, and logs a change once.
func (h *Health) note(ctx context.Context, f finding) string {
	state := detailOK
	if f.err != nil {
		state = detailFailing
	}
	if ctx.Err() != nil {
		return state // the prober went away; the dependency is not to blame
	}
	h.mu.Lock()
	former := h.last[f.name]
	h.last[f.name] = state
	h.mu.Unlock()
	switch {
	case state == former:
	case state == detailFailing:
		h.log.Warn("dependency failing", zap.String("dependency", f.name), zap.Error(f.err))
	case former == detailFailing:
		h.log.Info("dependency back", zap.String("dependency", f.name))
	}
	return state
}

func writeJSON(w http.ResponseWriter, code int, body any) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(code)
	text, err := json.Marshal(body)
	if err != nil {
		panic(err) // the bodies above always encode
	}
	_, _ = w.Write(text) // a client that is gone needs no answer
}
