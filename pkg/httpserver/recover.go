package httpserver

import (
	"fmt"
	"net/http"

	"go.uber.org/zap"
)

// Recover turns a panic into a logged error and the answer of respond, which
// writes a 500 in the program's own shape. If part of an answer was sent
// already, the connection is aborted instead, so that nobody takes the part
// for the whole. http.ErrAbortHandler passes through: it asks for just that.
func Recover(log *zap.Logger, respond http.HandlerFunc) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			rec := record(w)
			defer func() {
				if value := recover(); value != nil {
					recovered(value, log, respond, rec, r)
				}
			}()
			next.ServeHTTP(rec, r)
		})
	}
}

// recovered logs and answers the panic with that value, or passes it on.
func recovered(value any, log *zap.Logger, respond http.HandlerFunc, rec *recorder, r *http.Request) {
	// Compared as net/http does it, by identity.
	if err, ok := value.(error); ok && err == http.ErrAbortHandler { //nolint:errorlint // see above
		panic(value)
	}
	log.Error("panic while serving", zap.String("panic", fmt.Sprint(value)), zap.Stack("stack"),
		zap.String("requestId", RequestIDFrom(r.Context())))
	if rec.status != 0 {
		panic(http.ErrAbortHandler)
	}
	respond(rec, r)
}
