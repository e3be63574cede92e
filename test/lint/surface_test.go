package lint_test

import (
	"go/types"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/gocurator/curator/internal/test/testbed"
)

// TestSurface_Types: an exported name has only types that a user can name, and none of a module
// whose next major version would be a break of this one.
func TestSurface_Types(t *testing.T) {
	names := 0
	for _, p := range exported(t) {
		for _, name := range p.Scope().Names() {
			o := p.Scope().Lookup(name)
			if !o.Exported() {
				continue
			}
			names++
			walkSurface(o, func(of string, named *types.TypeName) {
				switch from := named.Pkg().Path(); {
				case from == "github.com/go-zookeeper/zk": // part of the surface by design
				case strings.Contains("/"+from+"/", "/internal/"), strings.Contains(strings.Split(from, "/")[0], ".") && !strings.HasPrefix(from, module):
					t.Errorf("%s.%s has the type %s.%s", p.Path(), of, from, named.Name())
				}
			})
		}
	}
	assert.Greater(t, names, 400)
}

// TestSurface_Interfaces: CONTRIBUTING says of each interface that a user can implement how it can
// grow. Those of zkconn are go-zookeeper's.
func TestSurface_Interfaces(t *testing.T) {
	text := read(t, "../../CONTRIBUTING.md")
	found := 0
	for _, p := range exported(t) {
		for _, name := range p.Scope().Names() {
			o, isType := p.Scope().Lookup(name).(*types.TypeName)
			if !isType || !o.Exported() {
				continue
			}
			i, ok := o.Type().Underlying().(*types.Interface)
			if !ok || slices.ContainsFunc(slices.Collect(i.Methods()), func(m *types.Func) bool { return !m.Exported() }) {
				continue
			}
			found++
			assert.True(t, p.Name() == "zkconn" || strings.Contains(text, "`"+p.Name()+"."+name+"`"), "%s.%s has no row", p.Name(), name)
		}
	}
	assert.Greater(t, found, 4)
}

const module = "github.com/gocurator/curator"

// exported returns the packages of the main module that users can import.
func exported(t *testing.T) (all []*types.Package) {
	t.Helper()
	l := list(t)
	for _, p := range l.packages {
		if p.public() && p.Module.Path == module {
			all = append(all, testbed.Must(l.Import(p.ImportPath)))
		}
	}
	return all
}

// walkSurface calls f with each named type in the signature of o, and in its exported fields and
// methods.
func walkSurface(o types.Object, f func(of string, named *types.TypeName)) {
	seen := map[types.Type]bool{}
	var walk func(of string, t types.Type)
	walk = func(of string, t types.Type) {
		if seen[t] {
			return
		}
		seen[t] = true
		switch t := t.(type) {
		case *types.Alias:
			walk(of, t.Rhs())
		case *types.Named:
			if p := t.Obj().Pkg(); p != nil {
				f(of, t.Obj())
			}
			for a := range t.TypeArgs().Types() {
				walk(of, a)
			}
		case *types.Pointer:
			walk(of, t.Elem())
		case *types.Slice:
			walk(of, t.Elem())
		case *types.Array:
			walk(of, t.Elem())
		case *types.Chan:
			walk(of, t.Elem())
		case *types.Map:
			walk(of, t.Key())
			walk(of, t.Elem())
		case *types.Signature:
			for v := range t.Params().Variables() {
				walk(of, v.Type())
			}
			for v := range t.Results().Variables() {
				walk(of, v.Type())
			}
			for p := range t.TypeParams().TypeParams() {
				walk(of, p.Constraint())
			}
		case *types.Struct:
			for v := range t.Fields() {
				if v.Exported() {
					walk(of+"."+v.Name(), v.Type())
				}
			}
		case *types.Interface:
			for m := range t.ExplicitMethods() {
				if m.Exported() {
					walk(of+"."+m.Name(), m.Type())
				}
			}
			for e := range t.EmbeddedTypes() {
				walk(of, e)
			}
		}
	}
	walk(o.Name(), o.Type())
	if named, ok := o.Type().(*types.Named); ok {
		if _, isType := o.(*types.TypeName); isType {
			walk(o.Name(), named.Underlying())
			for m := range named.Methods() {
				if m.Exported() {
					walk(o.Name()+"."+m.Name(), m.Type())
				}
			}
		}
	}
}
