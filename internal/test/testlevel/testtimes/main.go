// Command testtimes shows how long go test compiles, links and runs, and how much of the running is
// waiting.
//
//	go test -exec 'testtimes exec FILE' -debug-actiongraph=GRAPH ./...
//	testtimes table GRAPH FILE
//
// With exec it runs a test binary and appends a line about it to FILE. With table it prints both
// as a table in Markdown.
package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

func main() {
	if len(os.Args) < 4 {
		fmt.Fprintln(os.Stderr, "usage: testtimes exec FILE binary args... | table GRAPH FILE")
		os.Exit(2)
	}
	var err error
	switch os.Args[1] {
	case "exec":
		err = execute(os.Args[2], os.Args[3:])
	case "table":
		err = table(os.Stdout, os.Args[2], os.Args[3])
	default:
		err = fmt.Errorf("unknown command %q", os.Args[1])
	}
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		os.Exit(exit.ExitCode())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "testtimes:", err)
		os.Exit(1)
	}
}

// run is a line of the file: one run of a test binary.
type run struct {
	Package string
	Wall    time.Duration
	CPU     time.Duration // CPU time of the binary and the children it has waited for
}

// execute runs a test binary and records its times.
func execute(file string, args []string) error {
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	began := time.Now()
	err := cmd.Run()
	if cmd.ProcessState == nil {
		return err
	}
	dir, wdErr := os.Getwd() // go test runs a binary in the directory of its package
	if wdErr != nil {
		return wdErr
	}
	line, _ := json.Marshal(run{dir, time.Since(began), cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()})
	f, openErr := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o666)
	if openErr != nil {
		return openErr
	}
	_, writeErr := f.Write(append(line, '\n')) // one write, so that parallel runs do not mix
	return cmp.Or(err, writeErr, f.Close())
}

// action is an entry of the action graph of the go command.
type action struct {
	Mode                string
	Package             string
	TimeStart, TimeDone time.Time
	CmdReal             time.Duration
	CmdUser             time.Duration
	CmdSys              time.Duration
}

// total is the time of a kind of work.
type total struct {
	n         int
	wall, cpu time.Duration
}

func table(out io.Writer, graph, file string) error {
	text, err := os.ReadFile(graph)
	if err != nil {
		return err
	}
	var actions []action
	if err := json.Unmarshal(text, &actions); err != nil {
		return fmt.Errorf("%s: %w", graph, err)
	}
	kinds := make(map[string]*total)
	var began, ended time.Time
	for _, a := range actions {
		if a.TimeStart.IsZero() || a.TimeDone.IsZero() {
			continue
		}
		if began.IsZero() || a.TimeStart.Before(began) {
			began = a.TimeStart
		}
		if a.TimeDone.After(ended) {
			ended = a.TimeDone
		}
		if kind := kindOf(a.Mode); kind != "" && a.CmdReal > 0 {
			add(kinds, kind, a.CmdReal, a.CmdUser+a.CmdSys)
		}
	}
	runs, err := readRuns(file)
	if err != nil {
		return err
	}
	for _, r := range runs {
		add(kinds, "run", r.Wall, r.CPU)
	}
	fmt.Fprintf(out, "%v in all\n\n| work | times | sum of durations | processor |\n| --- | --- | --- | --- |\n", seconds(ended.Sub(began)))
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		t := kinds[kind]
		fmt.Fprintf(out, "| %s | %d | %s | %s |\n", kind, t.n, seconds(t.wall), seconds(t.cpu))
	}
	slices.SortFunc(runs, func(a, b run) int { return cmp.Compare(b.Wall, a.Wall) })
	fmt.Fprintf(out, "\n| package | duration | processor | waiting |\n| --- | --- | --- | --- |\n")
	for _, r := range runs[:min(len(runs), 20)] {
		fmt.Fprintf(out, "| %s | %s | %s | %s |\n", r.Package, seconds(r.Wall), seconds(r.CPU), seconds(max(0, r.Wall-r.CPU)))
	}
	return nil
}

// kindOf returns the kind of work of an action, or "" if it is not counted.
func kindOf(mode string) string {
	switch mode {
	case "build":
		return "compile"
	case "link":
		return "link"
	}
	return ""
}

func add(kinds map[string]*total, kind string, wall, cpu time.Duration) {
	if kinds[kind] == nil {
		kinds[kind] = new(total)
	}
	t := kinds[kind]
	t.n++
	t.wall += wall
	t.cpu += cpu
}

// readRuns returns the lines of the file, with packages relative to this directory.
func readRuns(file string) ([]run, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	root, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	var runs []run
	for line := range strings.Lines(string(text)) {
		var r run
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		if rel, err := filepath.Rel(root, r.Package); err == nil {
			r.Package = rel
		}
		runs = append(runs, r)
	}
	return runs, nil
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.1f s", d.Seconds()) }
