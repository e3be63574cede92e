package cache

import (
	"slices"
	"time"

	"github.com/gocurator/curator/framework"
)

// task is what is to be done about one path. There is one for a path at most, and so one request at a time.
type task struct {
	path    string
	state   taskState
	wanted  ask       // what to ask for next
	asked   ask       // what is being asked for
	useless bool      // the node was deleted after the request was sent
	expects *value    // what the node was when an event said that it has changed
	reads   int       // that were begun
	doubted int       // as many of them may have been answered before the node was deleted
	level   int       // of the pauses between reads: how much faster it changes than it can be read
	ended   time.Time // when it was last read, in the state idle
	czxid   int64     // of the node as it was found when it had to wait for its parent
	failed  int       // times in a row that it could not be read
	now     []*wait   // done when the present read is
	early   int       // as many of now, the first ones, have waited since before the request was sent
	next    []*wait   // done when the one after it is
	timer   *time.Timer
}

type taskState int

const (
	ready   taskState = iota
	reading           // a request is under way
	paused            // until the timer fires
	blocked           // until the parent has been read
	refused           // until the timer fires; the node must not be read, and only a Sync waits for it
	idle              // nothing is to be read; until the timer fires the level is remembered
)

// ask says what is to be read.
type ask struct {
	node bool // its data and stat
	list bool // the names of its children
	deep bool // and all children, which the tree has or the server
}

func (a ask) and(b ask) ask { return ask{a.node || b.node, a.list || b.list, a.deep || b.deep} }

// wait is a load or a Sync: what has to be read until it is done.
type wait struct {
	left int
	done func()
}

func (w *wait) release() {
	if w.left--; w.left == 0 {
		w.done()
	}
}

// want has a path read. waits are done no earlier than that.
func (l *loop) want(path string, a ask, waits []*wait) *task {
	t := l.tasks[path]
	if t == nil {
		t = &task{path: path}
		l.tasks[path] = t
		l.ready = append(l.ready, t)
	}
	t.wanted = t.wanted.and(a)
	switch t.state {
	case refused:
		l.wake(t)
	case idle:
		l.resume(t)
	}
	l.attach(t, waits)
	return t
}

// busy reports whether t is being read, or will be soon.
func (t *task) busy() bool { return t != nil && t.state != refused && t.state != idle }

// waits are all that wait for t.
func (t *task) waits() []*wait {
	if t == nil {
		return nil
	}
	return slices.Concat(t.now, t.next)
}

// attach makes waits wait for t. What is being read now will do, unless the path was wanted again since it was sent.
func (l *loop) attach(t *task, waits []*wait) {
	if len(waits) == 0 {
		return
	}
	for _, w := range waits {
		w.left++
	}
	if t.state == reading && t.wanted != (ask{}) {
		t.next = append(t.next, waits...)
		return
	}
	t.now = append(t.now, waits...)
	if t.state == paused {
		l.wake(t)
	}
}

// wake ends a pause.
func (l *loop) wake(t *task) {
	t.timer.Stop()
	t.state = ready
	l.ready = append(l.ready, t)
}

// pause makes a task ready again later.
func (l *loop) pause(t *task, state taskState, d time.Duration) {
	t.state = state
	if t.timer != nil {
		t.timer.Stop()
	}
	t.timer = time.AfterFunc(d, func() {
		l.c.inbox.post(message{l.e, func(l *loop) {
			switch {
			case l.tasks[t.path] != t || t.state != state:
			case state == idle:
				delete(l.tasks, t.path)
			default:
				l.wake(t)
			}
		}})
	})
}

func (l *loop) stopTimers() {
	for _, t := range l.tasks {
		if t.timer != nil {
			t.timer.Stop()
		}
	}
}

// blockedTask waits for a read of its parent that begins after the first so many.
type blockedTask struct {
	*task
	after int
}

// block has a task wait until the parent has been read, and then read its node again.
func (l *loop) block(t *task, a ask) {
	t.keep(a)
	t.state = blocked
	dir, _ := framework.Split(t.path)
	parent := l.want(dir, ask{node: true}, nil)
	l.blocked[dir] = append(l.blocked[dir], blockedTask{t, parent.reads})
}

// unblock has those read again that have waited for the read of t that has ended.
func (l *loop) unblock(t *task) {
	var rest []blockedTask
	for _, b := range l.blocked[t.path] {
		if t.reads <= b.after {
			rest = append(rest, b)
			continue
		}
		b.state = ready
		l.ready = append(l.ready, b.task)
	}
	if rest == nil {
		delete(l.blocked, t.path)
	} else {
		l.blocked[t.path] = rest
	}
}

// more has the path read again after the read that has just ended. Those who wait for that one wait for both.
func (t *task) more(a ask) {
	t.wanted = t.wanted.and(a)
	for _, w := range t.now {
		w.left++
	}
	t.next = append(t.next, t.now...)
}

// keep has the next read do what the last one did not.
func (t *task) keep(a ask) {
	t.wanted = t.wanted.and(a)
	t.now, t.next = append(t.now, t.next...), nil
}

// again has a task read again: at once the first time, and after longer and longer pauses while the node changes
// faster than it can be read. Whoever waits for it does not wait for that.
func (l *loop) again(t *task) {
	t.level++
	if t.level < firstDelayed || len(t.now) > 0 {
		l.ready = append(l.ready, t)
		return
	}
	l.pause(t, paused, t.readDelay())
}

// endTask ends a task for which there is nothing more to read.
func (l *loop) endTask(t *task) {
	l.watch(t.path)
	remember := maxReadDelay
	if !l.oneShot {
		t.level--
	}
	if t.level < firstDelayed {
		if !l.oneShot || !l.loaded {
			delete(l.tasks, t.path)
			return
		}
		remember = soon
	}
	t.ended = time.Now()
	l.pause(t, idle, remember)
}

// resume begins the next read of an idle task. With a persistent watch the level follows from changes during a
// read. A standard watch tells of the first change only, so there it follows from how soon after the read that came.
func (l *loop) resume(t *task) {
	t.timer.Stop()
	switch {
	case !l.oneShot:
	case time.Since(t.ended) < soon:
		t.level++
	default:
		t.level = max(t.level-1, 0)
	}
	if t.level < firstDelayed {
		l.wake(t)
		return
	}
	l.pause(t, paused, t.readDelay())
}

// Reads of a node are delayed from the level firstDelayed on. The delay doubles with each level.
const (
	firstDelayed = 2
	minReadDelay = time.Millisecond
	maxReadDelay = 50 * time.Millisecond
	soon         = minReadDelay / 2
)

func (t *task) readDelay() time.Duration {
	return backedOff(minReadDelay, maxReadDelay, t.level-firstDelayed+1)
}

// backedOff is the nth of pauses that double.
func backedOff(shortest, longest time.Duration, n int) time.Duration {
	return min(shortest<<min(n-1, 20), longest)
}
