package telemetry

import (
	"cmp"
	"runtime/debug"
)

// Build says which build a program is. What is not known reads "unknown".
type Build struct {
	// Version of the main module, "(devel)" for a build from a checkout
	// without a tag.
	Version string
	// Commit the checkout was at; "-dirty" is appended when it was changed.
	Commit string
	// Go is the version of the toolchain.
	Go string
}

// ReadBuild reads what the toolchain recorded in the running program.
func ReadBuild() Build {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = &debug.BuildInfo{}
	}
	return buildOf(info)
}

// String is what --version prints.
func (b Build) String() string {
	return b.Version + " (commit " + b.Commit + ", " + b.Go + ")"
}

func buildOf(info *debug.BuildInfo) Build {
	const unknown = "unknown"
	settings := map[string]string{}
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	commit := cmp.Or(settings["vcs.revision"], unknown)
	if settings["vcs.modified"] == "true" {
		commit += "-dirty"
	}
	return Build{
		Version: cmp.Or(info.Main.Version, unknown),
		Commit:  commit,
		Go:      cmp.Or(info.GoVersion, unknown),
	}
}
