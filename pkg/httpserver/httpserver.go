// Package httpserver owns what both programs need around their routes: the
// listener, the order in which a server stops, the health routes, and the
// middlewares for request ids, access records and panics.
//
// It knows no route and no error table: what is served, and the shape of an
// error, belong to the program.
package httpserver
