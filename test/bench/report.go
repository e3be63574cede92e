package main

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"
)

// table holds the results of one workload.
type table struct {
	workload workload
	columns  []column
}

// column holds the results of one system, turn by turn.
type column struct {
	system string
	turns  []measure
}

// quantile of values that need not be in order; 0 if there are none.
func quantile[T cmp.Ordered](values []T, q float64) (v T) {
	if len(values) == 0 {
		return v
	}
	sorted := slices.Sorted(slices.Values(values))
	return sorted[min(len(sorted)-1, int(q*float64(len(sorted))))]
}

func medianOf(turns []measure, f func(measure) float64) float64 {
	var values []float64
	for _, m := range turns {
		values = append(values, f(m))
	}
	return quantile(values, 0.5)
}

// ratios returns the ratios of f of a column to f of the first column, round by round.
func (t table) ratios(i int, f func(measure) float64) (ratios []float64) {
	for round, m := range t.columns[i].turns {
		if base := f(t.columns[0].turns[round]); base > 0 {
			ratios = append(ratios, f(m)/base)
		}
	}
	return ratios
}

func cycleTime(m measure) float64 { return float64(m.perCycle()) }
func handOff(m measure) float64   { return float64(quantile(m.handOffs, 0.5)) }
func perCycle(m measure, what float64) float64 {
	return what / float64(max(1, m.cycles))
}

// perCycle returns the median of what a cycle costs.
func (c column) perCycle(of func(measure) float64) float64 {
	return medianOf(c.turns, func(m measure) float64 { return perCycle(m, of(m)) })
}

// positive is the cell of what a cycle costs, which is empty if nothing was counted.
func (c column) positive(of func(measure) float64) string {
	if n := c.perCycle(of); n > 0 {
		return fmt.Sprintf("%.0f", n)
	}
	return ""
}

func (c column) requests() string {
	return fmt.Sprintf("%.1f", c.perCycle(func(m measure) float64 { return float64(m.requests) }))
}

// print writes a table in Markdown. With holds it compares hand-offs, since a cycle is mostly the
// hold.
func (t table) print(w io.Writer) {
	what, f := "a cycle", cycleTime
	if t.workload.hold {
		what, f = "hand-off", handOff
	}
	fmt.Fprintf(w, "\n%s\n\n| | %s | × %s | 99 %% | requests | bytes | CPU client | CPU servers | allocations | allocated bytes |\n"+
		"| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n",
		t.workload.name, what, t.columns[0].system)
	for i, c := range t.columns {
		ratios := t.ratios(i, f)
		requests, bytes := c.requests(), c.positive(func(m measure) float64 { return float64(m.bytes) })
		allocs := c.positive(func(m measure) float64 { return float64(m.allocs) })
		allocBytes := c.positive(func(m measure) float64 { return float64(m.allocBytes) })
		serverCPU := micros(c.perCycle(func(m measure) float64 { return float64(m.server) }))
		if !c.asksZooKeeper() {
			requests, serverCPU = "", ""
		}
		fmt.Fprintf(w, "| %s | %s | %.2f | %.2f | %s | %s | %s | %s | %s | %s |\n", c.system, micros(medianOf(c.turns, f)),
			quantile(ratios, 0.5), quantile(ratios, 0.99), requests, bytes,
			micros(c.perCycle(func(m measure) float64 { return float64(m.client) })), serverCPU, allocs, allocBytes)
	}
	t.printGivenUp(w, "")
}

// printGivenUp prints the share of failed tries of each column that has any.
func (t table) printGivenUp(w io.Writer, where string) {
	for _, c := range t.columns {
		if n := medianOf(c.turns, func(m measure) float64 { return float64(m.givenUp) / float64(max(1, m.givenUp+m.cycles)) }); n > 0 {
			fmt.Fprintf(w, "\n%s%s gave up %.0f %% of its tries, which are not counted.\n", where, c.system, 100*n)
		}
	}
}

// asksZooKeeper reports whether ZooKeeper's counters include the system.
func (c column) asksZooKeeper() bool { return c.system != "etcd" && c.system != "redsync" }

func micros(nanos float64) string {
	if us := nanos / float64(time.Microsecond); us < 10 {
		return fmt.Sprintf("%.1f µs", us)
	} else {
		return fmt.Sprintf("%.0f µs", us)
	}
}

// summary writes the times, requests and bytes of all tables, one line per workload: the part that
// is kept in results. The rest is only printed.
func summary(w io.Writer, ensemble string, tables []table) {
	fmt.Fprintf(w, "# Servers: %s\n", ensemble)
	if len(tables) == 0 {
		return
	}
	times, counts := newGrid(), newGrid()
	for _, t := range tables {
		name, f := t.workload.name, cycleTime
		if t.workload.hold {
			name, f = name+": hand-off", handOff
		}
		for i, c := range t.columns {
			times.set(name, c.system, t.time(i, f))
			counts.set(t.workload.name, c.system, c.counts())
		}
	}
	fmt.Fprint(w, "\nTime of a cycle in ms, or, where it says so, from the call of a release until the next acquire returns. A time is the median of the rounds.\n"+
		"In parentheses: the median of its ratios, in the same round, to the time of the row that has none; \"none\" means that no hand-off happened.\n\n")
	times.print(w)
	fmt.Fprint(w, "\nRequests and bytes for each cycle, as far as they were counted:\n\n")
	counts.print(w)
	for _, t := range tables {
		t.printGivenUp(w, t.workload.name+": ")
	}
}

// time is a cell of the summary.
func (t table) time(i int, f func(measure) float64) string {
	median := medianOf(t.columns[i].turns, f)
	switch {
	case median == 0:
		return "none"
	case i == 0:
		return milliseconds(median)
	}
	return fmt.Sprintf("%s (%.2f)", milliseconds(median), quantile(t.ratios(i, f), 0.5))
}

// counts is a cell of the summary: requests to ZooKeeper, and bytes.
func (c column) counts() string {
	if !c.asksZooKeeper() {
		return ""
	}
	if bytes := c.positive(func(m measure) float64 { return float64(m.bytes) }); bytes != "" {
		return c.requests() + ", " + bytes
	}
	return c.requests()
}

// grid is a table with a line for each workload and a column for each system, in the order of their
// first cells.
type grid struct {
	lines, systems []string
	cells          map[[2]string]string
}

func newGrid() *grid { return &grid{cells: make(map[[2]string]string)} }

// set fills a cell. A system without a text gets no column.
func (g *grid) set(line, system, text string) {
	if !slices.Contains(g.lines, line) {
		g.lines = append(g.lines, line)
	}
	if text == "" {
		return
	}
	if !slices.Contains(g.systems, system) {
		g.systems = append(g.systems, system)
	}
	g.cells[[2]string{line, system}] = text
}

func (g *grid) print(w io.Writer) {
	fmt.Fprintf(w, "| | %s |\n|%s\n", strings.Join(g.systems, " | "), strings.Repeat(" --- |", len(g.systems)+1))
	for _, line := range g.lines {
		fmt.Fprintf(w, "| %s |", line)
		for _, system := range g.systems {
			fmt.Fprintf(w, " %s |", g.cells[[2]string{line, system}])
		}
		fmt.Fprintln(w)
	}
}

func milliseconds(nanos float64) string {
	ms := nanos / float64(time.Millisecond)
	switch {
	case ms < 0.1:
		return fmt.Sprintf("%.2g", ms)
	case ms < 10:
		return fmt.Sprintf("%.2f", ms)
	default:
		return fmt.Sprintf("%.1f", ms)
	}
}

// write writes a summary of all tables and a plot to files with this name.
func write(file, ensemble string, tables []table) error {
	var text strings.Builder
	summary(&text, ensemble, tables)
	if err := os.WriteFile(file+".md", []byte(text.String()), 0o644); err != nil {
		return err
	}
	var lines []series
	for _, t := range tables {
		w := t.workload
		if w.kind != mutexes || w.waiters < 2 || w.hold || w.at != anyServer {
			continue
		}
		for _, c := range t.columns {
			name := c.system + map[bool]string{true: ", a client each", false: ", one client"}[w.each]
			i := slices.IndexFunc(lines, func(s series) bool { return s.name == name })
			if i < 0 {
				lines = append(lines, series{name: name, dashed: !w.each})
				i = len(lines) - 1
			}
			lines[i].points = append(lines[i].points, point{float64(w.waiters), medianOf(c.turns, cycleTime) / float64(time.Microsecond)})
		}
	}
	if len(lines) == 0 {
		return nil
	}
	return os.WriteFile(file+".svg", []byte(plot(lines)), 0o644)
}
