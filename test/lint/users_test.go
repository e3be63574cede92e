package lint_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/test/testbed"
)

// TestSurface_Users: an exported name has a user in this repository, or is cut. A user is an
// example, a page, a program or an adapter. A type in the signature of a used name and a method
// that implements an interface need none. The package zkconn mirrors go-zookeeper.
func TestSurface_Users(t *testing.T) {
	l := list(t)
	used, text := usedNames(t, l), pages(t)
	unused, counts := map[string]types.Object{}, map[string]int{}
	for _, p := range l.packages {
		if !p.public() || p.Name == "zkconn" {
			continue
		}
		imported := testbed.Must(l.Import(p.ImportPath))
		ifaces := interfaces(t, l, p, imported)
		for _, o := range names(imported) {
			counts[p.ImportPath]++
			if used[keyOf(o)] || onPage(text, o) || implements(o, ifaces) {
				used[keyOf(o)] = true
				walkSurface(o, func(_ string, named *types.TypeName) { used[keyOf(named)] = true })
			} else {
				unused[keyOf(o)] = o
			}
		}
	}
	for again := true; again; { // the types in the signatures of types
		again = false
		for key, o := range unused {
			if used[key] {
				delete(unused, key)
				again = true
				walkSurface(o, func(_ string, named *types.TypeName) { used[keyOf(named)] = true })
			}
		}
	}
	for key := range unused {
		t.Errorf("%s has no user: cut it, or write an example", strings.TrimPrefix(key, module+"/"))
	}
	total := 0
	for _, path := range slices.Sorted(maps.Keys(counts)) {
		total += counts[path]
		t.Logf("%4d %s", counts[path], strings.TrimPrefix(path, module+"/"))
	}
	t.Logf("%4d names", total)
	assert.Greater(t, total, 400)
}

// keyOf identifies an exported name or a method across type-checker runs.
func keyOf(o types.Object) string {
	if f, ok := o.(*types.Func); ok {
		f = f.Origin()
		if recv := f.Signature().Recv(); recv != nil {
			t := recv.Type()
			if p, ok := t.(*types.Pointer); ok {
				t = p.Elem()
			}
			if n, ok := t.(*types.Named); ok {
				return n.Obj().Pkg().Path() + "." + n.Obj().Name() + "." + f.Name()
			}
			return ""
		}
	}
	if o.Pkg() == nil || o.Parent() != o.Pkg().Scope() {
		return ""
	}
	return o.Pkg().Path() + "." + o.Name()
}

// names returns the exported names of p, and the exported methods of its exported concrete types.
func names(p *types.Package) []types.Object {
	var list []types.Object
	for _, name := range p.Scope().Names() {
		o := p.Scope().Lookup(name)
		if !o.Exported() {
			continue
		}
		list = append(list, o)
		if tn, ok := o.(*types.TypeName); ok && !tn.IsAlias() && !types.IsInterface(tn.Type()) {
			for m := range tn.Type().(*types.Named).Methods() {
				if m.Exported() {
					list = append(list, m)
				}
			}
		}
	}
	return list
}

// onPage reports whether a page names o: pkg.Name, .Name or `Name`.
func onPage(text string, o types.Object) bool {
	if f, ok := o.(*types.Func); ok && f.Signature().Recv() != nil {
		return regexp.MustCompile(`[\w)]\.` + o.Name() + `\b`).MatchString(text)
	}
	return regexp.MustCompile(`\b` + o.Pkg().Name() + `\.` + o.Name() + `\b|[ "` + "`" + `]` + o.Name() + `\b`).MatchString(text)
}

// pages returns the text of README and docs.
func pages(t *testing.T) string {
	t.Helper()
	files := testbed.Must(filepath.Glob("../../docs/*.md"))
	var b strings.Builder
	for _, f := range append(files, "../../README.md") {
		b.WriteString(read(t, f))
	}
	return b.String()
}

// interfaces returns the interfaces of p, and of the packages that it imports.
func interfaces(t *testing.T, l *listing, p listed, imported *types.Package) []*types.Interface {
	t.Helper()
	var found []*types.Interface
	for _, path := range append([]string{p.ImportPath, "fmt"}, p.Imports...) {
		if path == "unsafe" || path == "C" {
			continue
		}
		from := testbed.Must(l.Import(path))
		for _, name := range from.Scope().Names() {
			if o, ok := from.Scope().Lookup(name).(*types.TypeName); ok && o.Exported() && types.IsInterface(o.Type()) {
				found = append(found, o.Type().Underlying().(*types.Interface))
			}
		}
	}
	return found
}

// implements reports whether o is a method of an error, or of one of the interfaces.
func implements(o types.Object, ifaces []*types.Interface) bool {
	f, ok := o.(*types.Func)
	if !ok || f.Signature().Recv() == nil {
		return false
	}
	if slices.Contains([]string{"Error", "Unwrap", "Is", "As"}, f.Name()) {
		return true
	}
	return slices.ContainsFunc(ifaces, func(i *types.Interface) bool {
		return slices.ContainsFunc(slices.Collect(i.Methods()), func(m *types.Func) bool { return m.Name() == f.Name() }) &&
			types.Implements(f.Signature().Recv().Type(), i)
	})
}

// usedNames returns the keys of the names that an example, a program or an adapter uses.
func usedNames(t *testing.T, l *listing) map[string]bool {
	t.Helper()
	used := map[string]bool{}
	for _, p := range l.packages {
		own := strings.TrimPrefix(p.ImportPath, module+"/")
		if strings.HasPrefix(own, "test/") || strings.HasPrefix(own, "internal/test/") {
			continue
		}
		if p.Name == "main" || p.Module.Path != module || slices.Contains([]string{"discovery/httpclient", "discovery/dubbo", "zktest/control"}, own) {
			uses(t, l, p.ImportPath, p.Dir, p.GoFiles, false, used)
		}
		uses(t, l, p.ImportPath+"_test", p.Dir, p.XTestGoFiles, true, used)
	}
	return used
}

// uses adds the names of other packages that the files use. Of files of tests, only examples
// count: whole files without a test, or single functions.
func uses(t *testing.T, l *listing, path, dir string, files []string, examples bool, used map[string]bool) {
	t.Helper()
	var parsed []*ast.File
	for _, name := range files {
		f := testbed.Must(parser.ParseFile(l.fset, filepath.Join(dir, name), nil, parser.SkipObjectResolution))
		if !examples || slices.ContainsFunc(f.Decls, func(d ast.Decl) bool { return isFunc(d, "Example") }) {
			parsed = append(parsed, f)
		}
	}
	info := &types.Info{Uses: map[*ast.Ident]types.Object{}}
	conf := types.Config{Importer: l, Error: func(error) {}} // modules of tests have no export data here
	_, _ = conf.Check(path, l.fset, parsed, info)
	for _, f := range parsed {
		tests := slices.ContainsFunc(f.Decls, func(d ast.Decl) bool { return isFunc(d, "Test") })
		for _, d := range f.Decls {
			if examples && tests && !isFunc(d, "Example") {
				continue
			}
			ast.Inspect(d, func(n ast.Node) bool {
				if id, ok := n.(*ast.Ident); ok {
					if o := info.Uses[id]; o != nil && o.Pkg() != nil && o.Pkg().Path() != path {
						used[keyOf(o)] = true
					}
				}
				return true
			})
		}
	}
}

func isFunc(d ast.Decl, prefix string) bool {
	f, ok := d.(*ast.FuncDecl)
	return ok && f.Recv == nil && strings.HasPrefix(f.Name.Name, prefix)
}

type listed struct {
	ImportPath, Dir, Name, Export  string
	GoFiles, XTestGoFiles, Imports []string
	Module                         *struct{ Path string }
}

// public reports whether users can import p.
func (p listed) public() bool {
	own := "/" + strings.TrimPrefix(p.ImportPath, module+"/") + "/"
	return p.Name != "main" && p.ImportPath != module && !strings.Contains(own, "/internal/") && !strings.HasPrefix(own, "/test/") && !strings.HasPrefix(own, "/examples/")
}

// listing has the packages of all modules of the workspace, and imports them from export data.
type listing struct {
	types.Importer
	fset     *token.FileSet
	packages []listed
}

var workspace *listing // the result of list

// list needs the workspace: adapters are modules of their own.
func list(t *testing.T) *listing {
	t.Helper()
	if workspace != nil {
		return workspace
	}
	run := func(args ...string) []byte {
		cmd := exec.Command("go", args...)
		cmd.Dir = "../.."
		cmd.Env = append(os.Environ(), "GOWORK=")
		cmd.Stderr = os.Stderr
		out := testbed.Must(cmd.Output())
		return out
	}
	l, exports := &listing{fset: token.NewFileSet()}, map[string]string{}
	modules := strings.Fields(string(run("list", "-m", "-f", "{{.Dir}}/...")))
	out := run(append([]string{"list", race(), "-export", "-deps", "-json=ImportPath,Dir,Name,Export,GoFiles,XTestGoFiles,Imports,Module"}, modules...)...)
	for d := json.NewDecoder(bytes.NewReader(out)); d.More(); {
		var p listed
		require.NoError(t, d.Decode(&p))
		exports[p.ImportPath] = p.Export
		if strings.HasPrefix(p.ImportPath+"/", module+"/") {
			l.packages = append(l.packages, p)
		}
	}
	l.Importer = importer.ForCompiler(l.fset, "gc", func(path string) (io.ReadCloser, error) {
		if exports[path] == "" {
			return nil, fmt.Errorf("no export data of %s", path)
		}
		return os.Open(exports[path])
	})
	workspace = l
	return l
}

// race returns the flag that makes go use the packages that this test was built with. They are in
// the build cache.
func race() string {
	built, _ := debug.ReadBuildInfo()
	return fmt.Sprintf("-race=%t", slices.Contains(built.Settings, debug.BuildSetting{Key: "-race", Value: "true"}))
}
