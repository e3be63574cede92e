package zktest_test

import (
	"fmt"
	"os"
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/zktest"
)

// outcome is a test that fails or passes, as a server sees it.
type outcome struct {
	testing.TB
	failed bool
	log    string
	ends   []func()
}

func (o *outcome) Failed() bool                      { return o.failed }
func (o *outcome) Logf(format string, args ...any)   { o.log += fmt.Sprintf(format, args...) + "\n" }
func (o *outcome) Fatalf(format string, args ...any) { o.Logf(format, args...) }
func (o *outcome) Cleanup(f func())                  { o.ends = append(o.ends, f) }
func (o *outcome) end() {
	for i := len(o.ends) - 1; i >= 0; i-- {
		o.ends[i]()
	}
}

// TestTimeline_OfAFailedTest: a failed test logs its last requests and writes a page.
func TestTimeline_OfAFailedTest(t *testing.T) {
	for _, start := range []func(o *outcome){
		func(o *outcome) {
			s := zktest.NewServer(o, zktest.WithTimeline())
			s.Freeze()
		},
		func(o *outcome) { zktest.NewCluster(o, 3, zktest.WithTimeline()).Members()[0].Freeze() },
	} {
		o := &outcome{TB: t, failed: true}
		start(o)
		o.end()
		assert.Contains(t, o.log, "freeze all sessions")
		path := regexp.MustCompile(`timeline: (\S+)`).FindStringSubmatch(o.log)
		require.NotNil(t, path, o.log)
		defer os.Remove(path[1])
		page := testbed.Must(os.ReadFile(path[1]))
		assert.Contains(t, string(page), "TestTimeline_OfAFailedTest")
		assert.Contains(t, string(page), "freeze all sessions")

		passed := &outcome{TB: t}
		start(passed)
		passed.end()
		assert.NotContains(t, passed.log, "timeline")
	}
}
