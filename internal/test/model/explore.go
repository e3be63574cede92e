package model

import (
	"fmt"
	"slices"
	"time"
)

// Result is what exploring has found.
type Result struct {
	States   int
	Complete bool     // all states were tried
	Bad      string   // empty if nothing is wrong
	Trace    []string // the steps that led to it
}

func (r Result) String() string {
	switch {
	case r.Bad != "":
		return fmt.Sprintf("after %d states: %s", r.States, r.Bad)
	case r.Complete:
		return fmt.Sprintf("no violation in all %d states", r.States)
	}
	return fmt.Sprintf("no violation in the first %d states", r.States)
}

// Explore tries all executions of a world, the short ones first, until there are maxStates or limit
// has passed.
func Explore(cfg *Config, maxStates int, limit time.Duration) Result {
	type link struct {
		parent int32
		name   string
	}
	type item struct {
		w *World
		i int32
	}
	first := New(cfg)
	seen := map[key]struct{}{first.key(): {}}
	trail := []link{{-1, ""}}
	queue := []item{{first, 0}}
	trace := func(i int32, last string) (names []string) {
		for ; i > 0; i = trail[i].parent {
			names = append(names, trail[i].name)
		}
		slices.Reverse(names)
		return append(names, last)
	}
	began := time.Now()
	for len(queue) > 0 {
		it := queue[0]
		queue[0] = item{}
		queue = queue[1:]
		goesOn := false
		for _, step := range it.w.Steps() {
			goesOn = goesOn || !step.Fault
			if step.Bad != "" {
				return Result{States: len(seen), Bad: step.Bad, Trace: trace(it.i, step.Name)}
			}
			k := step.To.key()
			if _, dup := seen[k]; dup {
				continue
			}
			seen[k] = struct{}{}
			trail = append(trail, link{it.i, step.Name})
			queue = append(queue, item{step.To, int32(len(trail) - 1)})
		}
		if stuck := it.w.stuck(); !goesOn && stuck != "" {
			return Result{States: len(seen), Bad: stuck, Trace: trace(it.i, "nothing can happen any more")}
		}
		if len(seen) > maxStates || time.Since(began) > limit {
			return Result{States: len(seen)}
		}
	}
	return Result{States: len(seen), Complete: true}
}

// stuck names a goroutine that is not finished.
func (w *World) stuck() string {
	for i, p := range w.ps {
		for k, g := range p.gs {
			if g.pc != finished {
				return fmt.Sprintf("goroutine %d.%d is %s for ever", i, k, names[g.pc])
			}
		}
	}
	return ""
}
