//go:build gomonkey

package main

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/agiledragon/gomonkey/v2"
	"github.com/stretchr/testify/assert"
)

// A host without a name is rare enough that no seam is worth its weight.
func TestPatchedProcessIDWithoutHostname(t *testing.T) {
	patch := gomonkey.ApplyFuncReturn(os.Hostname, "", errors.New("no name"))
	defer patch.Reset()
	id := processID()
	assert.True(t, strings.HasPrefix(id, "unknown-"), id)
	assert.NotEqual(t, id, processID(), "two processes share a heartbeat")
}
