package matrix

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gocurator/curator/internal/test/testlevel"
)

var (
	everything = flag.Bool("matrix.all", testlevel.Now() == testlevel.Nightly, "all variants, and moments at each request")
	core       = flag.Bool("matrix.core", false, "the core: all conditions on one server, moments at some requests, some conditions on other servers")
	patience   = flag.Duration("matrix.timeout", 10*time.Minute, "how long a cell may take, by the real clock")
	parallel   = flag.Int("matrix.workers", runtime.GOMAXPROCS(0), "how many cells run at a time")
	page       = flag.String("matrix.timeline", "", "write the timeline of the last cell to this `file`")
	report     = flag.Bool("matrix.report", false, "print the result of each cell")
)

// Run runs the stories of one package under all conditions, each cell as a subtest. Without a flag
// it runs a sample.
func Run(t *testing.T, stories ...Story) {
	var total totals
	began := time.Now()
	cells := make(chan *cell)
	var workers sync.WaitGroup
	for range *parallel { // a test in parallel would be a goroutine from the start, and all are looked at for each cell
		workers.Go(func() {
			for c := range cells {
				t.Run(c.name(), func(t *testing.T) {
					c.watched(t)
					total.cells.Add(1)
					total.requests.Add(c.total.Load())
					c.report(t, &total)
				})
			}
		})
	}
	for _, st := range stories {
		if !wanted(1, escaped(st.Name)) {
			continue
		}
		// An ordinary day first: it says how many requests the story has.
		calm := &cell{story: st, variant: "server"}
		calm.run(t)
		total.cells.Add(1)
		if calm.report(t, &total) {
			continue
		}
		for _, c := range plan(st, int(calm.requests.Load())) {
			if wanted(2, escaped(c.variant+", "+c.condition.Name)) {
				cells <- c
			}
		}
	}
	close(cells)
	workers.Wait()
	t.Logf("%d cells, %d of them by an exception, %d requests in %v", total.cells.Load(), total.excepted.Load(), total.requests.Load(), time.Since(began).Round(time.Millisecond))
	if *everything && !filtered() {
		total.unneeded(stories, t.Errorf)
	} else if *core && flag.Lookup("test.run").Value.String() == "TestMatrix" {
		total.unneeded(stories, t.Logf) // cells that were left out may need them
	}
}

// totals are figures of all cells.
type totals struct {
	cells, excepted, requests atomic.Int64
	mu                        sync.Mutex
	needed                    map[int]bool // exceptions, by index
}

func (x *totals) needs(exceptions []int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.needed == nil {
		x.needed = make(map[int]bool)
	}
	for _, i := range exceptions {
		x.needed[i] = true
	}
}

// unneeded reports the exceptions that no cell of these stories has needed.
func (x *totals) unneeded(stories []Story, report func(format string, args ...any)) {
	for i, e := range exceptions {
		mine := (e.Story != "*" || len(stories) > 1) && slices.ContainsFunc(stories, func(st Story) bool { return matches(e.Story, st.Name) })
		if mine && !x.needed[i] {
			report("no cell needs this exception: story %q, condition %q (%s)", e.Story, e.Condition, e.because())
		}
	}
}

// wanted reports whether -run selects a name at a level. It saves the calls of t.Run for the
// others, and the ordinary days.
func wanted(level int, name string) bool {
	patterns := strings.Split(flag.Lookup("test.run").Value.String(), "/")
	if level >= len(patterns) {
		return true
	}
	ok, err := regexp.MatchString(patterns[level], name)
	return ok || err != nil // as go test decides
}

func filtered() bool { return flag.Lookup("test.run").Value.String() != "" }

// plan returns the cells of this run.
func plan(st Story, requests int) (cells []*cell) {
	chosen := 0
	add := func(variant string, c Condition) {
		cells = append(cells, &cell{story: st, condition: c, variant: variant, allowed: excepted(st.Name, c.Name)})
	}
	sample := func(n int) bool { // one cell of n
		chosen++
		return chosen%n == 0
	}
	for _, c := range conditions(st) {
		if *everything || *core || sample(8) {
			add("server", c)
		}
		if c.Server != nil && strings.HasPrefix(c.Name, "Keeper") {
			continue // a cluster of Keepers is like one Keeper
		}
		if *everything || *core && sample(8) {
			add("latency", c)
		}
		if *everything || *core && sample(8) {
			add("cluster", c)
		}
	}
	for i, c := range moments() {
		if st.OwnClient && (c.Options != nil || c.Closes) {
			continue
		}
		for at := range requests + 2 {
			c := c
			c.At = at
			c.Name = fmt.Sprintf("%s at request %d", c.Name, at)
			if *everything || *core && (at+i)%4 == 0 || !*core && (at+i)%40 == 0 {
				add("server", c)
			}
			if *everything || *core && (at+i)%24 == 1 {
				add("latency", c)
			}
			if *everything || *core && (at+i)%24 == 2 {
				add("cluster", c)
			}
		}
	}
	return cells
}

func (c *cell) name() string {
	return escaped(c.story.Name) + "/" + escaped(c.variant+", "+c.condition.Name)
}

// escaped is a name as go test prints it.
func escaped(name string) string {
	return strings.NewReplacer(" ", "_", "/", "|", ",", "", ":", "").Replace(name)
}

// watched runs the cell. A goroutine that never blocks stops virtual time: then the process ends
// with the name of the cell.
func (c *cell) watched(t *testing.T) {
	timer := time.AfterFunc(*patience, func() {
		buffer := make([]byte, 16<<20)
		fmt.Fprintf(os.Stderr, "%s does not end\n%s\n%s\n", t.Name(), again(t), buffer[:runtime.Stack(buffer, true)])
		os.Exit(1)
	})
	defer timer.Stop()
	running.add(t)
	defer running.remove(t)
	c.run(t)
}

// running holds the names of the cells that run. A panic on a goroutine of the library ends the
// process: then the file names the suspects.
var running suspects

type suspects struct {
	mu    sync.Mutex
	names []string
}

func (s *suspects) file() string {
	return filepath.Join(os.TempDir(), fmt.Sprintf("matrix.%d.running", os.Getpid()))
}

func (s *suspects) add(t *testing.T) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.names = append(s.names, t.Name())
	_ = os.WriteFile(s.file(), []byte(strings.Join(s.names, "\n")+"\n"), 0o600)
}

func (s *suspects) remove(t *testing.T) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.names = slices.DeleteFunc(s.names, func(n string) bool { return n == t.Name() })
	if len(s.names) == 0 {
		_ = os.Remove(s.file())
	}
}

// again returns the command that runs a cell alone.
func again(t *testing.T) string {
	parts := strings.Split(t.Name(), "/")
	for i, p := range parts {
		parts[i] = "^" + p + "$"
	}
	return fmt.Sprintf("alone: go test -vet=off -count=1 . -run '%s' -matrix.all -matrix.timeline cell.html", strings.Join(parts, "/"))
}

// report fails the test for what is broken, and reports whether it did.
func (c *cell) report(t *testing.T, total *totals) (failed bool) {
	broken := c.failures()
	if *report {
		fmt.Printf("CELL\t%s\t%s\t%s\t%d\t%v\t%v\n", c.story.Name, c.variant, c.condition.Name, c.requests.Load(), c.err, strings.ReplaceAll(strings.Join(broken, "; "), "\n", " "))
	}
	if c.allowed.any() {
		total.excepted.Add(1)
		if c.needed(broken) {
			total.needs(c.allowed.indices)
		}
	}
	if len(broken) == 0 || c.allowed.Known != "" {
		return false
	}
	var b strings.Builder
	fmt.Fprintf(&b, "story %q under %q (%s):\n", c.story.Name, c.condition.Name, c.variant)
	for _, line := range broken {
		fmt.Fprintf(&b, "* %s\n", line)
	}
	fmt.Fprintf(&b, "the error of the story: %v\n", c.err)
	if lines := c.journal.all(); len(lines) > 0 {
		b.WriteString("the log:\n")
		for _, l := range lines {
			fmt.Fprintf(&b, "  %v\n", l)
		}
	}
	fmt.Fprintf(&b, "the last requests:\n%s%s", c.last(), again(t))
	t.Error(b.String())
	return true
}

// needed reports whether the cell would fail without its exception.
func (c *cell) needed(broken []string) bool {
	if len(broken) > 0 {
		return true
	}
	e := c.allowed
	return c.err != nil && !c.condition.allows(c.err) || e.Lingers || e.Noisy || len(e.Leaves) > 0
}
