package router

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/net/http/httpguts"
)

var (
	// errHeaderLine: a header that would end before its end.
	errHeaderLine = errors.New("a header has a line break in it")
	// errRequestLine: a first line that would be read as another.
	errRequestLine = errors.New("a method or target that no request line can have")
)

// maxRequestHead is how long a head with its body may be for its memory to be
// kept: 32 KiB.
const maxRequestHead = 32 << 10

// requestHead is memory to make a request in: its head, and its body if that is
// short.
type requestHead struct {
	bytes []byte
	names []string
	// whole: the body is in it, after so many bytes.
	whole  bool
	length int
}

var requestHeads = sync.Pool{New: func() any { return new(requestHead) }}

func newRequestHead() *requestHead {
	head, ok := requestHeads.Get().(*requestHead)
	if !ok {
		head = new(requestHead)
	}
	return head
}

// free gives the memory back, unless it is too much to keep.
func (h *requestHead) free() {
	if cap(h.bytes) <= maxRequestHead {
		requestHeads.Put(h)
	}
}

// addBody reads the body, once: its request may be written to more than one
// connection.
func (h *requestHead) addBody(r *http.Request) error {
	if h.whole || r.Body == nil {
		return nil
	}
	n := len(h.bytes)
	h.length = n
	h.bytes = slices.Grow(h.bytes, int(r.ContentLength))[:n+int(r.ContentLength)]
	if _, err := io.ReadFull(r.Body, h.bytes[n:]); err != nil {
		return fmt.Errorf("reading the body of the request: %w", err)
	}
	h.whole = true
	return r.Body.Close()
}

// body is one that can be read: the same if it has not been, else a copy.
func (h *requestHead) body(same io.ReadCloser) io.ReadCloser {
	if !h.whole {
		return same
	}
	return io.NopCloser(bytes.NewReader(slices.Clone(h.bytes[h.length:])))
}

// fill makes the head, as http.Request.Write would: the length is that of the
// body, and a client that has no name is not given one.
func (h *requestHead) fill(r *http.Request) error {
	h.bytes, h.names, h.whole = h.bytes[:0], h.names[:0], false
	target := r.URL.RequestURI()
	if !httpguts.ValidHeaderFieldName(r.Method) || !fitsLine(target) {
		return fmt.Errorf("%w: %q %q", errRequestLine, r.Method, target)
	}
	h.add(r.Method, " ", target, " HTTP/1.1\r\n")
	if err := h.line("Host", r.Host); err != nil {
		return err
	}
	if length := contentLength(r); length != "" {
		h.add("Content-Length: ", length, "\r\n")
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

// contentLength is empty for a request whose method needs no body and that has
// none.
func contentLength(r *http.Request) string {
	switch {
	case r.Body != nil:
		return strconv.FormatInt(r.ContentLength, 10)
	case r.Method == http.MethodPost, r.Method == http.MethodPut, r.Method == http.MethodPatch:
		return "0"
	default:
		return ""
	}
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

// fitsLine reports a target that ends where it ends. HTTP/2 lets more pass: any
// text is a method there, so a method is looked at too.
func fitsLine(target string) bool {
	for i := range len(target) {
		if c := target[i]; c <= ' ' || c == 0x7f {
			return false
		}
	}
	return true
}

func broken(s string) bool {
	return strings.IndexByte(s, '\n') >= 0 || strings.IndexByte(s, '\r') >= 0 || strings.IndexByte(s, 0) >= 0
}

func (h *requestHead) add(parts ...string) {
	for _, part := range parts {
		h.bytes = append(h.bytes, part...)
	}
}
