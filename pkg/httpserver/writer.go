package httpserver

import (
	"bufio"
	"io"
	"net"
	"net/http"
)

// recorder sees what is answered. It passes on what the writer below can do,
// for callers that ask by interface as well as for http.ResponseController;
// what that writer cannot do fails with http.ErrNotSupported.
type recorder struct {
	http.ResponseWriter
	status int // 0: nothing was sent yet
	bytes  int64
	// before runs once, when the head is about to be sent.
	before func(http.Header)
}

// record returns the recorder that w already is, or wraps it.
func record(w http.ResponseWriter) *recorder {
	if r, ok := w.(*recorder); ok {
		return r
	}
	return &recorder{ResponseWriter: w}
}

// Unwrap is for http.ResponseController.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

// WriteHeader sends the head. Informational answers come before it, except
// the switch to another protocol, which is the last one.
func (r *recorder) WriteHeader(status int) {
	if status >= http.StatusOK || status == http.StatusSwitchingProtocols {
		r.head(status)
	}
	r.ResponseWriter.WriteHeader(status)
}

// Write sends a piece of the body.
func (r *recorder) Write(p []byte) (int, error) {
	r.head(http.StatusOK)
	n, err := r.ResponseWriter.Write(p)
	r.bytes += int64(n)
	return n, err
}

// ReadFrom lets the server copy a file or connection without passing it
// through our memory, where it can.
func (r *recorder) ReadFrom(src io.Reader) (int64, error) {
	r.head(http.StatusOK)
	n, err := io.Copy(r.ResponseWriter, src)
	r.bytes += n
	return n, err
}

// Flush sends what is buffered.
func (r *recorder) Flush() {
	_ = r.FlushError() // the interface has no room for it
}

// FlushError is Flush for http.ResponseController.
func (r *recorder) FlushError() error {
	r.head(http.StatusOK)
	return http.NewResponseController(r.ResponseWriter).Flush()
}

// Hijack hands the connection over. What is sent on it from here on is not
// seen; the status is taken to be the switch that it is made for.
func (r *recorder) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(r.ResponseWriter).Hijack()
	if err == nil && r.status == 0 {
		r.status = http.StatusSwitchingProtocols
	}
	return conn, rw, err
}

func (r *recorder) head(status int) {
	if r.status != 0 {
		return
	}
	r.status = status
	if r.before != nil {
		r.before(r.Header())
	}
}
