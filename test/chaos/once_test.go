//go:build linux

package chaos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"

	"github.com/gocurator/curator/connstate"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/lock"
	"github.com/gocurator/curator/recipes/once"
	"github.com/gocurator/curator/retry"
)

func TestOnce(t *testing.T) { run(t, "once") }

const (
	successes = "/chaos/successes" // has a child for each transaction that records a success
	tally     = "/chaos/tally"     // its version counts these transactions
	keep      = 1000
)

// firing is a call of a job's function, as its caller recorded it.
type firing struct {
	Key    string
	Number string        // of the lock's node, which tells the calls for a key apart
	Result outcome       // empty: the function has not returned nil
	At     time.Duration // the result was known
}

// name is the name of the firing's child of successes, without the number of the child.
func (f firing) name() string { return f.Key + "." + f.Number }

// newFirings runs a job for the keys 0, 1, 2 and so on, as all contenders do at the same time.
func newFirings(client *framework.Client, policy connstate.ErrorPolicy) (acquirer, error) {
	job, err := once.New(client, lockPath, once.WithKeep(keep), once.WithLock(lock.WithErrorPolicy(policy)))
	next := -1 // not known
	return func(ctx context.Context, random *rand.Rand) (held, bool, error) {
		if next < 0 {
			all, err := job.Records(ctx)
			if err != nil {
				return nil, false, err
			}
			next = 0
			if len(all) > 0 {
				next, _ = strconv.Atoi(all[0].Key)
			}
		}
		for ; ; next++ { // until a key is not done
			key, fails := strconv.Itoa(next), random.IntN(10) == 0
			var h held
			err := error(once.ErrRunning)
			if random.IntN(8) == 0 {
				h, err = fire(ctx, job.TryDo, key, fails)
			}
			if errors.Is(err, once.ErrRunning) {
				h, err = fire(ctx, job.Do, key, fails)
			}
			if h != nil || err != nil {
				return h, false, err
			}
		}
	}, err
}

// running is a call of a job's function.
type running struct {
	heldLock
	firing firing
	fails  bool
	over   chan struct{} // closed when the function is to return
	ended  chan error    // the result of Do
}

var errFails = errors.New("the function fails")

// fire returns in the middle of a Do, whose function returns with the release, or nil if the key is
// done. ctx is for the waiting.
func fire(ctx context.Context, do func(context.Context, string, func(context.Context) error) (once.Record, error), key string, fails bool) (held, error) {
	working, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })
	begun := make(chan *running, 1)
	r := &running{fails: fails, over: make(chan struct{}), ended: make(chan error, 1)}
	go func() { // ends with the context or the release
		defer cancel(nil)
		_, err := do(working, key, func(ctx context.Context) error {
			stop()
			hold, err := once.Hold(ctx)
			if err != nil {
				return err
			}
			path := hold.Path()
			r.heldLock, r.firing = heldLock{hold}, firing{Key: key, Number: path[len(path)-10:]}
			if err := once.Commit(ctx,
				&zk.CreateRequest{Path: framework.Join(successes, r.firing.name()) + "-", Flags: zk.FlagSequence},
				&zk.SetDataRequest{Path: tally, Data: []byte{}, Version: -1}); err != nil {
				return err
			}
			begun <- r
			<-r.over
			if r.fails {
				return errFails
			}
			return nil
		})
		r.ended <- err
	}()
	select {
	case h := <-begun:
		return h, nil
	case err := <-r.ended:
		return nil, err
	}
}

// returns is the firing before its function returns: who is killed from then on may have recorded
// it.
func (r *running) returns() firing {
	if !r.fails {
		r.firing.Result = sent
	}
	return r.firing
}

func (r *running) Release() error {
	close(r.over)
	err := <-r.ended
	switch {
	case r.fails:
	case err == nil:
		r.firing.Result = done
	case retry.Unknown(err):
		r.firing.Result = unknown
	default:
		r.firing.Result = refused
	}
	r.firing.At = now()
	return err
}

// recorded is what the servers have of a job.
type recorded struct {
	N    int // all successes, by the record node
	Done []struct{ Key, ID string }

	children     []string // of successes
	transactions int
}

// read reads what the servers have.
func (r *recorded) read(ctx context.Context, client *framework.Client) error {
	data, _, err := client.Get(ctx, framework.Join(lockPath, "once"))
	if err == nil {
		err = json.Unmarshal(data, r)
	}
	if err == nil {
		r.children, _, err = client.Children(ctx, successes)
	}
	if err != nil {
		return err
	}
	_, stat, err := client.Exists(ctx, tally)
	if err == nil {
		r.transactions = int(stat.Version)
	}
	return err
}

// firings is the checker of a job: it returns what must not be. claims are of holds: see
// exceptions.claims.
func firings(r recorded, holds, claims []hold) (wrong []error) {
	fail := func(format string, args ...any) { wrong = append(wrong, fmt.Errorf(format, args...)) }
	if r.N != len(r.children) || r.N != r.transactions || len(r.Done) != min(r.N, keep) {
		fail("%d successes and %d of them recorded, but %d operations and %d transactions", r.N, len(r.Done), len(r.children), r.transactions)
	}
	results := make(map[string]firing) // by name
	known := make(map[string]time.Duration)
	for _, h := range holds {
		results[h.Firing.name()] = h.Firing
		if h.Firing.Result == done {
			known[h.Firing.Key] = h.Firing.At
		}
	}
	byKey, committed := make(map[string]string), make(map[string]bool)
	for _, child := range r.children {
		name, _, _ := strings.Cut(child, "-")
		key, _, _ := strings.Cut(name, ".")
		if byKey[key] != "" {
			fail("key %s has succeeded twice: %s and %s", key, byKey[key], name)
		}
		byKey[key], committed[name] = name, true
		switch f, ran := results[name]; {
		case !ran || f.Result == "":
			fail("%s is recorded, but its function has not succeeded", name)
		case f.Result == refused:
			fail("%s is recorded, but its caller was told that it is not", name)
		}
	}
	for _, d := range r.Done {
		if name := (firing{Key: d.Key, Number: d.ID[max(len(d.ID)-10, 0):]}).name(); !committed[name] {
			fail("%s is recorded, but its operations were not carried out", name)
		}
	}
	for name, f := range results {
		if f.Result == done && !committed[name] {
			fail("%s is not recorded, but its caller was told that it is", name)
		}
	}
	for _, h := range claims {
		if at := known[h.Firing.Key]; at > 0 && h.From > at {
			fail("%s runs after its key was recorded: %+v", h.Firing.name(), h)
		}
	}
	return wrong
}

func TestTheCheckerOfFirings(t *testing.T) {
	call := func(key, number string, result outcome, from time.Duration) hold {
		return hold{From: from, To: from + ms, Firing: firing{Key: key, Number: number, Result: result, At: from + 2*ms}}
	}
	type entry = struct{ Key, ID string }
	good := func() (recorded, []hold) {
		return recorded{
			N: 3, transactions: 3,
			Done:     []entry{{"0", "_c_x-lock-0000000001"}, {"1", "_c_x-lock-0000000003"}, {"2", "_c_x-lock-0000000004"}},
			children: []string{"0.0000000001-0000000000", "1.0000000003-0000000001", "2.0000000004-0000000002"},
		}, []hold{call("0", "0000000001", done, 0), call("1", "0000000002", refused, 10*ms), call("1", "0000000003", unknown, 20*ms), call("2", "0000000004", sent, 30*ms)}
	}
	for name, change := range map[string]func(r *recorded, holds *[]hold){
		"nothing":                          nil,
		"an operation that is missing":     func(r *recorded, _ *[]hold) { r.children = r.children[1:] },
		"a transaction that is repeated":   func(r *recorded, _ *[]hold) { r.transactions++ },
		"a record that is lost":            func(r *recorded, _ *[]hold) { r.Done = r.Done[1:] },
		"a key that succeeds twice":        func(_ *recorded, holds *[]hold) { *holds = append(*holds, call("0", "0000000005", done, 9*ms)) },
		"a function that has failed":       func(_ *recorded, holds *[]hold) { (*holds)[0].Firing.Result = "" },
		"a function that has not run":      func(_ *recorded, holds *[]hold) { *holds = (*holds)[1:] },
		"a record that is denied":          func(_ *recorded, holds *[]hold) { (*holds)[0].Firing.Result = refused },
		"a success that is not recorded":   func(_ *recorded, holds *[]hold) { (*holds)[1].Firing.Result = done },
		"a run of a key that was recorded": func(_ *recorded, holds *[]hold) { *holds = append(*holds, call("0", "0000000005", refused, 3*ms)) },
	} {
		r, holds := good()
		if change != nil {
			change(&r, &holds)
		}
		assert.Equal(t, change == nil, len(firings(r, holds, holds)) == 0, name)
	}
	r, holds := good()
	r.N, r.transactions = 4, 4
	r.children = append(r.children, "0.0000000005-0000000003")
	r.Done = append(r.Done, entry{"0", "_c_x-lock-0000000005"})
	holds = append(holds, call("0", "0000000005", unknown, ms))
	assert.Len(t, firings(r, holds, holds), 1, "a key that succeeds twice")
}
