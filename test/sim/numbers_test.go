package sim

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/gocurator/curator/recipes/shared"
	"github.com/gocurator/curator/retry"
)

// numbers is values that some share: one that all add to, one that they take numbers from, and one
// that they swap.
type numbers struct {
	*world
	reading sync.WaitGroup
	stop    context.CancelFunc
	readers []*reader

	mu      sync.Mutex // guards what follows
	sure    int64      // that were added
	maybe   int64      // that may have been
	results map[int64]string
	taken   map[int64]string
	swapped map[shared.Version]string // who has swapped from that version
}

func (n *numbers) start(wg *sync.WaitGroup) error {
	n.results, n.taken, n.swapped = make(map[int64]string), make(map[int64]string), make(map[shared.Version]string)
	ctx, stop := context.WithCancel(context.Background())
	n.stop = stop
	for i, a := range n.actors("sharer", 1+int(n.Seed%2)) {
		s := &sharer{actor: a, of: n}
		var opts []shared.Option
		if n.Seed%4 < 2 {
			opts = append(opts, shared.WithMutex("/sim/turns"))
		}
		var errs [3]error
		s.sum, errs[0] = shared.Int64(a.client, "/sim/numbers/sum", opts...)
		s.next, errs[1] = shared.Int64(a.client, "/sim/numbers/next")
		s.text, errs[2] = shared.Bytes(a.client, "/sim/numbers/text")
		if err := errors.Join(errs[:]...); err != nil {
			return err
		}
		wg.Go(s.share)
		if i < 2 {
			r := &reader{sharer: s}
			n.readers = append(n.readers, r)
			n.reading.Go(func() { r.read(ctx) }) // ends with stop
		}
	}
	return nil
}

// sharer is one who writes.
type sharer struct {
	*actor
	of        *numbers
	sum, next *shared.Value[int64]
	text      *shared.Value[[]byte]
	written   int
}

func (s *sharer) share() {
	s.repeat(4*time.Second, 20*time.Second, func(ctx context.Context) {
		var err error
		switch s.random.IntN(4) {
		case 0:
			err = s.reserve(ctx)
		case 1:
			err = s.swap(ctx)
		default:
			err = s.add(ctx)
		}
		if err != nil && !retry.Unknown(err) {
			s.monitor.count("shared value not written: " + reason(err))
		}
	})
	s.once("Update", s.add)
	s.once("Reserve", s.reserve)
}

// add adds one. The sum must have it once.
func (s *sharer) add(ctx context.Context) error {
	result, err := s.sum.Update(ctx, func(x int64) (int64, error) { return x + 1, nil })
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	switch {
	case err == nil:
		s.of.sure++
		s.monitor.count("shared value written")
		s.claim(s.of.results, result, "the sum")
	case retry.Unknown(err):
		s.of.maybe++
		s.monitor.count("shared value may be written")
	}
	return err
}

// claim notes that something was given to this one. Nothing is given twice. of.mu is held.
func (s *sharer) claim(given map[int64]string, number int64, what string) {
	if who, ok := given[number]; ok {
		s.monitor.fail("shared value", "%s got %d of %s, which %s has got", s.name, number, what, who)
	}
	given[number] = s.name
}

// reserve takes some numbers.
func (s *sharer) reserve(ctx context.Context) error {
	n := 1 + s.random.Int64N(3)
	first, err := shared.Reserve(ctx, s.next, n)
	if err != nil {
		return err
	}
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	for i := range n {
		s.claim(s.of.taken, first+i, "the numbers")
	}
	return nil
}

// swap writes if no other client has. Of all that have read the same version, at most one succeeds,
// and none where the error says so.
func (s *sharer) swap(ctx context.Context) error {
	_, version, err := s.text.Get(ctx)
	if err != nil {
		return err
	}
	s.sleep(upTo(s.random, 500*time.Millisecond), s.world.over)
	s.written++
	text := fmt.Sprintf("%s %d", s.name, s.written)
	err = s.text.CompareAndSwap(ctx, version, []byte(text))
	switch {
	case err == nil:
		s.of.mu.Lock()
		defer s.of.mu.Unlock()
		if who, ok := s.of.swapped[version]; ok {
			s.monitor.fail("shared value", "%s and %s have both swapped from one version", s.name, who)
		}
		s.of.swapped[version] = s.name
		s.monitor.count("swaps")
	case !retry.Unknown(err):
		check, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if now, _, readErr := s.text.Get(check); readErr == nil && string(now) == text {
			s.monitor.fail("shared value", "%s has written %q, and the error is %v", s.name, text, err)
		}
	}
	return err
}

// reader follows the sum, which never falls.
type reader struct {
	*sharer
	mu   sync.Mutex // guards last
	last int64
}

func (r *reader) read(ctx context.Context) {
	for x, err := range r.sum.Observe(ctx) {
		if err != nil {
			if ctx.Err() == nil {
				r.monitor.fail("shared value", "Changes of %s ended: %v", r.name, err)
			}
			return
		}
		r.mu.Lock()
		if x < r.last {
			r.monitor.fail("shared value", "Changes of %s went back from %d to %d", r.name, r.last, x)
		}
		r.last = x
		r.mu.Unlock()
	}
}

func (n *numbers) conclude() {
	var now int64
	a := n.actors("reader", 1)[0]
	a.once("Get", func(ctx context.Context) error {
		v, err := shared.Int64(a.client, "/sim/numbers/sum")
		if err == nil {
			now, _, err = v.Get(ctx)
		}
		return err
	})
	n.mu.Lock()
	if now < n.sure || now > n.sure+n.maybe {
		n.monitor.fail("shared value", "the sum is %d after %d confirmed and %d unknown writes", now, n.sure, n.maybe)
	}
	n.mu.Unlock()
	n.eventually("shared value", func() string {
		for _, r := range n.readers {
			r.mu.Lock()
			last := r.last
			r.mu.Unlock()
			if last != now {
				return fmt.Sprintf("Changes of %s have %d, not %d", r.name, last, now)
			}
		}
		return ""
	})
	n.stop()
	n.reading.Wait()
}
