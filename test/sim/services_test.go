package sim

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/gocurator/curator/discovery"
)

// services is a set of instances of a service that register, change and unregister, and lists of
// them.
type services struct {
	*world
	lists []*list

	mu     sync.Mutex // guards what follows
	want   map[string]*discovery.Registration[int]
	closed map[closing]bool
}

// closing is a registration that is closed, or about to be.
type closing struct {
	path  string
	since time.Time
}

const service = "orders"

func (s *services) start(wg *sync.WaitGroup) error {
	s.want, s.closed = make(map[string]*discovery.Registration[int]), make(map[closing]bool)
	lists := s.actors("list", 1)
	for i, a := range s.actors("instance", 1+int(s.Seed%2)) {
		d, err := discovery.New[int](a.client, "/sim/services")
		if err != nil {
			return err
		}
		wg.Go(func() { s.serve(a, d, i) })
		if i < 2 {
			l := &list{actor: lists[i], services: s, of: d, newest: make(map[string]discovery.Instance[int])}
			s.lists = append(s.lists, l)
			wg.Go(l.follow)
		}
	}
	return nil
}

// serve registers an instance, changes it, and ends.
func (s *services) serve(a *actor, d *discovery.Discovery[int], i int) {
	kind := []discovery.Type{discovery.Dynamic, discovery.Dynamic, discovery.Static, discovery.DynamicSequential}[a.random.IntN(4)]
	version := 0
	next := func() discovery.Instance[int] {
		version++
		return discovery.Instance[int]{Name: service, ID: fmt.Sprintf("i%d-", i), Address: "10.0.0.1", Port: 80, Type: kind, Payload: version}
	}
	a.repeat(3*time.Second, 20*time.Second, func(ctx context.Context) {
		r, err := d.Register(ctx, next())
		if err != nil {
			a.monitor.count("instance not registered: " + reason(err))
			return
		}
		a.monitor.count("instances registered")
		for range a.random.IntN(4) {
			a.sleep(upTo(a.random, 10*time.Second), a.world.over)
			update, cancel := context.WithTimeout(context.Background(), upTo(a.random, 5*time.Second)+time.Millisecond)
			_ = r.Update(update, next()) // it is repeated later
			cancel()
		}
		s.mu.Lock()
		s.closed[closing{r.Path(), r.Instance().RegistrationTime}] = true
		s.mu.Unlock()
		if err := r.Close(); err != nil && !errors.Is(err, context.DeadlineExceeded) { // the client deletes it later
			a.monitor.fail("service", "%s: %v", a.name, err)
		}
	})
	a.once("Register", func(ctx context.Context) error {
		r, err := d.Register(ctx, next())
		if err == nil {
			s.mu.Lock()
			s.want[r.Path()] = r
			s.mu.Unlock()
		}
		return err
	})
}

// list is a Watch of the service.
type list struct {
	*actor
	services *services
	of       *discovery.Discovery[int]
	watch    *discovery.Watch[int]
	newest   map[string]discovery.Instance[int] // by path
}

// follow watches the service. No registration moves back to an earlier version, also not in the
// next Watch of the client. A failed one may be carried out late, after the next; and so may a
// closed one, during an earlier session of the client.
func (l *list) follow() {
	l.repeat(time.Second, 30*time.Second, func(ctx context.Context) {
		w, err := l.of.Watch(ctx, service)
		if err != nil {
			l.monitor.count("service not watched: " + reason(err))
			return
		}
		defer w.Close()
		for all, err := range w.Observe(ctx) {
			if err != nil {
				l.monitor.count("lists of a service ended: " + reason(err))
				return
			}
			l.monitor.count("lists of a service")
			for _, i := range all {
				last := l.newest[i.Path()]
				if i.RegistrationTime.Equal(last.RegistrationTime) && i.Payload < last.Payload && !l.services.isClosed(i) {
					l.monitor.fail("service", "a list of %s moved back from %v to %v", l.name, last, i)
				}
				l.newest[i.Path()] = i
			}
			_, _ = w.Pick(discovery.RoundRobin)
		}
	})
	l.once("Watch", func(ctx context.Context) (err error) {
		l.watch, err = l.of.Watch(ctx, service)
		return err
	})
}

func (s *services) isClosed(i discovery.Instance[int]) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed[closing{i.Path(), i.RegistrationTime}]
}

// versions are what a list has, by path.
func versions(all []discovery.Instance[int]) map[string]int {
	list := make(map[string]int)
	for _, i := range all {
		list[i.Path()] = i.Payload
	}
	return list
}

// conclude requires that lists are right a second after the last change, and empty at the end. The
// nodes of abandoned sessions exist until the servers have expired those.
func (s *services) conclude() {
	time.Sleep(40 * time.Second) // virtual time: longer than any session
	want := make(map[string]int)
	for path, r := range s.want {
		want[path] = r.Instance().Payload
	}
	s.require(want)
	for _, path := range slices.Sorted(maps.Keys(s.want)) {
		if err := s.want[path].Close(); err != nil {
			s.monitor.fail("service", "%s: %v", path, err)
		}
	}
	s.require(map[string]int{})
	for _, l := range s.lists {
		if l.watch != nil {
			_ = l.watch.Close() // is always nil
		}
	}
}

func (s *services) require(want map[string]int) {
	time.Sleep(time.Second + s.Lag + s.Latency + s.MemberLatency) // virtual time
	for _, l := range s.lists {
		if l.watch == nil {
			continue // which was a failure
		}
		if got := versions(l.watch.Instances()); !maps.Equal(got, want) {
			s.monitor.fail("service", "a list of %s has %v, not %v", l.name, got, want)
		}
	}
}
