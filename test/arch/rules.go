package arch

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// Import paths that rules speak of.
const (
	redis        = "github.com/redis/go-redis/v9"
	gomonkey     = "github.com/agiledragon/gomonkey/v2"
	clientGo     = "k8s.io/client-go"
	unstructured = "k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// floors orders the packages: an import goes to a floor further down. Packages of
// one floor do not know each other. Packages for tests (…test) have no floor: no
// program can import them.
var floors = [][]string{
	{"pkg/api", "pkg/api/openapi", "pkg/session"},
	{"pkg/sieve", "pkg/client"},
	{
		"pkg/config", "pkg/telemetry", "pkg/httpserver", "pkg/auth", "pkg/store", "pkg/sandbox",
	},
	{"pkg/workload"},
	{
		"pkg/workloadmanager/provision", "pkg/workloadmanager/reconcile", "pkg/workloadmanager/gc",
		"pkg/workloadmanager/resync", "pkg/workloadmanager/changes", "pkg/router/lookup",
	},
	{"pkg/workloadmanager", "pkg/router"},
	{"cmd/internal/command"},
	{"cmd/internal/reach", "cmd/internal/doctor"},
	{"cmd/internal/cli"},
	{"cmd/workload-manager", "cmd/router", "cmd/agentcube"},
}

// Rule is one thing that must hold everywhere.
type Rule struct {
	Name string
	// Why is told to whoever breaks it.
	Why string
	// Check names each place of a package that breaks it.
	Check func(Package) []string
}

// Rules of the project.
var Rules = []Rule{
	{
		Name:  "imports point down",
		Why:   "a flow can be read, and run with fakes, without what is above it; a new package is given its floor in test/arch/rules.go",
		Check: importsPointDown,
	},
	{
		Name: "pkg/session and pkg/api need the standard library only",
		Why:  "the domain and the wire outlive every library, and clients can import them for nothing",
		Check: func(p Package) []string {
			if p.Path != "pkg/session" && p.Path != "pkg/api" {
				return nil
			}
			return filter(p.Deps, func(dep string) bool { return !isStandard(dep) })
		},
	},
	{
		Name: "pkg/client needs pkg/api and the standard library only",
		Why:  "programs of others import it, and must get nothing else along",
		Check: func(p Package) []string {
			if p.Path != "pkg/client" {
				return nil
			}
			return filter(p.Deps, func(dep string) bool { return !isStandard(dep) && dep != "pkg/api" })
		},
	},
	{
		Name: "only cmd and tests know both Redis and Kubernetes",
		Why:  "whatever knows both cannot be tested without both",
		Check: func(p Package) []string {
			knows := func(what string) bool {
				return slices.ContainsFunc(p.Deps, func(dep string) bool { return within(dep, what) })
			}
			if !within(p.Path, "pkg") || forTests(p.Path) || !knows(redis) || !knows(clientGo) {
				return nil
			}
			return []string{"needs " + redis + " and " + clientGo}
		},
	},
	{
		Name: "within a program only app.go knows both Redis and Kubernetes",
		Why:  "the wiring is read in one place; main.go only parses, and ends the process",
		Check: func(p Package) []string {
			if !within(p.Path, "cmd") {
				return nil
			}
			return mixed(p)
		},
	},
	{
		Name:  "Redis is known to pkg/store and the wiring of a program",
		Why:   "the key space and the scripts have one owner; everybody else sees the methods they declare",
		Check: importedOnlyBy(redis, "pkg/store"),
	},
	{
		Name: "the Kubernetes client is known to pkg/sandbox, pkg/workload, pkg/auth and the wiring of a program",
		Why:  "errors, versions and retries of the API server are translated at one edge",
		Check: func(p Package) []string {
			var broken []string
			for _, part := range []string{"dynamic", "kubernetes", "rest", "discovery", "informers", "listers", "tools"} {
				broken = append(broken, importedOnlyBy(clientGo+"/"+part, "pkg/sandbox", "pkg/workload", "pkg/auth")(p)...)
			}
			return broken
		},
	},
	{
		Name:  "unstructured objects stay in pkg/sandbox and pkg/workload",
		Why:   "an object leaves them as a small plain value; a map of any says nothing of what it holds",
		Check: importedOnlyBy(unstructured, "pkg/sandbox", "pkg/workload"),
	},
	{
		Name: "programs and packages do not know the test folder",
		Why:  "their own tests must run without a control plane, and its weight must not reach a program",
		Check: func(p Package) []string {
			if within(p.Path, "test") {
				return nil
			}
			return imports(p, func(_ File, path string) bool { return within(path, "test") })
		},
	},
	{
		Name: "the environment is read by pkg/config",
		Why:  "every setting is a flag with a fallback, checked with all others before anything starts",
		Check: func(p Package) []string {
			if p.Path == "pkg/config" || within(p.Path, "test") {
				return nil
			}
			return uses(p, func(f File, used string) bool {
				isMain := within(p.Path, "cmd") && f.Name == "main.go" // hands it to pkg/config
				// Crash points and planted bugs are no settings: no build but that of
				// the storm has them.
				forChaos := within(p.Path, "cmd") && f.Constraint == "chaos"
				return !isMain && !forChaos && slices.Contains([]string{"os.Getenv", "os.LookupEnv", "os.Environ"}, used)
			})
		},
	},
	{
		Name: "test libraries stay in tests",
		Why:  "what only tests need must not be part of a program",
		Check: func(p Package) []string {
			if forTests(p.Path) {
				return nil
			}
			libraries := []string{
				"testing", "github.com/stretchr/testify", "github.com/alicebob/miniredis/v2", gomonkey,
				"google.golang.org/grpc", "github.com/pb33f",
				"k8s.io/client-go/dynamic/fake", "k8s.io/client-go/kubernetes/fake", "k8s.io/utils/clock/testing",
			}
			return imports(p, func(f File, imported string) bool {
				ours := within(imported, "pkg") && forTests(imported)
				return !f.IsTest() && (ours || slices.ContainsFunc(libraries, func(l string) bool { return within(imported, l) }))
			})
		},
	},
	{
		Name:  "tests that patch functions stand apart",
		Why:   "a patch of an inlined function is silently ignored: `make test-patched` builds the files with the tag gomonkey without inlining and runs TestPatched…; a patch changes the whole process, so nothing runs beside it",
		Check: patchedTestsStandApart,
	},
	{
		Name: "a package is named after what it owns",
		Why:  "a package for everything else grows until everything needs it",
		Check: func(p Package) []string {
			if slices.Contains([]string{"util", "utils", "common", "types", "helpers", "misc"}, path.Base(p.Path)) {
				return []string{"its name says nothing"}
			}
			return nil
		},
	},
}

// Check applies all rules and returns one sentence for each place that breaks
// one.
func Check(packages []Package, rules []Rule) []string {
	var broken []string
	for _, rule := range rules {
		for _, p := range packages {
			for _, place := range rule.Check(p) {
				broken = append(broken, fmt.Sprintf("%s: %s: against %q (%s)", p.Path, place, rule.Name, rule.Why))
			}
		}
	}
	return broken
}

func importsPointDown(p Package) []string {
	if forTests(p.Path) {
		return nil
	}
	own := floor(p.Path)
	if own < 0 {
		return []string{"has no floor"}
	}
	return filter(p.Imports(), func(path string) bool {
		return (within(path, "pkg") || within(path, "cmd")) && floor(path) >= own
	})
}

// floor of a package; -1 when it has none.
func floor(path string) int {
	return slices.IndexFunc(floors, func(packages []string) bool { return slices.Contains(packages, path) })
}

// mixed names the files that know both worlds without being app.go.
func mixed(p Package) []string {
	var files []string
	for _, f := range p.Files {
		knows := func(what ...string) bool {
			return slices.ContainsFunc(f.Imports, func(path string) bool {
				return slices.ContainsFunc(what, func(w string) bool { return within(path, w) })
			})
		}
		if knows(redis, "pkg/store") && knows(clientGo, "pkg/sandbox") && !f.IsTest() && f.Name != "app.go" {
			files = append(files, f.Name+" knows both")
		}
	}
	return files
}

// importedOnlyBy lets the named packages, the wiring of a program (all its files
// but main.go), and tests import a library.
func importedOnlyBy(library string, allowed ...string) func(Package) []string {
	return func(p Package) []string {
		if slices.Contains(allowed, p.Path) || forTests(p.Path) {
			return nil
		}
		return imports(p, func(f File, path string) bool {
			wiring := within(p.Path, "cmd") && f.Name != "main.go"
			return within(path, library) && !f.IsTest() && !wiring
		})
	}
}

func patchedTestsStandApart(p Package) []string {
	var broken []string
	for _, f := range p.Files {
		patches := slices.Contains(f.Imports, gomonkey)
		if !patches && f.Constraint != "gomonkey" {
			continue
		}
		if !strings.HasSuffix(f.Name, "_patch_test.go") {
			broken = append(broken, f.Name+" is not called …_patch_test.go")
		}
		if f.Constraint != "gomonkey" {
			broken = append(broken, f.Name+" has no line //go:build gomonkey")
		}
		for _, test := range f.Tests {
			if !strings.HasPrefix(test, "TestPatched") {
				broken = append(broken, f.Name+" has "+test+", which is not called TestPatched…")
			}
		}
		if f.Parallel {
			broken = append(broken, f.Name+" calls t.Parallel")
		}
	}
	return broken
}

// imports names each import for which the rule is broken.
func imports(p Package, broken func(f File, path string) bool) []string {
	var places []string
	for _, f := range p.Files {
		for _, path := range f.Imports {
			if broken(f, path) {
				places = append(places, f.Name+" imports "+path)
			}
		}
	}
	return places
}

// uses names each use for which the rule is broken.
func uses(p Package, broken func(f File, used string) bool) []string {
	var places []string
	for _, f := range p.Files {
		for _, used := range f.Uses {
			if broken(f, used) {
				places = append(places, f.Name+" uses "+used)
			}
		}
	}
	return places
}

func filter(paths []string, broken func(string) bool) []string {
	var places []string
	for _, path := range paths {
		if broken(path) {
			places = append(places, "imports "+path)
		}
	}
	return places
}

// forTests reports whether a package exists for tests: it lies in the test folder
// or is called after what it tests, like sessiontest.
func forTests(pkg string) bool {
	return within(pkg, "test") || strings.HasSuffix(path.Base(pkg), "test")
}

// within reports whether path is parent or lies below it.
func within(path, parent string) bool {
	return path == parent || strings.HasPrefix(path, parent+"/")
}

// isStandard tells the standard library by the dot that every other import path
// has in its first element; the packages of the module have none, but are
// folders of it.
func isStandard(path string) bool {
	first, _, _ := strings.Cut(path, "/")
	return !strings.Contains(first, ".") && !slices.Contains([]string{"pkg", "cmd", "test"}, first)
}
