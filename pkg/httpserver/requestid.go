package httpserver

import (
	"context"
	"net/http"

	"github.com/google/uuid"
)

// headerRequestID carries the id both ways.
const headerRequestID = "X-Request-Id"

// maxRequestID bounds an id that a client brings, in bytes.
const maxRequestID = 128

// RequestID gives each request an id: the client's, if it is sane, else a new
// one. The answer bears it, unless a header of that name is set already, as
// when an answer of someone else is passed through.
func RequestID(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id := r.Header.Get(headerRequestID)
		if !saneRequestID(id) {
			id = uuid.NewString()
		}
		rec := record(w)
		rec.before = func(h http.Header) {
			if _, set := h[headerRequestID]; !set {
				h.Set(headerRequestID, id)
			}
		}
		ctx, end := context.WithCancelCause(r.Context())
		defer end(nil)
		next.ServeHTTP(rec, r.WithContext(&requestContext{ctx, Record{id: id, end: end}})) //nolint:contextcheck // it is derived
		if rec.status == 0 {
			rec.before(rec.Header()) // the server sends the head on our return
		}
	})
}

// requestContext carries a request's record: one copy of the request, and one
// piece of memory, for all that handlers hang on to it.
type requestContext struct {
	context.Context //nolint:containedctx // it is one
	record          Record
}

// Value implements context.Context.
func (c *requestContext) Value(key any) any {
	if key == (recordKey{}) {
		return &c.record
	}
	return c.Context.Value(key)
}

// RequestIDFrom is the id of the request that ctx belongs to, or empty.
func RequestIDFrom(ctx context.Context) string {
	if r, ok := ctx.Value(recordKey{}).(*Record); ok {
		return r.id
	}
	return ""
}

// saneRequestID: printable ASCII without space, so that it can stand in a log
// line and a header as it is.
func saneRequestID(id string) bool {
	if id == "" || len(id) > maxRequestID {
		return false
	}
	for i := range len(id) {
		if id[i] <= ' ' || id[i] > '~' {
			return false
		}
	}
	return true
}
