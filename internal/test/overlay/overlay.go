// Package overlay compiles changed copies of packages in place of the originals: go test -overlay.
package overlay

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

// Change is how packages are changed.
type Change struct {
	// Statements returns the statements of a block, and the number of its changes. function is the
	// name of the function that has the block, such as lock.Queue.Acquire, or "".
	Statements func(list []ast.Stmt, function string) ([]ast.Stmt, int)

	// File is the name of a file that each changed package receives, and Text its text, in which %s
	// is the name of the package.
	File, Text string
}

// Write writes changed copies of the packages in dirs to the directory out. It returns the path of
// the overlay, and the number of changes in each of dirs.
func (c Change) Write(out string, dirs []string) (list string, changes []int, err error) {
	if out, err = filepath.Abs(out); err != nil {
		return "", nil, err
	}
	overlay := struct{ Replace map[string]string }{make(map[string]string)}
	add := func(file string, text []byte) error {
		copied := filepath.Join(out, strconv.Itoa(len(overlay.Replace))+"_"+filepath.Base(file))
		overlay.Replace[file] = copied
		return os.WriteFile(copied, text, 0o666)
	}
	for _, dir := range dirs {
		n, err := c.copyPackage(dir, add)
		if err != nil {
			return "", nil, err
		}
		changes = append(changes, n)
	}
	text, err := json.MarshalIndent(overlay, "", "  ")
	if err != nil {
		return "", nil, err
	}
	list = filepath.Join(out, "overlay.json")
	return list, changes, os.WriteFile(list, text, 0o666)
}

// copyPackage adds the changed files of a package, and returns the number of changes.
func (c Change) copyPackage(dir string, add func(file string, text []byte) error) (changes int, err error) {
	if dir, err = filepath.Abs(dir); err != nil {
		return 0, err
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return 0, err
	}
	name := ""
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		text, pkg, n, err := c.copyFile(file)
		if err == nil && n > 0 {
			changes, name = changes+n, pkg
			err = add(file, text)
		}
		if err != nil {
			return 0, err
		}
	}
	if changes == 0 {
		return 0, nil
	}
	return changes, add(filepath.Join(dir, c.File), fmt.Appendf(nil, c.Text, name))
}

// copyFile returns a changed file, the name of its package, and the number of changes.
func (c Change) copyFile(file string) (text []byte, pkg string, changes int, err error) {
	set := token.NewFileSet()
	// Without comments: they would move to wrong places.
	f, err := parser.ParseFile(set, file, nil, parser.SkipObjectResolution)
	if err != nil {
		return nil, "", 0, err
	}
	for _, d := range f.Decls {
		function := ""
		if d, ok := d.(*ast.FuncDecl); ok {
			function = f.Name.Name + "." + nameOf(d)
		}
		change := func(list *[]ast.Stmt) {
			all, n := c.Statements(*list, function)
			*list, changes = all, changes+n
		}
		ast.Inspect(d, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.BlockStmt:
				change(&n.List)
			case *ast.CaseClause:
				change(&n.Body)
			case *ast.CommClause:
				change(&n.Body)
			}
			return true
		})
	}
	var b bytes.Buffer
	err = format.Node(&b, set, f)
	return b.Bytes(), f.Name.Name, changes, err
}

// nameOf returns the name of a function, with the type of its receiver.
func nameOf(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return f.Name.Name
	}
	return strings.TrimPrefix(source(f.Recv.List[0].Type), "*") + "." + f.Name.Name
}

func source(e ast.Expr) string {
	var b strings.Builder
	if err := format.Node(&b, token.NewFileSet(), e); err != nil {
		return err.Error()
	}
	return b.String()
}

// Method returns the method that a statement calls without arguments, and the source of its
// receiver. The method is "" if the statement is another one.
func Method(s ast.Stmt) (receiver, method string) {
	e, ok := s.(*ast.ExprStmt)
	if !ok {
		return "", ""
	}
	call, ok := e.X.(*ast.CallExpr)
	if !ok || len(call.Args) > 0 {
		return "", ""
	}
	f, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return "", ""
	}
	return source(f.X), f.Sel.Name
}
