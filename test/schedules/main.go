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
	"flag"
	"fmt"
	"go/ast"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/gocurator/curator/internal/test/overlay"
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
		_ = syscall.Nanosleep(&syscall.Timespec{Nsec: rand.Int64N(MOST)}, nil)
	}
}
`

// write creates the overlay of some directories, and returns the number of places with a pause.
func write(out string, most time.Duration, dirs []string) (places int, err error) {
	if err := os.MkdirAll(out, 0o777); err != nil {
		return 0, err
	}
	text := strings.ReplaceAll(pause, "MOST", strconv.FormatInt(most.Nanoseconds(), 10))
	_, changes, err := overlay.Change{Statements: paused, File: "pause_schedule.go", Text: text}.Write(out, dirs)
	if err != nil {
		return 0, err
	}
	for i, n := range changes {
		if n == 0 {
			return 0, fmt.Errorf("%s: no place for a pause", dirs[i])
		}
		places += n
	}
	return places, nil
}

// paused returns statements with a pause before each lock, after each unlock, and before each
// select and send.
func paused(list []ast.Stmt, _ string) (all []ast.Stmt, places int) {
	for _, s := range list {
		before, after := pauses(s)
		if before {
			all, places = append(all, call()), places+1
		}
		all = append(all, s)
		if after {
			all, places = append(all, call()), places+1
		}
	}
	return all, places
}

func pauses(s ast.Stmt) (before, after bool) {
	switch s.(type) {
	case *ast.SelectStmt, *ast.SendStmt:
		return true, false
	}
	switch _, method := overlay.Method(s); method {
	case "Lock", "RLock":
		return true, false
	case "Unlock", "RUnlock":
		return false, true
	}
	return false, false
}

func call() ast.Stmt {
	return &ast.ExprStmt{X: &ast.CallExpr{Fun: ast.NewIdent("pauseSchedule")}}
}
