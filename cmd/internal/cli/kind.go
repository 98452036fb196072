package cli

import (
	"slices"
	"strings"

	"github.com/agentcube/agentcube/pkg/client"
)

// kindNames are what people call the kinds of template, the first being the one
// that is printed.
var kindNames = map[client.Kind][]string{
	client.AgentRuntime:    {"agentruntime", "agentruntimes", "ar"},
	client.CodeInterpreter: {"codeinterpreter", "codeinterpreters", "ci"},
}

func kindOf(text string) (client.Kind, error) {
	for kind, names := range kindNames {
		if slices.Contains(names, strings.ToLower(text)) {
			return kind, nil
		}
	}
	return "", usagef("%q is no kind of template: give agentruntime or codeinterpreter", text)
}

// nameOfKind is how a kind is written in front of a name.
func nameOfKind(kind string) string {
	if names := kindNames[client.Kind(kind)]; names != nil {
		return names[0]
	}
	return strings.ToLower(kind)
}

// templateOf reads KIND/NAME.
func templateOf(text string) (client.Kind, string, error) {
	kindText, name, ok := strings.Cut(text, "/")
	if !ok || name == "" || strings.Contains(name, "/") {
		return "", "", usagef("%q is no template: give KIND/NAME, as in codeinterpreter/python", text)
	}
	kind, err := kindOf(kindText)
	return kind, name, err
}

// sessionPrefix is in front of a session's id where names of several kinds meet.
const sessionPrefix = "session/"

func sessionID(text string) string { return strings.TrimPrefix(text, sessionPrefix) }
