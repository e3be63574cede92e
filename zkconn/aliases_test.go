package zkconn_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/zkconn"
)

// A program that uses anything of go-zookeeper must compile.
func TestEveryNameOfGoZookeeperIsThere(t *testing.T) {
	want := exported(goZookeeper())
	require.Greater(t, len(want), 100)
	got := exported(".")
	for name, kind := range want {
		assert.Equal(t, kind, got[name], name)
	}
}

// goZookeeper is the directory of its source.
func goZookeeper() string {
	out := testbed.Must(exec.Command("go", "list", "-f", "{{.Dir}}", "github.com/go-zookeeper/zk").Output())
	return strings.TrimSpace(string(out))
}

func TestMethodsHaveGoZookeepersSignatures(t *testing.T) {
	for theirs, ours := range map[reflect.Type]reflect.Type{
		reflect.TypeFor[*zk.Conn](): reflect.TypeFor[*zkconn.Conn](),
		reflect.TypeFor[*zk.Lock](): reflect.TypeFor[*zkconn.Lock](),
	} {
		require.Positive(t, theirs.NumMethod())
		for i := range theirs.NumMethod() {
			want := theirs.Method(i)
			got, found := ours.MethodByName(want.Name)
			if assert.True(t, found, want.Name) {
				assert.Equal(t, signature(want.Type), signature(got.Type), want.Name)
			}
		}
	}
}

// signature is the type of a method without its receiver.
func signature(method reflect.Type) reflect.Type {
	var in, out []reflect.Type
	for i := 1; i < method.NumIn(); i++ {
		in = append(in, method.In(i))
	}
	for i := range method.NumOut() {
		out = append(out, method.Out(i))
	}
	return reflect.FuncOf(in, out, method.IsVariadic())
}

// exported are the names that a package exports, and of what kind they are.
func exported(dir string) map[string]string {
	names := map[string]string{}
	for _, name := range testbed.Must(filepath.Glob(filepath.Join(dir, "*.go"))) {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file := testbed.Must(parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution))
		for _, d := range file.Decls {
			note := func(kind string, id *ast.Ident) {
				if id.IsExported() {
					names[id.Name] = kind
				}
			}
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Recv == nil {
					note("func", d.Name)
				}
			case *ast.GenDecl:
				for _, s := range d.Specs {
					switch s := s.(type) {
					case *ast.TypeSpec:
						note("type", s.Name)
					case *ast.ValueSpec:
						for _, id := range s.Names {
							note(d.Tok.String(), id)
						}
					}
				}
			}
		}
	}
	return names
}
