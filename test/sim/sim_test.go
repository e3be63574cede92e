package sim

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var (
	seeds       = flag.Int("sim.seeds", 100, "how many worlds")
	first       = flag.Uint64("sim.first", 1, "the first seed")
	oneSeed     = flag.Uint64("sim.seed", 0, "run this seed alone, and show its history; 0: none")
	recipe      = flag.String("sim.recipe", "", "run this recipe only: delay, "+strings.Join(recipeNames, ", "))
	stopAt      = flag.Int("sim.failures", 3, "how many seeds may fail before the run ends")
	workers     = flag.Int("sim.workers", runtime.GOMAXPROCS(0), "how many worlds run at a time")
	limit       = flag.Duration("sim.time", 0, "begin no world after this time, by the real clock; 0: no limit")
	worldLimit  = flag.Duration("sim.timeout", 2*time.Minute, "how much processor time the program may use during one world")
	trace       = flag.Bool("sim.trace", false, "write the history of a seed that fails at once, since it may not fail again; a quarter slower")
	cut         = flag.Bool("sim.cut", true, "drop faults of a seed that fails, as long as it does")
	hiddenNodes = flag.Bool("sim.hidden", true, "with contenders whose nodes are unreadable for others")
	keepers     = flag.Bool("sim.keepers", true, "with kept nodes and members of groups")
	extraOnly   = flag.String("sim.extra", "", "have this recipe beside the contenders in every world: "+strings.Join(extraNames, ", "))
	withExtras  = flag.Bool("sim.extras", true, "with other recipes beside the contenders")
	only        = flag.String("sim.only", "", "of the seeds, run only worlds with these: keepers, caches, revocable, multilock, credentials, replaced, clickhouse, "+strings.Join(extraNames, ", "))
	progress    = flag.Int("sim.progress", 0, "say how far it is after so many worlds; 0: never")
)

// raced is true in a run with -race.
var raced bool

// failure is a seed that failed.
type failure struct {
	scenario scenario
	wrong    []string
}

// totals are the results of many worlds.
type totals struct {
	mu       sync.Mutex // guards what follows
	worlds   int
	counts   map[string]int
	took     time.Duration
	failures []failure
}

// TestWorlds runs many worlds. A seed that fails is run again and cut down.
func TestWorlds(t *testing.T) {
	if *oneSeed != 0 {
		runOne(t, draw(*oneSeed, *recipe))
		return
	}
	runWorlds(t, func(seed uint64) scenario { return draw(seed, *recipe) })
}

// runWorlds runs the worlds that draw returns for many seeds.
func runWorlds(t *testing.T, draw func(seed uint64) scenario) {
	// Worlds are small and produce much garbage: its collection took a quarter of the time. Some
	// are not small.
	defer debug.SetGCPercent(debug.SetGCPercent(1000))
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(2 << 30))
	all := totals{counts: make(map[string]int)}
	began := time.Now()
	var next atomic.Uint64
	var wg sync.WaitGroup
	for range max(1, *workers) {
		wg.Go(func() {
			for {
				n := next.Add(1) - 1
				if n >= uint64(*seeds) || all.failed() >= *stopAt || *limit > 0 && time.Since(began) > *limit {
					return
				}
				s := draw(*first + n)
				if !s.has(*only) {
					continue
				}
				r := simulate(t, s, *trace)
				if len(r.wrong) > 0 && *trace {
					file, err := writeHistory(s, r)
					fmt.Fprintln(os.Stderr, "seed", s.Seed, "failed: history in", file, err)
				}
				worlds := all.add(s, r)
				if *progress > 0 && worlds%*progress == 0 {
					fmt.Fprintf(os.Stderr, "%v: %d worlds, next seed %d\n", time.Since(began).Round(time.Second), worlds, *first+n+1)
				}
			}
		})
	}
	wg.Wait()
	t.Logf("\n%s", all.table(time.Since(began)))
	if *recipe == "" && *only == "" && all.worlds >= 50 {
		// Worlds in which all of them are refused would be green, too.
		require.Positive(t, all.counts["re-entries"])
		require.Positive(t, all.counts["downgrades"])
	}
	for _, f := range all.failures {
		t.Errorf("seed %d (%s): %s", f.scenario.Seed, f.scenario.Recipe, strings.Join(f.wrong, "\n"))
		if *cut {
			t.Log(cutDown(t, f.scenario))
		}
	}
}

// seedsThatFailed found bugs that seldom show: 7752 a member of a double barrier that asked again
// without a pause.
var seedsThatFailed = []uint64{7752}

// seedsThatReach have worlds that reach statements which seeds 1 to 300 do not: see
// scripts/sim-seeds.sh. The set depends partly on the order of goroutines.
var seedsThatReach = []uint64{309, 337, 356, 372, 410, 443, 494, 512, 531}

func TestSeedsWorthKeeping(t *testing.T) {
	if raced {
		t.Skip("LEFT OUT: `make worlds`, a part of `make test`, runs it without -race")
	}
	t.Parallel()
	for _, seed := range seedsThatReach {
		require.Emptyf(t, simulate(t, draw(seed, ""), false).wrong, "seed %d", seed)
	}
	for _, seed := range seedsThatFailed {
		s := draw(seed, "")
		s.Replacing, s.ClickHouse, s.ACL = false, "", "" // worlds had none of these at that time
		s.Faults = slices.DeleteFunc(s.Faults, func(f fault) bool {
			return slices.Contains([]faultKind{replaceMember, refuseCredentials, delayRequests}, f.Kind)
		})
		require.Emptyf(t, simulate(t, s, false).wrong, "seed %d", seed)
	}
}

func (a *totals) failed() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.failures)
}

// add adds a world, and returns how many there were.
func (a *totals) add(s scenario, r result) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.worlds++
	a.took += r.took
	for kind, n := range r.counts {
		a.counts[kind] += n
	}
	a.counts["worlds: "+s.Recipe]++
	a.counts["worlds: "+s.Weather.String()]++
	if s.Extra != "" {
		a.counts["worlds: with "+s.Extra]++
	}
	if s.Replacing {
		a.counts["worlds: with members that are replaced"]++
	}
	if s.ClickHouse != "" {
		a.counts["worlds: of ClickHouse Keepers"]++
	}
	if s.ACL != "" {
		a.counts["worlds: with credentials"]++
	}
	if len(r.wrong) > 0 {
		a.failures = append(a.failures, failure{s, r.wrong})
	}
	return a.worlds
}

// table returns the results of the run, for test/sim/README.md.
func (a *totals) table(took time.Duration) string {
	faults := 0
	for kind, n := range a.counts {
		if strings.HasPrefix(kind, "fault: ") {
			faults += n
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d worlds in %v: %v simulated, %.0f simulated seconds per second; %d faults\n\n", a.worlds, took.Round(time.Second),
		a.took.Round(time.Second), a.took.Seconds()/took.Seconds(), faults)
	b.WriteString("| what | how often |\n| --- | --- |\n")
	for _, kind := range slices.Sorted(maps.Keys(a.counts)) {
		fmt.Fprintf(&b, "| %s | %d |\n", kind, a.counts[kind])
	}
	return b.String()
}

// tries is how often a scenario is repeated to see whether it fails: the order of goroutines is
// not decided by the seed.
const tries = 30

// fails repeats a scenario until it fails.
func fails(t *testing.T, s scenario, trace bool) (r result, failed bool) {
	for range tries {
		if r = simulate(t, s, trace); len(r.wrong) > 0 {
			return r, true
		}
	}
	return r, false
}

// cutDown drops faults and clients as long as the scenario still fails, and says how it can be
// seen.
func cutDown(t *testing.T, s scenario) string {
	var b strings.Builder
	fmt.Fprintf(&b, "again: go test ./test/sim -run TestWorlds -v -sim.seed %d", s.Seed)
	if *recipe != "" {
		fmt.Fprintf(&b, " -sim.recipe %s", *recipe)
	}
	if s.Extra != draw(s.Seed, *recipe).Extra {
		fmt.Fprintf(&b, " -sim.extra %s", s.Extra)
	}
	if _, failed := fails(t, s, false); !failed {
		fmt.Fprintf(&b, "\nit did not fail again in %d tries: it depends on the order of goroutines\n", tries)
		return b.String()
	}
	// without leaves something out if the rest still fails
	without := func(drop func(*scenario)) bool {
		less := s
		drop(&less)
		_, failed := fails(t, less, false)
		if failed {
			s = less
		}
		return failed
	}
	for again := true; again; {
		again = false
		for i := len(s.Faults) - 1; i >= 0; i-- {
			again = without(func(s *scenario) { s.Faults = slices.Delete(slices.Clone(s.Faults), i, i+1) }) || again
		}
	}
	for _, drop := range []func(*scenario){func(s *scenario) { s.Watchers, s.Writers = nil, 0 }, func(s *scenario) { s.Keepers = nil }, func(s *scenario) { s.Extra = "" }} {
		without(drop)
	}
	for i := len(s.Clients) - 1; i > 0; i-- {
		without(func(s *scenario) { s.Clients = slices.Delete(slices.Clone(s.Clients), i, i+1) })
	}
	fmt.Fprintf(&b, "\ncut down to %d faults and %d clients:\n%s", len(s.Faults), len(s.Clients), describeScenario(s))
	if r, failed := fails(t, s, true); failed {
		file, err := writeHistory(s, r)
		fmt.Fprintf(&b, "\n%s\nhistory in %s %v\n", strings.Join(r.wrong, "\n"), file, err)
	}
	return b.String()
}

func describeScenario(s scenario) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, %d members, latency %v and %v, lag %v, sync timeout %v, reaping every %v\n",
		s.Recipe, s.Members, s.Latency, s.MemberLatency, s.Lag, s.SyncTimeout, s.ReapEvery)
	if s.Replacing {
		b.WriteString("clients follow the configuration\n")
	}
	if s.ClickHouse != "" {
		fmt.Fprintf(&b, "the members are ClickHouse Keepers of age %s\n", s.ClickHouse)
	}
	if s.ACL != "" {
		fmt.Fprintf(&b, "all nodes are for clients with credentials: %s\n", s.ACL)
	}
	for i, c := range s.Clients {
		fmt.Fprintf(&b, "client %d: %+v\n", i, c)
	}
	for i, k := range s.Keepers {
		fmt.Fprintf(&b, "keeper %d: %+v\n", i, k)
	}
	if s.Extra != "" {
		fmt.Fprintf(&b, "beside them: %s\n", s.Extra)
	}
	if s.Writers > 0 {
		fmt.Fprintf(&b, "%d writers of %s\n", s.Writers, treePath)
	}
	for i, x := range s.Watchers {
		fmt.Fprintf(&b, "cache %d: %+v\n", i, x)
	}
	for _, f := range s.Faults {
		fmt.Fprintf(&b, "%v\n", f)
	}
	return b.String()
}

// writeHistory writes what happened to a file, and the timeline to a page beside it.
func writeHistory(s scenario, r result) (file string, err error) {
	f, err := os.CreateTemp("", fmt.Sprintf("sim-%d-*.txt", s.Seed))
	if err != nil {
		return "", err
	}
	defer f.Close()
	_, err = fmt.Fprintf(f, "%s\n%s\n%s\n", describeScenario(s), strings.Join(r.wrong, "\n"), strings.Join(r.history, "\n"))
	if err == nil && len(r.page) > 0 {
		err = os.WriteFile(strings.TrimSuffix(f.Name(), ".txt")+".html", r.page, 0o600)
	}
	return f.Name(), err
}

// runOne shows one seed.
func runOne(t *testing.T, s scenario) {
	r, failed := fails(t, s, true)
	file, err := writeHistory(s, r)
	if err != nil {
		t.Error(err)
	}
	t.Logf("%s\nhistory in %s, timeline beside it as .html", describeScenario(s), file)
	if failed {
		t.Errorf("%s", strings.Join(r.wrong, "\n"))
		if *cut {
			t.Log(cutDown(t, s))
		}
	}
}
