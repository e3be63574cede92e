package sim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/lock"
	"github.com/gocurator/curator/recipes/once"
	"github.com/gocurator/curator/retry"
)

// jobs is a job that several processes run, for keys that they share, some of them by Run. Each
// success adds a line to a tally, by Commit, whatever the tally's version: a transaction that is
// carried out late or twice drops the lines of others.
type jobs struct {
	*world
	monitor *monitor // of the functions
	ledger  ledger
	keep    int
}

const (
	jobPath   = "/sim/job"
	tallyPath = "/sim/tally"
	jobKeys   = 12
)

func (j *jobs) start(wg *sync.WaitGroup) error {
	j.monitor = j.another(1)
	j.keep = []int{1000, 1000, 3}[j.Seed%3]
	j.ledger = newLedger(j.keep)
	for i, a := range j.actors("worker", 2) {
		opts := []once.Option{once.WithKeep(j.keep)}
		switch a.random.IntN(4) {
		case 0:
			opts = append(opts, once.WithMinInterval(time.Duration(1+a.random.IntN(2000))*time.Millisecond))
		case 1:
			opts = append(opts, once.WithLock(lock.WithMaxHold(time.Duration(500+a.random.IntN(3000))*time.Millisecond)))
		}
		job, err := once.New(a.client, jobPath, opts...)
		if err != nil {
			return err
		}
		if i == 1 {
			wg.Go(func() { j.schedule(a, job) })
		} else {
			wg.Go(func() { j.work(a, job) })
		}
	}
	return nil
}

// work runs the job for one key after the other, and forgets some.
func (j *jobs) work(a *actor, job *once.Once) {
	a.repeat(3*time.Second, 20*time.Second, func(ctx context.Context) {
		key := fmt.Sprint("key ", a.random.IntN(jobKeys))
		if a.random.IntN(12) == 0 {
			j.ledger.forgetting(key)
			j.ledger.forgot(key, job.Forget(ctx, key))
			return
		}
		do := either(a.random.IntN(3) > 0, job.Do, job.TryDo)
		var id string
		r, err := do(ctx, key, func(ctx context.Context) error { return j.function(ctx, a, key, &id) })
		j.tell(a, key, id, r, err)
	})
	a.once("Do", func(ctx context.Context) error {
		key, id := "last of "+a.name, ""
		for {
			r, err := job.Do(ctx, key, func(ctx context.Context) error { return j.function(ctx, a, key, &id) })
			j.tell(a, key, id, r, err)
			if err == nil || ctx.Err() != nil {
				return err
			}
			a.sleep(time.Second, nil) // the function fails at times, and may be too soon
		}
	})
}

// schedule runs the job at each firing, in several calls of Run.
func (j *jobs) schedule(a *actor, job *once.Once) {
	a.repeat(time.Second, time.Minute, func(ctx context.Context) {
		err := job.Run(ctx, once.Every(5*time.Second), func(ctx context.Context, firing time.Time) error {
			var id string
			if firing.After(time.Now()) {
				j.monitor.fail("early", "firing %v", firing)
			}
			return j.function(ctx, a, firing.Format(time.RFC3339Nano), &id)
		})
		if ctx.Err() == nil {
			a.monitor.count("Run ended: " + reason(err))
		}
	})
}

// function is the function of the job. It writes its id: the name of the lock's node.
func (j *jobs) function(ctx context.Context, a *actor, key string, id *string) (err error) {
	hold, err := once.Hold(ctx)
	if err != nil {
		j.monitor.fail("jobs", "%v", err)
		return err
	}
	_, *id = framework.Split(hold.Path())
	h := a.hold(ctx, int(a.owners.Add(1)), hold.Session(), hold.Path())
	j.monitor.enter(h)
	defer j.monitor.leave(h)
	a.monitor.count("functions of jobs")
	if j.ledger.begin(key, *id) && ctx.Err() == nil && !j.monitor.isExcused(h) {
		j.monitor.fail("second run", "%s runs %q, which is recorded", a.name, key)
	}
	data, _, err := a.client.Get(ctx, tallyPath)
	var op any = &zk.SetDataRequest{Path: tallyPath, Data: fmt.Appendf(data, "%s %s\n", *id, key), Version: -1}
	if errors.Is(err, zk.ErrNoNode) {
		op, err = &zk.CreateRequest{Path: tallyPath, Data: fmt.Appendf(nil, "%s %s\n", *id, key)}, nil
	}
	if err == nil {
		err = once.Commit(ctx, op)
	}
	if err != nil {
		return err
	}
	if a.calm.Load() { // within the shortest hold
		j.ledger.succeeded(*id, ctx.Err() == nil)
		return nil
	}
	a.sleep(upTo(a.random, 2*time.Second), ctx.Done())
	switch a.random.IntN(8) {
	case 0:
		return errEnough
	case 1:
		a.sleep(upTo(a.random, 3*time.Second), nil) // slow to end
	}
	j.ledger.succeeded(*id, ctx.Err() == nil)
	return nil
}

// tell tells the ledger what a call has returned.
func (j *jobs) tell(a *actor, key, id string, r once.Record, err error) {
	switch {
	case err == nil && r.Ran:
		a.monitor.count("jobs run and recorded")
		j.ledger.recorded(key, id)
	case err == nil:
		a.monitor.count("jobs done before")
	case retry.Unknown(err):
		a.monitor.count("jobs of unknown outcome")
	default:
		text := ""
		for _, known := range []error{once.ErrTooSoon, once.ErrRunning, errEnough} {
			if errors.Is(err, known) {
				text = known.Error()
			}
		}
		a.monitor.count("jobs not done: " + cmp.Or(text, reason(err)))
		j.ledger.notRecorded(id)
	}
}

// conclude compares the record with the tally and with what the calls have returned.
func (j *jobs) conclude() {
	record, err := j.leader().Get(jobPath + "/once")
	if err != nil {
		j.monitor.fail("jobs", "no record: %v", err)
		return
	}
	tally, err := j.leader().Get(tallyPath)
	if err != nil {
		j.monitor.fail("jobs", "no tally: %v", err)
		return
	}
	for _, wrong := range j.ledger.check(string(record), string(tally)) {
		j.monitor.fail("jobs", "%s", wrong)
	}
}

// ledger is the oracle of jobs: what their functions and calls have said.
type ledger struct {
	keep int

	mu        sync.Mutex // guards what follows
	keys      map[string]string
	judged    map[string]bool // ids during whose calls no Forget of their key has run
	done      map[string]bool // keys that were recorded for certain, and not forgotten since
	forgets   map[string]int  // calls of Forget that run, or may be carried out later
	forgotten map[string]bool // keys that were forgotten at any time
	success   map[string]bool // ids whose function has returned nil in time
	sure      map[string]bool // ids that are recorded for certain, or for certain not
}

func newLedger(keep int) ledger {
	return ledger{
		keep: keep, keys: make(map[string]string), judged: make(map[string]bool), done: make(map[string]bool), forgets: make(map[string]int),
		forgotten: make(map[string]bool), success: make(map[string]bool), sure: make(map[string]bool),
	}
}

// begin notes that a function begins, and reports whether its key was recorded before.
func (l *ledger) begin(key, id string) (wrong bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.keys[id], l.judged[id] = key, l.forgets[key] == 0
	return l.done[key]
}

// succeeded notes that a function returns nil, and whether its context is live.
func (l *ledger) succeeded(id string, live bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.success[id] = live
}

// recorded notes that a call says that its success is recorded.
func (l *ledger) recorded(key, id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sure[id] = true
	l.done[key] = l.judged[id] && l.keep == 1000
}

// notRecorded notes that a call says that nothing is recorded.
func (l *ledger) notRecorded(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if id != "" {
		l.sure[id] = false
	}
}

// forgetting notes that a key is about to be forgotten.
func (l *ledger) forgetting(key string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.forgets[key]++
	l.done[key], l.forgotten[key] = false, true
	for id, of := range l.keys {
		if of == key {
			l.judged[id] = false
		}
	}
}

// forgot notes that Forget has returned. After an error it may be carried out later.
func (l *ledger) forgot(key string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil {
		l.forgets[key]--
	}
}

// check compares the data of the record node with the tally: in both are the successes that were
// recorded, and no others.
func (l *ledger) check(record, tally string) (wrong []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	fail := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	ids, keys := make(map[string]int), make(map[string]int)
	lines := strings.Split(strings.TrimSuffix(tally, "\n"), "\n")
	for _, line := range lines {
		id, key, _ := strings.Cut(line, " ")
		ids[id]++
		keys[key]++
		switch live, returned := l.success[id]; {
		case !returned || !live:
			fail("%s is in the tally, and its function has not succeeded", id)
		case ids[id] > 1:
			fail("%s is in the tally twice", id)
		case keys[key] > 1 && !l.forgotten[key] && l.keep == 1000:
			fail("%q was recorded twice", key)
		}
	}
	if n := fmt.Sprintf(`{"n":%d,`, len(lines)); !strings.HasPrefix(record, n) {
		fail("the tally has %d lines, and the record is %.40s", len(lines), record)
	}
	for _, part := range strings.Split(record, `"id":"`)[1:] {
		id, _, _ := strings.Cut(part, `"`)
		if ids[id] != 1 {
			fail("%s is recorded, and not in the tally", id)
		}
	}
	for id, recorded := range l.sure {
		if recorded != (ids[id] == 1) {
			fail("%s, %q: the call says that it is recorded: %v", id, l.keys[id], recorded)
		}
	}
	slices.Sort(wrong)
	return wrong
}

// isExcused is excused, for a caller that has not locked the monitor.
func (m *monitor) isExcused(h *held) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.excused(h)
}

// TestJobWorlds runs worlds of which each has a job.
func TestJobWorlds(t *testing.T) {
	if *oneSeed == 0 && *extraOnly == "" && *only == "" {
		runWorlds(t, func(seed uint64) scenario { return drawWith(seed, *recipe, "jobs") })
	}
}

func TestTheLedgerFindsWhatIsWrong(t *testing.T) {
	const one, two = `{"n":1,"done":[{"key":"a","by":"x","id":"i1"}]}`, `{"n":2,"done":[{"key":"a","by":"x","id":"i1"},{"key":"a","by":"x","id":"i2"}]}`
	good := func() *ledger {
		l := newLedger(1000)
		require.False(t, l.begin("a", "i1"), "nothing is recorded yet")
		l.succeeded("i1", true)
		l.recorded("a", "i1")
		return &l
	}
	require.Empty(t, good().check(one, "i1 a\n"))
	require.True(t, good().begin("a", "i2"), "a second run is not noticed")
	l := good()
	l.forgetting("a")
	l.forgot("a", nil)
	require.False(t, l.begin("a", "i2"), "the key was forgotten")
	l.succeeded("i2", true)
	l.recorded("a", "i2")
	require.Empty(t, l.check(two, "i1 a\ni2 a\n"))
	for name, c := range map[string]struct {
		change        func(l *ledger)
		record, tally string
	}{
		"an operation that was carried out twice": {nil, one, "i1 a\ni1 a\n"},
		"an operation that was not carried out":   {nil, one, "\n"},
		"an operation without a record":           {nil, `{"n":0,"done":[]}`, "i1 a\n"},
		"a record without an operation":           {nil, two, "i1 a\n"},
		"a record of a function that failed":      {func(l *ledger) { l.begin("b", "i2") }, two, "i1 a\ni2 b\n"},
		"a record of a function that was late":    {func(l *ledger) { l.begin("b", "i2"); l.succeeded("i2", false) }, two, "i1 a\ni2 b\n"},
		"a key that was recorded twice":           {func(l *ledger) { l.begin("a", "i2"); l.succeeded("i2", true) }, two, "i1 a\ni2 a\n"},
		"a success that is not recorded":          {func(l *ledger) { l.begin("b", "i2"); l.succeeded("i2", true); l.recorded("b", "i2") }, one, "i1 a\n"},
		"a record that is denied":                 {func(l *ledger) { l.begin("b", "i2"); l.succeeded("i2", true); l.notRecorded("i2") }, two, "i1 a\ni2 b\n"},
	} {
		l := good()
		if c.change != nil {
			c.change(l)
		}
		assert.NotEmpty(t, l.check(c.record, c.tally), name)
	}
}
