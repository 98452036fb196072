package cli

//go:generate go run -tags generate ./docs ../../../docs/cli.md
