// Package openapi owns the descriptions of both services by OpenAPI 3.1: every
// route, parameter, header, status and error code. They are written by hand;
// tests of both services hold their answers against them (openapitest), and
// docs/api.md is made from them.
package openapi

import (
	_ "embed" // the documents
	"fmt"
	"net/http"
	"sync"

	"sigs.k8s.io/yaml"
)

// The documents as they are written.
var (
	//go:embed workload-manager.yaml
	workloadManager []byte
	//go:embed router.yaml
	router []byte
)

// Documents as JSON; made when they are first asked for.
var (
	WorkloadManager = sync.OnceValue(func() []byte { return toJSON("workload-manager", workloadManager) })
	Router          = sync.OnceValue(func() []byte { return toJSON("router", router) })
)

// toJSON panics over a document that is no YAML, which no test lets pass.
func toJSON(name string, document []byte) []byte {
	text, err := yaml.YAMLToJSON(document)
	if err != nil {
		panic(fmt.Errorf("description of the %s: %w", name, err))
	}
	return text
}

// Handler serves a document.
func Handler(document func() []byte) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
		_, _ = w.Write(document()) // a client that left needs none
	}
}
