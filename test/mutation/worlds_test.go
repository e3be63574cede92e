package mutation

import (
	"flag"
	"fmt"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var (
	try     = flag.Int("mutation.seeds", 0, "try so many seeds for each mutation, also where no world is known to fail; 0: as many as it should take")
	tryTime = flag.Duration("mutation.time", 15*time.Minute, "how long worlds run for one mutation")
)

// kind says which worlds are run for a mutation: others cannot fail for it. It is the -sim.only of
// package sim.
type kind string

const (
	all         kind = "all"
	credentials kind = "credentials"
	replaced    kind = "replaced"
	caches      kind = "caches"
	keepers     kind = "keepers"
	revocable   kind = "revocable"
	multilock   kind = "multilock"
	election    kind = "election"
	numbers     kind = "numbers"
	barrier     kind = "barrier"
	pool        kind = "pool"
	services    kind = "services"
	shards      kind = "shards"
	jobs        kind = "jobs"
)

// within is the number of seeds, from 1 on, among which one must fail. The seed does not decide the
// order of goroutines within an instant. A world that failed once may therefore pass, but another
// one soon fails.
func (m mutation) within() int { return max(200, 4*m.seed) }

// TestEachMutationIsCaughtInWorlds requires that a world fails, for each mutation that names
// worlds. A mutation without worlds is tried with -mutation.seeds only, and may pass.
func TestEachMutationIsCaughtInWorlds(t *testing.T) {
	root := nightly(t)
	for _, m := range mutations {
		if m.worlds == "" && *try == 0 {
			continue
		}
		t.Run(m.name, func(t *testing.T) {
			program, output, err := build(t, root, "test/sim", overlay(t, root, m))
			require.NoErrorf(t, err, "the mutation does not compile:\n%s", output)
			began := time.Now()
			seed, what := firstFailure(t, program, m)
			fmt.Printf("| %s | %s | seed %d | %s | %v |\n", m.name, m.worlds, seed, what, time.Since(began).Round(time.Second))
			if m.worlds != "" {
				require.NotZero(t, seed, "no world has failed")
			}
		})
	}
}

var (
	failedSeed = regexp.MustCompile(`\bseed (\d+) \(\w+\): `)
	whatFailed = regexp.MustCompile(`(?m)\| wrong: ([^|]*) \|`)
)

// firstFailure runs worlds until one fails, and returns its seed and the failure. The seed is 0 if
// none has failed.
func firstFailure(t *testing.T, program string, m mutation) (seed int, what string) {
	seeds, only := m.within(), string(m.worlds)
	if *try > 0 {
		seeds = *try
	}
	if m.worlds == all {
		only = ""
	}
	run := exec.Command(program, "-test.run", "^TestWorlds$", "-test.timeout", "0", "-sim.failures", "1", "-sim.cut=false",
		"-sim.seeds", strconv.Itoa(seeds), "-sim.time", tryTime.String(), "-sim.only", only)
	run.Dir = t.TempDir()
	out, err := run.CombinedOutput()
	if err == nil {
		return 0, "not found"
	}
	var exit *exec.ExitError
	require.ErrorAs(t, err, &exit)
	match := failedSeed.FindSubmatch(out)
	require.NotNilf(t, match, "the worlds ended otherwise than by failing:\n%s", out[max(0, len(out)-2000):])
	seed, err = strconv.Atoi(string(match[1]))
	require.NoError(t, err)
	var kinds []string
	for _, match := range whatFailed.FindAllSubmatch(out, -1) {
		kinds = append(kinds, string(match[1]))
	}
	if len(kinds) == 0 {
		kinds = []string{"a world that does not end"}
	}
	return seed, strings.Join(kinds, ", ")
}
