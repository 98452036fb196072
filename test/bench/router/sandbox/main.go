// Sandbox is the server behind the proxies that are measured: an HTTP server
// that does as little as it can. The last element of the path says what is
// wanted, whatever stands before it.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"path"
	"strconv"
	"time"

	"github.com/coder/websocket"
)

const (
	smallBody = `{"status":"ok"}`
	largeBody = 64 << 10 // bytes
)

func main() {
	addr := flag.String("addr", "", "host:port to listen on")
	interval := flag.Duration("interval", time.Second, "time between two events of a stream")
	flag.Parse()
	server := &http.Server{Addr: *addr, Handler: handler(*interval)} //nolint:gosec // on loopback
	if err := server.ListenAndServe(); err != nil {
		fmt.Fprintln(os.Stderr, "sandbox:", err)
		os.Exit(1)
	}
}

// handler answers:
//
//	small, large   a body of a few bytes, or of 64 KiB
//	hold           the head of an answer, whose body never comes
//	events         a stream of server-sent events: the time, in Unix nanoseconds
//	socket         a WebSocket that sends each message back
func handler(interval time.Duration) http.Handler {
	small, large := body([]byte(smallBody)), body(bytes.Repeat([]byte("x"), largeBody))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch path.Base(r.URL.Path) {
		case "small":
			small(w)
		case "large":
			large(w)
		case "hold":
			_ = http.NewResponseController(w).Flush() // whoever left is not held
			<-r.Context().Done()
		case "events":
			_ = events(w, r, interval) // the client left
		case "socket":
			_ = echo(w, r) // the client left
		default:
			http.NotFound(w, r)
		}
	})
}

// body answers with the bytes. The length is told, or a long body would be sent
// in chunks.
func body(b []byte) func(http.ResponseWriter) {
	length, kind := []string{strconv.Itoa(len(b))}, []string{"application/octet-stream"}
	return func(w http.ResponseWriter) {
		w.Header()["Content-Length"], w.Header()["Content-Type"] = length, kind
		_, _ = w.Write(b) // a client that left is none of our concern
	}
}

func events(w http.ResponseWriter, r *http.Request, interval time.Duration) error {
	w.Header().Set("Content-Type", "text/event-stream")
	out := http.NewResponseController(w)
	if err := out.Flush(); err != nil {
		return err
	}
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-r.Context().Done():
			return r.Context().Err()
		case <-ticker.C:
		}
		if _, err := fmt.Fprintf(w, "data: %d\n\n", time.Now().UnixNano()); err != nil {
			return err
		}
		if err := out.Flush(); err != nil {
			return err
		}
	}
}

func echo(w http.ResponseWriter, r *http.Request) (err error) {
	socket, err := websocket.Accept(w, r, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, socket.CloseNow()) }()
	ctx := context.WithoutCancel(r.Context()) // the connection is no longer the server's
	for {
		kind, message, err := socket.Read(ctx)
		if err != nil {
			return err
		}
		if err := socket.Write(ctx, kind, message); err != nil {
			return err
		}
	}
}
