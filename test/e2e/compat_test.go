package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// compatBehaviours hold our wire, rows, objects and command lines against
// those recorded from an existing installation, in testdata/compat.
var compatBehaviours = []behaviour{
	{"every recorded request gets the recorded answer", replay},
	{"an existing router finds what it needs in our rows, in every state", rowsForExistingRouters},
	{"our objects are those of an existing installation, and what differs is on purpose", recordedObjects},
	{"the programs start as they are started in existing installations", recordedCommandLines},
	{"both programs speak mTLS when they are given its files", recordedMTLS},
	{"a router with an issuer out of reach starts, and lets nobody in", recordedOIDC},
	{"a bad configuration is refused whole, with every problem named", badConfiguration},
}

// compatAloneBehaviours put our workload-manager in the place of another.
var compatAloneBehaviours = []behaviour{
	{"rows of an existing installation are served, collected, deleted and rewritten", recordedRows},
}

// recorded reads a file of what was recorded.
func recorded(t *testing.T, file string, into any) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "compat", file))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, into))
}

// recordedTemplates are the templates that the recorded sessions were made
// from.
func recordedTemplates() string {
	picod := picodTemplate("picod") + "  sessionTimeout: 5m\n  maxSessionDuration: 1h\n"
	return strings.Join([]string{
		runtimeTemplate("echo"), interpreterTemplate("cold", 0), interpreterTemplate("warm", 2), picod,
	}, "\n---\n")
}
