// Package testlevel decides in which runs a test takes part. There are three: make check, make test
// and make nightly; each includes the ones before it. CONTRIBUTING.md says which tests belong
// where.
//
// A test that is left out says so. The runs end with a list of all tests that were left out: see
// [testlog].
//
// [testlog]: https://pkg.go.dev/github.com/gocurator/curator/internal/test/testlevel/testlog
package testlevel

import (
	"fmt"
	"os"
	"testing"
)

// Level is a run of the tests.
type Level int

const (
	Check   Level = iota // what runs in process in a minute; plain go test, too
	Test                 // with real servers, in minutes
	Nightly              // everything
)

// Variable is the environment variable with the name of the level. Without it the level is Check.
const Variable = "CURATOR_TESTS"

var names = map[Level]string{Check: "check", Test: "test", Nightly: "nightly"}

func (l Level) String() string { return names[l] }

// Now returns the level of this run.
func Now() Level {
	text := os.Getenv(Variable)
	for level, name := range names {
		if text == name || text == "" && level == Check {
			return level
		}
	}
	panic(fmt.Sprintf("%s=%q: want check, test or nightly", Variable, text))
}

// Need leaves a test out of runs below a level.
func Need(t testing.TB, level Level) {
	t.Helper()
	if Now() < level {
		t.Skipf("LEFT OUT: `make %v` runs it (%s=%v)", level, Variable, level)
	}
}

// Pick returns what this run has time for: a value for each level.
func Pick[T any](check, test, nightly T) T {
	return [...]T{Check: check, Test: test, Nightly: nightly}[Now()]
}
