// Package paths counts what an operation of a lock costs inside the client: the mutexes that it
// locks. Its test compiles copies of the client's packages in place of the originals, in which each
// lock of a mutex is counted first.
package paths

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// counter is the file that each package receives.
const counter = `package %s

import "github.com/gocurator/curator/test/paths/count"

func countLock(place string) { count.Lock(place) }
`

// overlay writes copies of the packages in dirs to the directory out, and the overlay with which
// the go command uses them, whose path it returns.
func overlay(out string, dirs []string) (list string, err error) {
	replace := make(map[string]string)
	add := func(file string, text []byte) error {
		copied := filepath.Join(out, strconv.Itoa(len(replace))+".go")
		replace[file] = copied
		return os.WriteFile(copied, text, 0o600)
	}
	for _, dir := range dirs {
		files, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil {
			return "", err
		}
		name := ""
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			text, pkg, err := instrument(file)
			if err != nil {
				return "", err
			}
			if text != nil {
				name = pkg
				if err := add(file, text); err != nil {
					return "", err
				}
			}
		}
		if name != "" {
			if err := add(filepath.Join(dir, "count_lock.go"), fmt.Appendf(nil, counter, name)); err != nil {
				return "", err
			}
		}
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	list = filepath.Join(out, "overlay.json")
	return list, os.WriteFile(list, text, 0o600)
}

// instrument returns a file that counts, or nil if it locks no mutex.
func instrument(file string) (text []byte, pkg string, err error) {
	set := token.NewFileSet()
	// Without comments: they would move to wrong places.
	f, err := parser.ParseFile(set, file, nil, parser.SkipObjectResolution)
	if err != nil {
		return nil, "", err
	}
	locks := false
	for _, d := range f.Decls {
		function, ok := d.(*ast.FuncDecl)
		if !ok {
			continue
		}
		ast.Inspect(function, func(n ast.Node) bool {
			var list *[]ast.Stmt
			switch n := n.(type) {
			case *ast.BlockStmt:
				list = &n.List
			case *ast.CaseClause:
				list = &n.Body
			case *ast.CommClause:
				list = &n.Body
			default:
				return true
			}
			var all []ast.Stmt
			for _, s := range *list {
				if mutex := locked(s); mutex != "" {
					locks = true
					all = append(all, call(f.Name.Name+"."+nameOf(function)+": "+mutex))
				}
				all = append(all, s)
			}
			*list = all
			return true
		})
	}
	if !locks {
		return nil, "", nil
	}
	var b bytes.Buffer
	if err := format.Node(&b, set, f); err != nil {
		return nil, "", err
	}
	return b.Bytes(), f.Name.Name, nil
}

// locked returns the mutex that a statement locks, as it is written, or "".
func locked(s ast.Stmt) string {
	e, ok := s.(*ast.ExprStmt)
	if !ok {
		return ""
	}
	c, ok := e.X.(*ast.CallExpr)
	if !ok || len(c.Args) > 0 {
		return ""
	}
	f, ok := c.Fun.(*ast.SelectorExpr)
	if !ok || f.Sel.Name != "Lock" && f.Sel.Name != "RLock" {
		return ""
	}
	return text(f.X)
}

// nameOf returns the name of a function, with the type of its receiver.
func nameOf(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return f.Name.Name
	}
	return strings.TrimPrefix(text(f.Recv.List[0].Type), "*") + "." + f.Name.Name
}

func text(e ast.Expr) string {
	var b bytes.Buffer
	if err := format.Node(&b, token.NewFileSet(), e); err != nil {
		return err.Error()
	}
	return b.String()
}

func call(place string) ast.Stmt {
	return &ast.ExprStmt{X: &ast.CallExpr{
		Fun:  ast.NewIdent("countLock"),
		Args: []ast.Expr{&ast.BasicLit{Kind: token.STRING, Value: strconv.Quote(place)}},
	}}
}
