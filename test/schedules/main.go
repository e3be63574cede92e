// Command schedules writes an overlay for go test in which goroutines pause at random where
// another goroutine can come between: before each lock of a mutex, after each unlock, and before
// each select and send. Each run is another schedule. make schedules runs the tests.
//
//	go run ./test/schedules -out DIR ./recipes/lock ./internal/engine
//	go test -overlay DIR/overlay.json ./test/sim -run TestWorlds
//
// A pause stops the thread in the kernel. In a synctest bubble, where it may hold a mutex, a sleep
// of package time would stop the bubble's clock for ever.
package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

func main() {
	out := flag.String("out", "", "`directory` for the overlay and its files")
	most := flag.Duration("most", 200*time.Microsecond, "the longest pause")
	flag.Parse()
	if *out == "" || flag.NArg() == 0 {
		fmt.Fprintln(os.Stderr, "usage: schedules -out DIR package-directory...")
		os.Exit(2)
	}
	places, err := write(*out, *most, flag.Args())
	if err != nil {
		fmt.Fprintln(os.Stderr, "schedules:", err)
		os.Exit(1)
	}
	fmt.Printf("schedules: %d places, go test -overlay %s\n", places, filepath.Join(*out, "overlay.json"))
}

// pause is the file that each package receives.
const pause = `package %s

import (
	"math/rand/v2"
	"syscall"
)

// pauseSchedule lets other goroutines run, one time in five.
func pauseSchedule() {
	if rand.IntN(5) == 0 {
		_ = syscall.Nanosleep(&syscall.Timespec{Nsec: rand.Int64N(%d)}, nil)
	}
}
`

// write creates the overlay of some directories, and returns the number of places with a pause.
func write(out string, most time.Duration, dirs []string) (places int, err error) {
	overlay := struct{ Replace map[string]string }{make(map[string]string)}
	if err := os.MkdirAll(out, 0o777); err != nil {
		return 0, err
	}
	if out, err = filepath.Abs(out); err != nil {
		return 0, err
	}
	add := func(file string, text []byte) error {
		copied := filepath.Join(out, strconv.Itoa(len(overlay.Replace))+"_"+filepath.Base(file))
		overlay.Replace[file] = copied
		return os.WriteFile(copied, text, 0o666)
	}
	for _, dir := range dirs {
		dir, err := filepath.Abs(dir)
		if err != nil {
			return 0, err
		}
		files, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil {
			return 0, err
		}
		inDir, name := 0, ""
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			text, pkg, n, err := instrument(file)
			if err != nil {
				return 0, err
			}
			if n == 0 {
				continue
			}
			inDir, name = inDir+n, pkg
			if err := add(file, text); err != nil {
				return 0, err
			}
		}
		if inDir == 0 {
			return 0, fmt.Errorf("%s: no place for a pause", dir)
		}
		places += inDir
		if err := add(filepath.Join(dir, "pause_schedule.go"), fmt.Appendf(nil, pause, name, most.Nanoseconds())); err != nil {
			return 0, err
		}
	}
	text, err := json.MarshalIndent(overlay, "", "  ")
	if err != nil {
		return 0, err
	}
	return places, os.WriteFile(filepath.Join(out, "overlay.json"), text, 0o666)
}

// instrument returns a file with its pauses.
func instrument(file string) (text []byte, pkg string, places int, err error) {
	set := token.NewFileSet()
	// Without comments: they would move to wrong places.
	f, err := parser.ParseFile(set, file, nil, parser.SkipObjectResolution)
	if err != nil {
		return nil, "", 0, err
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BlockStmt:
			n.List, places = paused(n.List, places)
		case *ast.CaseClause:
			n.Body, places = paused(n.Body, places)
		case *ast.CommClause:
			n.Body, places = paused(n.Body, places)
		}
		return true
	})
	var b bytes.Buffer
	if err := format.Node(&b, set, f); err != nil {
		return nil, "", 0, err
	}
	return b.Bytes(), f.Name.Name, places, nil
}

// paused returns statements with a pause before each lock, after each unlock, and before each
// select and send.
func paused(list []ast.Stmt, places int) ([]ast.Stmt, int) {
	var all []ast.Stmt
	for _, s := range list {
		before, after := pauses(s)
		if before {
			all = append(all, call())
			places++
		}
		all = append(all, s)
		if after {
			all = append(all, call())
			places++
		}
	}
	return all, places
}

func pauses(s ast.Stmt) (before, after bool) {
	switch s := s.(type) {
	case *ast.SelectStmt, *ast.SendStmt:
		return true, false
	case *ast.ExprStmt:
		c, ok := s.X.(*ast.CallExpr)
		if !ok || len(c.Args) > 0 {
			return false, false
		}
		f, ok := c.Fun.(*ast.SelectorExpr)
		if !ok {
			return false, false
		}
		switch f.Sel.Name {
		case "Lock", "RLock":
			return true, false
		case "Unlock", "RUnlock":
			return false, true
		}
	}
	return false, false
}

func call() ast.Stmt {
	return &ast.ExprStmt{X: &ast.CallExpr{Fun: ast.NewIdent("pauseSchedule")}}
}
