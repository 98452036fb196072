package router

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
)

// errHeaderLine: a header that would end before its end.
var errHeaderLine = errors.New("a header has a line break in it")

// maxRequestHead is how long a head may be for its memory to be kept: 16 KiB.
const maxRequestHead = 16 << 10

// requestHead is memory to make the head of a request in.
type requestHead struct {
	bytes []byte
	names []string
}

var requestHeads = sync.Pool{New: func() any { return new(requestHead) }}

// writeRequest writes a request that has no body, in one piece, as
// http.Request.Write would: the length and the way of transfer of a body that
// is not there are left out, and so is the name of a client that has none.
func writeRequest(w io.Writer, r *http.Request) error {
	head, ok := requestHeads.Get().(*requestHead)
	if !ok {
		head = new(requestHead)
	}
	defer head.free()
	if err := head.fill(r); err != nil {
		return err
	}
	if _, err := w.Write(head.bytes); err != nil {
		return fmt.Errorf("%w: %w", errNoAnswer, err)
	}
	return nil
}

// free gives the memory back, unless it is too much to keep.
func (h *requestHead) free() {
	if cap(h.bytes) <= maxRequestHead {
		requestHeads.Put(h)
	}
}

func (h *requestHead) fill(r *http.Request) error {
	h.bytes, h.names = h.bytes[:0], h.names[:0]
	h.add(r.Method, " ", r.URL.RequestURI(), " HTTP/1.1\r\n")
	if err := h.line("Host", r.Host); err != nil {
		return err
	}
	for name := range r.Header {
		h.names = append(h.names, name)
	}
	slices.Sort(h.names)
	for _, name := range h.names {
		switch name {
		case "Host", "Content-Length", "Transfer-Encoding", "Trailer":
			continue
		}
		for _, value := range r.Header[name] {
			if value == "" && name == "User-Agent" {
				continue
			}
			if err := h.line(name, value); err != nil {
				return err
			}
		}
	}
	h.add("\r\n")
	return nil
}

// line adds a header. The server has checked what comes from the client; a
// line break that got here all the same must not become a header, or a second
// request.
func (h *requestHead) line(name, value string) error {
	if broken(name) || broken(value) {
		return fmt.Errorf("%w: %q", errHeaderLine, name)
	}
	h.add(name, ": ", value, "\r\n")
	return nil
}

func broken(s string) bool {
	return strings.IndexByte(s, '\n') >= 0 || strings.IndexByte(s, '\r') >= 0 || strings.IndexByte(s, 0) >= 0
}

func (h *requestHead) add(parts ...string) {
	for _, part := range parts {
		h.bytes = append(h.bytes, part...)
	}
}
