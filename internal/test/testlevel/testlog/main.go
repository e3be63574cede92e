// Command testlog reads the output of go test -json and prints what plain go test prints. At the
// end it lists the tests that were left out, each reason once: plain go test is silent about them.
// The output of go test -v is written to the file that the argument names.
package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
)

func main() {
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "testlog:", err)
		os.Exit(1)
	}
}

func run(file string) error {
	verbose, err := os.Create(file)
	if err != nil {
		return err
	}
	return errors.Join(report(os.Stdin, os.Stdout, verbose), verbose.Close())
}

// event is a line of go test -json, see go doc test2json.
type event struct{ Action, Package, Test, Output string }

// test is a test of a package, or, without a name, the package itself.
type test struct{ pkg, name string }

func report(in io.Reader, out, verbose io.Writer) error {
	output := make(map[test]*strings.Builder) // output of tests that have not ended
	left := make(map[string][]test)           // tests by the reason
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		var e event
		if json.Unmarshal(lines.Bytes(), &e) != nil {
			fmt.Fprintln(out, lines.Text()) // the go command's own
			continue
		}
		fmt.Fprint(verbose, e.Output)
		t := test{e.Package, e.Test}
		switch {
		case e.Action == "build-output":
			fmt.Fprint(out, e.Output)
		case e.Action == "output" && e.Test == "":
			if e.Output != "PASS\n" && !strings.Contains(e.Output, "[no test files]") {
				fmt.Fprint(out, e.Output)
			}
		case e.Action == "output":
			if output[t] == nil {
				output[t] = new(strings.Builder)
			}
			output[t].WriteString(e.Output)
		case e.Action == "skip" && e.Test != "":
			why := reason(fmt.Sprint(output[t]))
			left[why] = append(left[why], t)
			delete(output, t)
		case e.Action == "pass":
			delete(output, t)
		case e.Action == "fail" && e.Test == "":
			// Even of tests that did not end, as when the program panics.
			for _, t := range slices.SortedFunc(maps.Keys(output), func(a, b test) int { return cmp.Compare(a.name, b.name) }) {
				if t.pkg == e.Package {
					fmt.Fprint(out, output[t])
					delete(output, t)
				}
			}
		}
	}
	for _, why := range slices.Sorted(maps.Keys(left)) {
		fmt.Fprintf(out, "%s\n", why)
		byPackage := make(map[string]int)
		for _, t := range left[why] {
			byPackage[t.pkg]++
		}
		for _, pkg := range slices.Sorted(maps.Keys(byPackage)) {
			if byPackage[pkg] > 1 {
				fmt.Fprintf(out, "\t%s: %d tests\n", pkg, byPackage[pkg])
				continue
			}
			i := slices.IndexFunc(left[why], func(t test) bool { return t.pkg == pkg })
			fmt.Fprintf(out, "\t%s: %s\n", pkg, left[why][i].name)
		}
	}
	return lines.Err()
}

// reason is what a test says that was skipped.
func reason(output string) string {
	_, why, found := strings.Cut(output, "LEFT OUT")
	if !found {
		return "LEFT OUT without a reason"
	}
	why, _, _ = strings.Cut(why, "\n")
	return "LEFT OUT" + why
}
