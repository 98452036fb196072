package arch

import (
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const module = "github.com/agentcube/agentcube/"

func TestTheProjectKeepsItsRules(t *testing.T) {
	t.Parallel()
	packages, err := Load(t.Context(), "../..", "./...")
	require.NoError(t, err)
	watchFolders(t, "../..")
	seen := map[string]bool{}
	for _, p := range packages {
		seen[p.Path] = true
	}
	require.True(t, seen["pkg/session"] && seen["test/arch"], "not all packages were listed: %v", seen)
	assert.Empty(t, strings.Join(Check(packages, Rules), "\n"))
}

// watchFolders makes the go command run the test anew when a file or a folder
// has been added: it caches a result with what the test itself has opened, and
// does not see what another go command has read.
func watchFolders(t *testing.T, root string) {
	t.Helper()
	for _, folder := range []string{"cmd", "pkg", "test"} {
		require.NoError(t, filepath.WalkDir(filepath.Join(root, folder), func(_ string, _ fs.DirEntry, err error) error {
			return err
		}))
	}
}

// What the project looks like when one thing in it is wrong. Without these the
// test above could pass because it sees nothing.
func TestABrokenRuleIsFound(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		path string
		file string // name of the only file
		code string
		deps []string
		want string // what the only finding says before the reason; "" for none
	}{
		"a package that imports one above it": {
			path: "pkg/store", file: "a.go", code: `import "github.com/agentcube/agentcube/pkg/router"`,
			want: `imports pkg/router: against "imports point down"`,
		},
		"a package that imports one of its own floor": {
			path: "pkg/router", file: "a.go", code: `import "github.com/agentcube/agentcube/pkg/workloadmanager"`,
			want: `imports pkg/workloadmanager: against "imports point down"`,
		},
		"a package that imports one below it": {
			path: "pkg/router", file: "a.go", code: `import "github.com/agentcube/agentcube/pkg/session"`,
		},
		"a test that imports a package above its own": {
			path: "pkg/session", file: "a_test.go", code: `import "github.com/agentcube/agentcube/pkg/store"`,
		},
		"a program that imports another": {
			path: "cmd/router", file: "app.go", code: `import "github.com/agentcube/agentcube/cmd/agentcube"`,
			want: `imports cmd/agentcube: against "imports point down"`,
		},
		"a package nobody gave a floor": {
			path: "pkg/novelty", file: "a.go",
			want: `has no floor: against "imports point down"`,
		},
		"a domain that needs a library": {
			path: "pkg/session", file: "a.go", deps: []string{"fmt", "k8s.io/utils/clock"},
			want: `imports k8s.io/utils/clock: against "pkg/session and pkg/api need the standard library only"`,
		},
		"a domain that needs the standard library": {
			path: "pkg/session", file: "a.go", deps: []string{"fmt", "internal/abi", "vendor/golang.org/x/net/idna"},
		},
		"a package that knows both worlds by way of others": {
			path: "pkg/router", file: "a.go", deps: []string{redis, clientGo + "/util/workqueue"},
			want: `needs ` + redis + ` and ` + clientGo + `: against "only cmd and tests know both Redis and Kubernetes"`,
		},
		"a program that knows both worlds": {
			path: "cmd/workload-manager", file: "app.go", deps: []string{redis, clientGo + "/rest"},
			code: `import ("` + redis + `"; "k8s.io/client-go/rest")`,
		},
		"Redis outside the store": {
			path: "pkg/workloadmanager/gc", file: "a.go", code: `import "` + redis + `"`,
			want: `a.go imports ` + redis + `: against "Redis is known to pkg/store and the wiring of a program"`,
		},
		"Redis in a test": {
			path: "pkg/workloadmanager/gc", file: "a_test.go", code: `import "` + redis + `"`,
		},
		"Redis in the main file of a program": {
			path: "cmd/router", file: "main.go", code: `import "` + redis + `"`,
			want: `main.go imports ` + redis + `: against "Redis is known to pkg/store and the wiring of a program"`,
		},
		"both worlds in another file of a program": {
			path: "cmd/workload-manager", file: "work.go",
			code: `import ("github.com/agentcube/agentcube/pkg/store"; "k8s.io/client-go/rest")`,
			want: `work.go knows both: against "within a program only app.go knows both Redis and Kubernetes"`,
		},
		"one world in another file of a program": {
			path: "cmd/workload-manager", file: "lead.go", code: `import "k8s.io/client-go/tools/leaderelection"`,
		},
		"a Kubernetes client in a handler": {
			path: "pkg/workloadmanager", file: "a.go", code: `import "k8s.io/client-go/dynamic/dynamicinformer"`,
			want: `a.go imports k8s.io/client-go/dynamic/dynamicinformer: against "the Kubernetes client is known to`,
		},
		"a work queue in the reconciler": {
			path: "pkg/workloadmanager/reconcile", file: "a.go", code: `import "k8s.io/client-go/util/workqueue"`,
		},
		"a map of any outside the edge": {
			path: "pkg/workloadmanager/provision", file: "a.go", code: `import "` + unstructured + `"`,
			want: `a.go imports ` + unstructured + `: against "unstructured objects stay in pkg/sandbox and pkg/workload"`,
		},
		"a unit test that starts a cluster": {
			path: "pkg/sandbox", file: "a_test.go", code: `import "github.com/agentcube/agentcube/test/cluster"`,
			want: `a_test.go imports test/cluster: against "programs and packages do not know the test folder"`,
		},
		"a setting read where it is used": {
			path: "pkg/store", file: "a.go", code: `import "os"; var a = os.Getenv("A")`,
			want: `a.go uses os.Getenv: against "the environment is read by pkg/config"`,
		},
		"a setting read under another name of the package": {
			path: "cmd/router", file: "app.go", code: `import system "os"; var a, _ = system.LookupEnv("A")`,
			want: `app.go uses os.LookupEnv: against "the environment is read by pkg/config"`,
		},
		"main handing the environment over": {
			path: "cmd/router", file: "main.go", code: `import "os"; var getenv = os.Getenv`,
		},
		"a crash point of the storm": {
			path: "cmd/router", file: "planted_chaos.go", code: `import "os"; var a = os.Getenv("A")`,
		},
		"a crash point in a package": {
			path: "pkg/store", file: "planted_chaos.go", code: `import "os"; var a = os.Getenv("A")`,
			want: `planted_chaos.go uses os.Getenv: against "the environment is read by pkg/config"`,
		},
		"a test library in a program": {
			path: "pkg/store", file: "a.go", code: `import "github.com/stretchr/testify/require"`,
			want: `a.go imports github.com/stretchr/testify/require: against "test libraries stay in tests"`,
		},
		"a package for tests in a program": {
			path: "cmd/router", file: "app.go", code: `import "github.com/agentcube/agentcube/pkg/session/sessiontest"`,
			want: `app.go imports pkg/session/sessiontest: against "test libraries stay in tests"`,
		},
		"a package for tests with a fake client": {
			path: "pkg/workloadmanager/clustertest", file: "a.go", code: `import "k8s.io/client-go/dynamic/fake"`,
		},
		"a package for everything else": {
			path: "test/util", file: "a.go",
			want: `its name says nothing: against "a package is named after what it owns"`,
		},
		"a patch in a file without the tag": {
			path: "pkg/store", file: "a_patch_test.go", code: `import "` + gomonkey + `"`,
			want: `a_patch_test.go has no line //go:build gomonkey: against "tests that patch functions stand apart"`,
		},
		"a patch in a test that make does not run": {
			path: "pkg/store", file: "a_patch_test.go", code: `import "testing"; func TestOther(t *testing.T) {}`,
			want: `a_patch_test.go has TestOther, which is not called TestPatched…: against "tests that patch functions stand apart"`,
		},
		"a patch beside other tests": {
			path: "pkg/store", file: "a_patch_test.go", code: `import "testing"; func TestPatchedA(t *testing.T) { t.Parallel() }`,
			want: `a_patch_test.go calls t.Parallel: against "tests that patch functions stand apart"`,
		},
		"a patch as it should be": {
			path: "pkg/store", file: "a_patch_test.go", code: `import ("testing"; "` + gomonkey + `"); func TestPatchedA(t *testing.T) {}`,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			header := "package a\n"
			if strings.HasSuffix(tt.file, "_patch_test.go") && !strings.Contains(name, "without the tag") {
				header = "//go:build gomonkey\n\n" + header
			}
			if strings.HasSuffix(tt.file, "_chaos.go") {
				header = "//go:build chaos\n\n" + header
			}
			f, err := readFile(tt.file, header+tt.code, module)
			require.NoError(t, err)
			found := Check([]Package{{Path: tt.path, Deps: tt.deps, Files: []File{f}}}, Rules)
			if tt.want == "" {
				assert.Empty(t, found)
				return
			}
			require.Len(t, found, 1, "%q", found)
			assert.Contains(t, found[0], tt.path+": "+tt.want)
		})
	}
}

func TestAPackageThatCannotBeListedIsAnError(t *testing.T) {
	t.Parallel()
	_, err := Load(t.Context(), "../..", "./no/such/folder")
	require.ErrorContains(t, err, "no/such/folder")
}
