package gssapi

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"
)

// askAgain is the minimum interval of requests to the KDC after it has refused, and while it is
// open whether the server accepts a ticket. A client that cannot connect tries several times a
// second; without the interval it would ask the KDC as often.
const askAgain = 30 * time.Second

// tickets keeps the last ticket for each service. A ticket that the server has accepted is used
// until five sixths of its lifetime have passed. A ticket that the server has not (yet) accepted is
// used for askAgain. Then the KDC is asked for another one. If no KDC answers, the old ticket is
// used for another askAgain while it is valid.
type tickets struct {
	ask func(service, host string) (*ticket, error)

	mu    sync.Mutex
	known map[server]*entry
}

type server struct{ service, host string }

// entry holds the tickets for a service.
type entry struct {
	asking chan struct{} // closed when the request to the KDC has ended; nil: there is none
	ticket *ticket       // nil: none
	err    error         // the error of the last request, if there is no ticket
	old    time.Time     // when five sixths of the ticket's time have passed
	renew  time.Time     // when the KDC is asked again
}

// get returns a ticket. Concurrent callers wait for one request, which continues when their
// contexts are done: the next caller gets its result. The error is an error of ask or of ctx.
func (s *tickets) get(ctx context.Context, service, host string) (*ticket, error) {
	s.mu.Lock()
	e := s.entry(service, host)
	asking := e.asking
	if asking == nil && !time.Now().Before(e.renew) {
		asking = make(chan struct{})
		e.asking = asking
		go s.request(e, service, host) // ends with the request to the KDC: package gokrb5 gives up on its own
	}
	s.mu.Unlock()
	if asking != nil {
		select {
		case <-asking:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	// Until accepted is called, or another ticket arrives.
	if again := time.Now().Add(askAgain); e.ticket != nil && again.Before(e.renew) {
		e.renew = again
	}
	return e.ticket, e.err
}

// accepted records that the server has accepted a ticket.
func (s *tickets) accepted(service, host string, t *ticket) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.entry(service, host); e.ticket == t {
		e.renew = e.old
	}
}

// entry returns the entry of a service. s.mu is held.
func (s *tickets) entry(service, host string) *entry {
	key := server{service, host}
	e := s.known[key]
	if e == nil {
		e = new(entry)
		if s.known == nil {
			s.known = make(map[server]*entry)
		}
		s.known[key] = e
	}
	return e
}

// request asks the KDC for a ticket.
func (s *tickets) request(e *entry, service, host string) {
	t, err := s.ask(service, host)
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	switch {
	case err == nil:
		e.ticket, e.err = t, nil
		e.old = now.Round(0).Add(t.end.Sub(now) * 5 / 6) // without the monotonic clock, which stops while a machine sleeps
		e.renew = e.old
	case errors.Is(err, zk.ErrNoServer) && e.ticket != nil && now.Before(e.ticket.end):
		e.renew = e.ticket.end
	case errors.Is(err, errRefused):
		e.ticket, e.err, e.renew = nil, err, now.Add(askAgain)
	default:
		e.ticket, e.err, e.renew = nil, err, time.Time{}
	}
	close(e.asking)
	e.asking = nil
}
