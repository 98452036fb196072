package node

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/coder/websocket"
	"k8s.io/utils/clock"
)

// echoLimit is how much of a request body is echoed; the rest is read and
// dropped.
const echoLimit = 1 << 20

// ReceivedHeader of an echo says how many bytes of body arrived.
const ReceivedHeader = "X-Received-Bytes"

// Echo is the answer of a pod: what it received, and who it is.
type Echo struct {
	Addr    string      `json:"addr"` // host:port that the request reached
	Body    string      `json:"body"` // up to 1 MiB of it
	Headers http.Header `json:"headers"`
	Host    string      `json:"host"`
	Method  string      `json:"method"`
	Pod     string      `json:"pod"`
	UID     string      `json:"uid"` // of the pod
	URI     string      `json:"uri"` // raw, as on the request line
}

// application is what runs in every pod.
//
//	/missing           Go's plain 404 page
//	/status/{code}     an echo with that status
//	/slow?d=5s         an echo after d
//	/sse?n=3&d=100ms   n server-sent events, d apart; without end when n is 0
//	/ws                WebSocket that sends back each message
//	/stall             no answer until the client goes
//	anything else      an echo
type application struct{ clock clock.Clock }

// ServeHTTP does not use http.ServeMux, which would redirect paths such as //a.
func (a *application) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	endpointOf(r).requests.Add(1)
	status, isStatus := strings.CutPrefix(r.URL.Path, "/status/")
	switch {
	case r.URL.Path == "/missing":
		http.NotFound(w, r)
	case isStatus:
		a.status(w, r, status)
	case r.URL.Path == "/slow":
		a.slow(w, r)
	case r.URL.Path == "/sse":
		a.events(w, r)
	case r.URL.Path == "/ws":
		a.webSocket(w, r)
	case r.URL.Path == "/stall":
		stall(w, r)
	default:
		echo(w, r, http.StatusOK)
	}
}

func echo(w http.ResponseWriter, r *http.Request, status int) {
	body, err := io.ReadAll(io.LimitReader(r.Body, echoLimit))
	if err != nil {
		return // the client went
	}
	dropped, err := io.Copy(io.Discard, r.Body)
	if err != nil {
		return // the client went
	}
	e := endpointOf(r)
	text, err := json.Marshal(Echo{
		Addr:    r.Context().Value(http.LocalAddrContextKey).(net.Addr).String(),
		Body:    string(body),
		Headers: r.Header,
		Host:    r.Host,
		Method:  r.Method,
		Pod:     e.pod.Name,
		UID:     string(e.uid),
		URI:     r.RequestURI,
	})
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set(ReceivedHeader, strconv.FormatInt(int64(len(body))+dropped, 10))
	w.WriteHeader(status)
	// An error means that the client went, or that the status allows no body.
	_, _ = w.Write(append(text, '\n'))
}

func (a *application) status(w http.ResponseWriter, r *http.Request, code string) {
	status, err := strconv.Atoi(code)
	// Statuses below 200 are no final answers.
	if err != nil || status < http.StatusOK || status > 999 {
		http.Error(w, fmt.Sprintf("%q is not a status between 200 and 999", code), http.StatusBadRequest)
		return
	}
	echo(w, r, status)
}

func (a *application) slow(w http.ResponseWriter, r *http.Request) {
	delay, err := durationOf(r, "d", 0)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if a.wait(r, delay) {
		echo(w, r, http.StatusOK)
	}
}

func (a *application) events(w http.ResponseWriter, r *http.Request) {
	count, err := intOf(r, "n", 3)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	delay, err := durationOf(r, "d", 100*time.Millisecond)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-cache")
	flush := http.NewResponseController(w).Flush
	for i := 1; count == 0 || i <= count; i++ {
		if i > 1 && !a.wait(r, delay) {
			return
		}
		if _, err := fmt.Fprintf(w, "id: %d\ndata: {\"n\":%d,\"pod\":%q}\n\n", i, i, endpointOf(r).pod.Name); err != nil {
			return
		}
		if flush() != nil {
			return
		}
	}
}

// webSocket sends every message back until the client closes.
func (a *application) webSocket(w http.ResponseWriter, r *http.Request) {
	socket, err := websocket.Accept(w, r, &websocket.AcceptOptions{InsecureSkipVerify: true})
	if err != nil {
		return // Accept has answered
	}
	defer func() { _ = socket.CloseNow() }() // it is over in any case
	socket.SetReadLimit(-1)
	for {
		kind, message, err := socket.Read(r.Context())
		if err != nil {
			return
		}
		if err := socket.Write(r.Context(), kind, message); err != nil {
			return
		}
	}
}

// stall reads the body, without which the server does not notice that the client
// goes.
func stall(_ http.ResponseWriter, r *http.Request) {
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		return
	}
	<-r.Context().Done()
}

// wait tells whether the time passed before the client went.
func (a *application) wait(r *http.Request, d time.Duration) bool {
	timer := a.clock.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C():
		return true
	case <-r.Context().Done():
		return false
	}
}

func durationOf(r *http.Request, name string, otherwise time.Duration) (time.Duration, error) {
	value := r.URL.Query().Get(name)
	if value == "" {
		return otherwise, nil
	}
	return time.ParseDuration(value)
}

func intOf(r *http.Request, name string, otherwise int) (int, error) {
	value := r.URL.Query().Get(name)
	if value == "" {
		return otherwise, nil
	}
	return strconv.Atoi(value)
}
