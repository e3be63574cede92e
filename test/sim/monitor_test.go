package sim

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/recipes/lock"
)

// held is a lock as its holder sees it.
type held struct {
	who string // the goroutine
	// the same for locks that one acquire got, or one acquire on top of another
	owner    int
	shared   bool            // a reader's
	ctx      context.Context // done when the holder does not believe in it any more
	session  int64
	timeout  time.Duration // of the session
	node     string        // path
	since    time.Time     // when it was acquired, about
	release  func() error
	token    func(context.Context) (int64, error)
	guard    func() *zk.CheckVersionRequest
	hold     *lock.Hold      // nil: not one of the library
	revoked  <-chan struct{} // closed by a request to release; nil: not watched
	believe  func() bool     // instead of ctx; nil: ctx
	trusting bool            // a suspended connection does not end it
	watches  bool            // the holder is notified when its node is deleted
	linger   func()          // called before the release; nil: nothing
	released func(error)     // called after the release; nil: nothing

	// Guarded by monitor.mu.
	serial int
	known  int64         // the token, once it is known
	judged bool          // it was believed in when it began, and nothing excused it
	pinned chan struct{} // closed when the holder may release; nil: it may
}

// live reports whether the holder believes in its lock.
func (h *held) live() bool {
	if h.believe != nil {
		return h.believe()
	}
	return h.ctx.Err() == nil
}

// monitor is notified by all who hold, and says what must not be.
type monitor struct {
	most  int      // holders at a time that are not shared
	base  *monitor // knows about forced ends; nil: this one
	began time.Time
	trace bool

	mu      sync.Mutex // guards what follows
	live    []*held
	all     []*held
	forced  map[int64]attempts   // to end sessions by force
	deleted map[string]attempts  // to delete nodes by hand
	gone    map[string]time.Time // the same, once that was done
	traps   []*trap              // for the next holders
	strange []*held              // holders whose nodes were deleted, though not by hand
	writes  []write
	history []string
	page    []byte // the timeline, once the world has ended
	counts  map[string]int
	wrong   []string
}

// write is a confirmed guarded write of value.
type write struct {
	value int
	by    *held
}

func newMonitor(most int, trace bool) *monitor {
	return &monitor{
		most: most, began: time.Now(), trace: trace,
		forced: make(map[int64]attempts), deleted: make(map[string]attempts), gone: make(map[string]time.Time),
		counts: make(map[string]int),
	}
}

// count adds one of a kind.
func (m *monitor) count(kind string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.counts[kind]++
}

// note writes a line of the history.
func (m *monitor) note(format string, args ...any) {
	if !m.trace {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.noteLocked(format, args...)
}

func (m *monitor) noteLocked(format string, args ...any) {
	switch {
	case m.base != nil:
		m.base.note(format, args...)
	case m.trace:
		m.history = append(m.history, fmt.Sprintf("%12v ", time.Since(m.began))+fmt.Sprintf(format, args...))
	}
}

// fail notes what must not be.
func (m *monitor) fail(kind, format string, args ...any) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.failLocked(kind, format, args...)
}

func (m *monitor) failLocked(kind, format string, args ...any) {
	text := fmt.Sprintf("%s at %v: %s", kind, time.Since(m.began), fmt.Sprintf(format, args...))
	m.wrong = append(m.wrong, text)
	m.counts["wrong: "+kind]++
	m.noteLocked("WRONG: %s", text)
}

// attempts are the first and the last try to end something by force. Which of them had an effect is
// not known.
type attempts struct{ first, last time.Time }

func (a attempts) again() attempts {
	now := time.Now()
	if a.first.IsZero() {
		a.first = now
	}
	return attempts{a.first, now}
}

// end says that a session is about to be ended by force, which gives its holders no warning.
func (m *monitor) end(session int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.forced[session] = m.forced[session].again()
}

// delete says that a node is about to be deleted by hand.
func (m *monitor) delete(path string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.deleted[path] = m.deleted[path].again()
}

// isGone says that a node was deleted by hand.
func (m *monitor) isGone(path string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.gone[path] = time.Now()
}

// excused reports whether a holder cannot know that it holds no more: that was by force, and a
// moment ago. Excuses end: of the end of its session a holder knows by its deadline at the latest,
// and of a deletion when the server has reported it, and the callbacks of observers which delay
// that have returned.
func (m *monitor) excused(h *held) bool {
	if m.base != nil {
		m.base.mu.Lock()
		defer m.base.mu.Unlock()
		return m.base.excused(h)
	}
	within := func(at time.Time, d time.Duration) bool { return !at.IsZero() && time.Since(at) < d }
	return within(m.forced[h.session].last, h.timeout+10*time.Second) || within(m.deleted[h.node].last, notifiedWithin(h.timeout))
}

// enter records a new holder. Two that exclude each other must not hold at the same instant.
func (m *monitor) enter(h *held) {
	m.mu.Lock()
	defer m.mu.Unlock()
	h.serial = len(m.all)
	m.all = append(m.all, h)
	m.counts["holds"]++
	m.live = slices.DeleteFunc(m.live, func(o *held) bool { return !o.live() })
	var others []*held
	for _, o := range m.live {
		if o.owner != h.owner && (!o.shared || !h.shared) && !m.excused(o) {
			others = append(others, o)
		}
	}
	m.live = append(m.live, h)
	excused := m.excused(h)
	// Those were live, so if this one is now, it was together with them.
	h.judged = h.live() && !excused
	m.noteLocked("%s holds %s (session %#x, shared %v, judged %v)", h.who, h.node, h.session, h.shared, h.judged)
	if excused {
		m.counts["holds that force excuses"]++
	}
	most := m.most
	if h.shared || slices.ContainsFunc(others, func(o *held) bool { return o.shared }) {
		most = 1
	}
	if h.judged && len(others) >= most {
		m.failLocked("overlap", "%s with %s beside %s", h.who, h.node, describe(others))
	}
	m.spring(h)
}

func describe(holds []*held) string {
	var list []string
	for _, h := range holds {
		list = append(list, fmt.Sprintf("%s with %s", h.who, h.node))
	}
	return strings.Join(list, ", ")
}

// leave records a release.
func (m *monitor) leave(h *held) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.noteLocked("%s has released %s", h.who, h.node)
	if errors.Is(context.Cause(h.ctx), lock.ErrNodeDeleted) && m.deleted[h.node].last.IsZero() && m.forced[h.session].last.IsZero() && h.session != 0 {
		m.strange = append(m.strange, h)
	}
	m.live = slices.DeleteFunc(m.live, func(o *held) bool { return o == h })
}

// learn notes a token.
func (m *monitor) learn(h *held, token int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	h.known = token
}

// wrote notes a guarded write that was confirmed.
func (m *monitor) wrote(h *held, value int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.noteLocked("%s wrote %d", h.who, value)
	m.writes = append(m.writes, write{value, h})
	m.counts["guarded writes"]++
}

// conclude checks what can only be seen at the end. value is the counter's.
func (m *monitor) conclude(value int) {
	m.tokens()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.most > 1 {
		return // they write without reading
	}
	slices.SortStableFunc(m.writes, func(a, b write) int { return a.value - b.value })
	var highest int64
	for i, w := range m.writes {
		if i > 0 && w.value == m.writes[i-1].value {
			m.failLocked("update lost", "%d was written by %s with %s and by %s with %s", w.value, m.writes[i-1].by.who, m.writes[i-1].by.node, w.by.who, w.by.node)
		}
		if t := w.by.known; t != 0 {
			if t < highest {
				m.failLocked("stale write", "%d by %s with token %#x after %#x", w.value, w.by.who, t, highest)
			}
			highest = max(highest, t)
		}
	}
	if value < len(m.writes) {
		m.failLocked("update lost", "the counter is %d after %d confirmed writes", value, len(m.writes))
	}
}

// tokens checks that they rise from holder to holder.
func (m *monitor) tokens() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.most > 1 {
		return // the order of simultaneous holders means nothing
	}
	var alone, all held // with the highest token of exclusive holders, and of all
	for _, h := range m.all {
		if h.known == 0 || !h.judged {
			continue
		}
		before := all
		if h.shared {
			before = alone
		}
		// A reader that was a writer has the writer's.
		if h.known < before.known || h.known == before.known && h.owner != before.owner {
			m.failLocked("token falls", "%s with %s has %#x after %#x", h.who, h.node, h.known, before.known)
		}
		if h.known > all.known {
			all = *h
		}
		if !h.shared && h.known > alone.known {
			alone = *h
		}
	}
}

// wrongOwner is notified of a node that was created, as it seems, by a session that was over at
// that time.
func (m *monitor) wrongOwner(who, path string, owner, lives int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.forced[owner].last.IsZero() {
		m.failLocked("node of an old session", "%s created %s, of session %#x, in session %#x", who, path, owner, lives)
	}
}

// vanished lists the holders whose nodes were deleted, though not by hand, while their sessions
// live.
func (m *monitor) vanished(lives map[int64]bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, h := range m.strange {
		if lives[h.session] {
			m.failLocked("node vanished", "%s with %s, whose session lives", h.who, h.node)
		}
	}
}

// total adds counts.
func (m *monitor) total(into map[string]int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for kind, n := range maps.All(m.counts) {
		into[kind] += n
	}
}
