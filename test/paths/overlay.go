// Package paths counts what an operation of a lock costs inside the client: the mutexes that it
// locks. Its test compiles copies of the client's packages in place of the originals, in which each
// lock of a mutex is counted first.
package paths

import (
	"go/ast"
	"go/token"
	"strconv"

	"github.com/gocurator/curator/internal/test/overlay"
)

// counted is the change by which each lock of a mutex is counted.
var counted = overlay.Change{
	Statements: countLocks,
	File:       "count_lock.go",
	Text: `package %s

import "github.com/gocurator/curator/test/paths/count"

func countLock(place string) { count.Lock(place) }
`,
}

// countLocks returns statements with a count before each lock.
func countLocks(list []ast.Stmt, function string) (all []ast.Stmt, locks int) {
	for _, s := range list {
		mutex, method := overlay.Method(s)
		if function != "" && (method == "Lock" || method == "RLock") {
			all, locks = append(all, call(function+": "+mutex)), locks+1
		}
		all = append(all, s)
	}
	return all, locks
}

func call(place string) ast.Stmt {
	return &ast.ExprStmt{X: &ast.CallExpr{
		Fun:  ast.NewIdent("countLock"),
		Args: []ast.Expr{&ast.BasicLit{Kind: token.STRING, Value: strconv.Quote(place)}},
	}}
}
