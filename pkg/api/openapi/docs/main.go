//go:build generate

// docs writes the reference of the HTTP API, as one page, from the documents.
package main

import (
	"bytes"
	"fmt"
	"os"
)

const head = `# The HTTP API

<!-- Written by ` + "`make generate`" + `. -->

Both services serve their part of this as an OpenAPI 3.1 document, at ` + "`/openapi.json`" + `.
`

func main() {
	page := bytes.NewBufferString(head)
	for _, file := range os.Args[2:] {
		text, err := os.ReadFile(file)
		if err == nil {
			err = write(page, text)
		}
		if err != nil {
			fail(fmt.Errorf("%s: %w", file, err))
		}
	}
	if err := os.WriteFile(os.Args[1], page.Bytes(), 0o644); err != nil {
		fail(err)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}
