package config

import (
	"maps"
	"slices"
	"strings"
)

// klogFlags are the flags that deployments carry from programs that log with
// klog, with the value each has when it is given without one.
var klogFlags = map[string]string{
	"add_dir_header":                   "true",
	"alsologtostderr":                  "true",
	"alsologtostderrthreshold":         "",
	"legacy_stderr_threshold_behavior": "true",
	"log_backtrace_at":                 "",
	"log_dir":                          "",
	"log_file":                         "",
	"log_file_max_size":                "",
	"logtostderr":                      "true",
	"one_output":                       "true",
	"skip_headers":                     "true",
	"skip_log_headers":                 "true",
	"stderrthreshold":                  "",
	"vmodule":                          "",
}

// addKlogFlags accepts klog's flags. Verbosity has a meaning here; the rest,
// which say where klog writes, have none.
func addKlogFlags(p *parser) (verbosity *int) {
	verbosity = p.flags.IntP("v", "v", 0, "klog's verbosity; 1 and above is --log-level=debug")
	for _, name := range slices.Sorted(maps.Keys(klogFlags)) {
		p.flags.String(name, "", "ignored")
		flag := p.flags.Lookup(name)
		flag.NoOptDefVal, flag.Hidden = klogFlags[name], true
	}
	return verbosity
}

// klogWarning names the ignored flags that were given, or is empty.
func klogWarning(p *parser) string {
	var given []string
	for _, name := range slices.Sorted(maps.Keys(klogFlags)) {
		if p.given(name) {
			given = append(given, "--"+name)
		}
	}
	if given == nil {
		return ""
	}
	return strings.Join(given, ", ") + ": ignored; this program logs to standard error, see --log-level and --log-format"
}
