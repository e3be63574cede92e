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

// table has the results of one workload.
type table struct {
	workload workload
	columns  []column
}

// column has the results of one system, turn by turn.
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

// print writes a table in Markdown. With holds it compares hand-offs, since a cycle is mostly the hold.
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
		requests, bytes := fmt.Sprintf("%.1f", medianOf(c.turns, func(m measure) float64 { return perCycle(m, float64(m.requests)) })), ""
		if n := medianOf(c.turns, func(m measure) float64 { return perCycle(m, float64(m.bytes)) }); n > 0 {
			bytes = fmt.Sprintf("%.0f", n)
		}
		allocs, allocBytes := "", ""
		if n := medianOf(c.turns, func(m measure) float64 { return perCycle(m, float64(m.allocs)) }); n > 0 {
			allocs = fmt.Sprintf("%.0f", n)
			allocBytes = fmt.Sprintf("%.0f", medianOf(c.turns, func(m measure) float64 { return perCycle(m, float64(m.allocBytes)) }))
		}
		serverCPU := micros(medianOf(c.turns, func(m measure) float64 { return perCycle(m, float64(m.server)) }))
		if c.system == "etcd" || c.system == "redsync" {
			requests, serverCPU = "", "" // the counters are ZooKeeper's
		}
		fmt.Fprintf(w, "| %s | %s | %.2f | %.2f | %s | %s | %s | %s | %s | %s |\n", c.system, micros(medianOf(c.turns, f)),
			quantile(ratios, 0.5), quantile(ratios, 0.99), requests, bytes,
			micros(medianOf(c.turns, func(m measure) float64 { return perCycle(m, float64(m.client)) })), serverCPU, allocs, allocBytes)
	}
	for _, c := range t.columns {
		if n := medianOf(c.turns, func(m measure) float64 { return float64(m.givenUp) / float64(max(1, m.givenUp+m.cycles)) }); n > 0 {
			fmt.Fprintf(w, "\n%s gave up %.0f %% of its tries, which are not counted.\n", c.system, 100*n)
		}
	}
}

func micros(nanos float64) string {
	if us := nanos / float64(time.Microsecond); us < 10 {
		return fmt.Sprintf("%.1f µs", us)
	} else {
		return fmt.Sprintf("%.0f µs", us)
	}
}

// write writes all tables and a plot to files with this name.
func write(file, ensemble string, tables []table) error {
	var text strings.Builder
	fmt.Fprintf(&text, "# Servers: %s\n", ensemble)
	for _, t := range tables {
		t.print(&text)
	}
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
