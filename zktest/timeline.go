package zktest

import (
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/gocurator/curator/internal/timeline"
)

// Timeline is a record of what the clients and servers of a test did: sessions, connections,
// requests, watch events, faults and leaders, on the servers' clock, real or virtual. It keeps the
// newest 50,000 requests and events and as many other entries, and counts the ones that it drops.
//
// Option Client of package zktest/timeline adds what a client of this library knows: its waits,
// holds and states. All methods are safe for concurrent use.
type Timeline struct{ recorder *timeline.Recorder }

// WithTimeline records a [Timeline]. If the test of [NewServer] or [NewCluster] fails, the timeline
// is written as a page, and its path and the last requests are logged.
//
// The page is a file in the test's artifact directory if go test has the flag -artifacts, and
// otherwise in a temporary directory that remains.
func WithTimeline() Option {
	return func(c *config) error {
		c.Timeline = timeline.New(timeline.DefaultSize)
		return nil
	}
}

// Timeline returns the record of the server, or of its whole cluster. It is nil without
// [WithTimeline].
func (s *Server) Timeline() *Timeline { return timelineOf(s.timeline) }

// Timeline returns the record of all members. It is nil without [WithTimeline].
func (c *Cluster) Timeline() *Timeline { return timelineOf(c.cfg.Timeline) }

func timelineOf(r *timeline.Recorder) *Timeline {
	if r == nil {
		return nil
	}
	return &Timeline{r}
}

// errNoTimeline is the error of a nil Timeline.
var errNoTimeline = errors.New("zktest: nothing was recorded: option WithTimeline is missing")

// WriteHTML writes the timeline as a page: one file with its styles and script, which a browser
// shows without a network. See [TIMELINE].
//
// [TIMELINE]: https://github.com/gocurator/curator/blob/main/docs/TIMELINE.md
func (t *Timeline) WriteHTML(w io.Writer) error {
	if t == nil {
		return errNoTimeline
	}
	return t.recorder.WriteHTML(w, "zktest")
}

// WriteSVG writes the timeline as a picture with this title, for documents. The picture follows the
// reader's choice of dark or light colours.
func (t *Timeline) WriteSVG(w io.Writer, title string) error {
	if t == nil {
		return errNoTimeline
	}
	return t.recorder.WriteSVG(w, title)
}

// Note adds a remark of the test, such as "the deployment begins". A nil Timeline ignores it.
func (t *Timeline) Note(text string) {
	if t == nil {
		return
	}
	t.recorder.Begin(timeline.Entry{Kind: timeline.Act, Lane: "test", What: text})("", false)
}

func init() {
	timeline.Of = func(v any) *timeline.Recorder {
		if t, ok := v.(*Timeline); ok && t != nil {
			return t.recorder
		}
		return nil
	}
}

// lastRequests is how many requests a failed test logs.
const lastRequests = 20

// explain logs the last requests of a failed test, and writes its page.
func explain(t T, r *timeline.Recorder) {
	t.Helper()
	failing, ok := t.(interface{ Failed() bool })
	if r == nil || !ok || !failing.Failed() {
		return
	}
	t.Logf("zktest: the last requests, and what is held or in force:\n\t%s", strings.Join(r.Last(lastRequests), "\n\t"))
	path, err := writePage(t, r)
	if err != nil {
		t.Logf("zktest: timeline: %v", err)
		return
	}
	t.Logf("zktest: timeline: %s", path)
}

func writePage(t T, r *timeline.Recorder) (path string, err error) {
	name := "test"
	if named, ok := t.(interface{ Name() string }); ok {
		name = named.Name()
	}
	dir, err := pageDir(t)
	if err != nil {
		return "", err
	}
	// Several servers of one test have a page each.
	f, err := os.CreateTemp(dir, regexp.MustCompile(`[^A-Za-z0-9_.-]+`).ReplaceAllString(filepath.Base(name), "_")+"-*.html")
	if err != nil {
		return "", err
	}
	defer func() {
		if closed := f.Close(); err == nil {
			err = closed
		}
	}()
	return f.Name(), r.WriteHTML(f, name)
}

// pageDir returns the directory for the page of a failed test. Without -artifacts the directory of
// ArtifactDir is removed when the test has completed.
func pageDir(t T) (string, error) {
	if dir, ok := t.(interface{ ArtifactDir() string }); ok {
		if f := flag.Lookup("test.artifacts"); f != nil && f.Value.String() == "true" {
			return dir.ArtifactDir(), nil
		}
	}
	return os.MkdirTemp("", "zktest-timeline-")
}

// act records what the test did to the server. The lock is held or not.
func (s *Server) act(what, path string) {
	s.timeline.Add(time.Now(), timeline.Entry{Kind: timeline.Act, Lane: s.core.Name(), What: what, Path: path})
}

// sample records which faults are in force. The lock is held.
func (f *faults) sample() {
	if f.timeline == nil {
		return
	}
	list := append(f.list(), f.core.LinkFaults()...)
	list = append(list, f.addresses()...)
	if f.core.Stopped() {
		list = append(list, "stopped")
	}
	if f.partition != "" {
		list = append(list, f.partition)
	}
	f.timeline.Faults(f.core.Name(), list)
}

// apart records on which side of a partition the server is. The lock is held.
func (f *faults) apart(listed, partitioned bool) {
	switch {
	case !partitioned:
		f.partition = ""
	case listed:
		f.partition = "partition: this side"
	default:
		f.partition = "partition: the other side"
	}
	f.sample()
}
