package lint_test

import (
	"go/ast"
	"go/token"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// mostBranches is how many branches a function of the packages in branchDirs may have.
const mostBranches = 15

var branchDirs = []string{"internal/engine", "internal/engine/debt", "recipes/lock"}

// TestBranches counts the if, for, case, && and || of each function, with the functions in it.
func TestBranches(t *testing.T) {
	for _, dir := range branchDirs {
		set := token.NewFileSet()
		files := parse(t, set, filepath.Join("../..", dir))
		require.NotEmpty(t, files, dir)
		for _, f := range files {
			for _, d := range f.Decls {
				if function, ok := d.(*ast.FuncDecl); ok {
					assert.LessOrEqualf(t, branches(function), mostBranches, "%s: %s: name its steps", set.Position(function.Pos()), function.Name.Name)
				}
			}
		}
	}
}

func branches(n ast.Node) (count int) {
	ast.Inspect(n, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.IfStmt, *ast.ForStmt, *ast.RangeStmt:
			count++
		case *ast.CaseClause:
			if n.List != nil { // not default
				count++
			}
		case *ast.CommClause:
			if n.Comm != nil {
				count++
			}
		case *ast.BinaryExpr:
			if n.Op == token.LAND || n.Op == token.LOR {
				count++
			}
		}
		return true
	})
	return count
}
