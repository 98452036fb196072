// Package arch states which package may know what, and checks it. Its rules are
// the picture of docs/architecture.md in a form that fails.
//
// It reads sources and asks the go command; it runs nothing of the project.
package arch

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Package is what the rules look at.
type Package struct {
	// Path is relative to the module: "pkg/store".
	Path string
	// Deps are the import paths it needs, directly or not, without its tests.
	Deps  []string
	Files []File
}

// File is one source file.
type File struct {
	// Name without its folder.
	Name string
	// Imports as written; those of the module relative to it.
	Imports []string
	// Uses are the functions and values it names by package, as "os.Getenv".
	Uses []string
	// Constraint is the expression of its //go:build line, "" for none.
	Constraint string
	// Tests are the names of its top-level Test functions.
	Tests []string
	// Parallel: a test of it calls t.Parallel.
	Parallel bool
}

// IsTest reports whether the file is compiled for tests only.
func (f File) IsTest() bool { return strings.HasSuffix(f.Name, "_test.go") }

// Imports lists what the code imports, without its tests.
func (p Package) Imports() []string {
	var imports []string
	for _, f := range p.Files {
		if !f.IsTest() {
			imports = append(imports, f.Imports...)
		}
	}
	slices.Sort(imports)
	return slices.Compact(imports)
}

// listed is the part of the go command's answer that is used.
type listed struct {
	Dir            string   `json:"Dir"`
	ImportPath     string   `json:"ImportPath"`
	Module         named    `json:"Module"`
	Deps           []string `json:"Deps"`
	GoFiles        []string `json:"GoFiles"`
	TestGoFiles    []string `json:"TestGoFiles"`
	XTestGoFiles   []string `json:"XTestGoFiles"`
	IgnoredGoFiles []string `json:"IgnoredGoFiles"`
}

type named struct {
	Path string `json:"Path"`
}

// Load reads the packages that match the patterns, as seen from dir. The error
// of the go command is in the error.
func Load(ctx context.Context, dir string, patterns ...string) ([]Package, error) {
	args := append([]string{"list", "-tags", "gomonkey", "-json"}, patterns...)
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = dir
	out, err := cmd.Output()
	if err != nil {
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			err = fmt.Errorf("%w: %s", err, exit.Stderr)
		}
		return nil, fmt.Errorf("listing packages: %w", err)
	}
	var packages []Package
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		var l listed
		if err := decoder.Decode(&l); errors.Is(err, io.EOF) {
			return packages, nil
		} else if err != nil {
			return nil, fmt.Errorf("reading what go list printed: %w", err)
		}
		p, err := read(l)
		if err != nil {
			return nil, err
		}
		packages = append(packages, p)
	}
}

func read(l listed) (Package, error) {
	module := l.Module.Path + "/"
	p := Package{Path: strings.TrimPrefix(l.ImportPath, module)}
	for _, dep := range l.Deps {
		p.Deps = append(p.Deps, strings.TrimPrefix(dep, module))
	}
	// Files for other systems count too: a rule holds everywhere.
	for _, name := range slices.Concat(l.GoFiles, l.TestGoFiles, l.XTestGoFiles, l.IgnoredGoFiles) {
		f, err := readFile(filepath.Join(l.Dir, name), nil, module)
		if err != nil {
			return Package{}, err
		}
		p.Files = append(p.Files, f)
	}
	return p, nil
}

// readFile reads a source file, or source in its place when that is not nil.
func readFile(path string, source any, module string) (File, error) {
	parsed, err := parser.ParseFile(token.NewFileSet(), path, source, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return File{}, fmt.Errorf("parsing %s: %w", path, err)
	}
	f := File{Name: filepath.Base(path), Constraint: constraint(parsed)}
	names := map[string]string{} // by what the file calls it
	for _, spec := range parsed.Imports {
		path, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return File{}, fmt.Errorf("reading an import: %w", err)
		}
		f.Imports = append(f.Imports, strings.TrimPrefix(path, module))
		name := path[strings.LastIndex(path, "/")+1:]
		if spec.Name != nil {
			name = spec.Name.Name
		}
		names[name] = path
	}
	for _, declared := range parsed.Decls {
		if fn, ok := declared.(*ast.FuncDecl); ok && fn.Recv == nil && f.IsTest() && isTestName(fn.Name.Name) {
			f.Tests = append(f.Tests, fn.Name.Name)
		}
	}
	ast.Inspect(parsed, func(n ast.Node) bool {
		selector, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		if of, ok := selector.X.(*ast.Ident); ok {
			if path, imported := names[of.Name]; imported {
				f.Uses = append(f.Uses, path+"."+selector.Sel.Name)
			}
			f.Parallel = f.Parallel || of.Name == "t" && selector.Sel.Name == "Parallel"
		}
		return true
	})
	return f, nil
}

func isTestName(name string) bool {
	return strings.HasPrefix(name, "Test") && name != "TestMain"
}

// constraint returns the expression of the file's //go:build line.
func constraint(f *ast.File) string {
	for _, group := range f.Comments {
		if group.Pos() > f.Package {
			break
		}
		for _, c := range group.List {
			if expression, ok := strings.CutPrefix(c.Text, "//go:build "); ok {
				return strings.TrimSpace(expression)
			}
		}
	}
	return ""
}
