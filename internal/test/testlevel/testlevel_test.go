package testlevel_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/gocurator/curator/internal/test/testlevel"
)

func TestNeed(t *testing.T) {
	for _, c := range []struct {
		now, runs string
		pick      int
	}{{"", "check ", 1}, {"check", "check ", 1}, {"test", "check test ", 2}, {"nightly", "check test nightly ", 3}} {
		t.Run(c.now, func(t *testing.T) {
			t.Setenv(testlevel.Variable, c.now)
			runs := ""
			for _, level := range []testlevel.Level{testlevel.Check, testlevel.Test, testlevel.Nightly} {
				s := &skips{TB: t}
				if testlevel.Need(s, level); !s.skipped {
					runs += level.String() + " "
				}
			}
			assert.Equal(t, c.runs, runs)
			assert.Equal(t, c.pick, testlevel.Pick(1, 2, 3))
		})
	}
	t.Setenv(testlevel.Variable, "nightli")
	assert.Panics(t, func() { testlevel.Now() }, "a typing error must not leave tests out")
}

// skips is a test that records that it is skipped, and continues.
type skips struct {
	testing.TB
	skipped bool
}

func (s *skips) Helper()              {}
func (s *skips) Skipf(string, ...any) { s.skipped = true }
