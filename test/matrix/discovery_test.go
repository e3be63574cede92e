package matrix_test

import (
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/gocurator/curator/discovery"
	"github.com/gocurator/curator/discovery/dubbo"
	"github.com/gocurator/curator/discovery/httpclient"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/test/matrix"
)

type meta = map[string]string

var (
	serviceDirs  = []string{"/orders"}
	serviceAlike = []string{"/orders/other"}
)

var discoveryStories = []matrix.Story{
	{Name: "service", Run: serves(discovery.Dynamic), Dirs: serviceDirs, Lookalikes: serviceAlike, Values: []string{"/orders"}, Join: instance},
	{Name: "static service", Run: serves(discovery.Static), Dirs: serviceDirs, Lookalikes: serviceAlike},
	{Name: "numbered service", Run: serves(discovery.DynamicSequential), Dirs: serviceDirs, Lookalikes: serviceAlike},
	{Name: "service of Spring", Run: springs, Dirs: serviceDirs, Lookalikes: serviceAlike},
	{Name: "permanent service", Run: writes, Dirs: serviceDirs, Lookalikes: serviceAlike},
}

func instance(s *matrix.Scene, client *framework.Client, id string) (func(), error) {
	d, err := discovery.New[meta](client, s.Path)
	if err != nil {
		return nil, err
	}
	r, err := d.Register(s.Peer, discovery.Instance[meta]{Name: "orders", ID: s.Name(id), Address: "10.0.0.9", Port: 90})
	if err != nil {
		return nil, err
	}
	return func() { _ = r.Close() }, nil // the others decide
}

// serves has A register, change, lose its session and drain, while B watches.
func serves(kind discovery.Type) func(s *matrix.Scene) error {
	return func(s *matrix.Scene) error {
		a, b := both(s, func(client *framework.Client) (*discovery.Discovery[meta], error) {
			return discovery.New[meta](client, s.Path)
		})
		w, err := b.Watch(s.Peer, "orders")
		s.RequireOther(err)
		defer w.Close()
		i := discovery.Instance[meta]{Name: "orders", ID: s.Name("a"), Address: "10.0.0.1", Port: 80, Type: kind, Payload: meta{"zone": s.Name("z")}}
		r, err := a.Register(s.Ctx, i)
		s.Require(err)
		defer r.Close()
		has := func(address string) bool {
			return slices.ContainsFunc(w.Instances(), func(i discovery.Instance[meta]) bool { return i.Address == address })
		}
		shows := func(what, address string) {
			err := s.Eventually(s.Peer, what, func() bool { return r.Err() != nil || has(address) })
			s.Require(matrix.First(r.Err(), s.Other(err)))
		}
		shows("the instance", "10.0.0.1")
		s.Middle()
		_, err = b.Lookup(s.Peer, "orders")
		s.RequireOther(err)
		i.Address = "10.0.0.2"
		s.Require(r.Update(s.Ctx, i))
		shows("the changed instance", "10.0.0.2")
		s.Require(s.Expire())
		present(s, r)
		shows("the instance again", "10.0.0.2")
		s.Require(r.Drain(s.Ctx, time.Second))
		return s.Other(s.Eventually(s.Peer, "the end of the instance", func() bool { return !has("10.0.0.2") }))
	}
}

// present waits until a registration has its node or has ended.
func present[T any](s *matrix.Scene, r *discovery.Registration[T]) {
	err := s.Eventually(s.Ctx, "the registration", func() bool { there, _ := r.Present(); return there || r.Err() != nil })
	if err != nil {
		s.Require(errors.Join(err, r.Problem()))
	}
}

func springs(s *matrix.Scene) error {
	a, err := discovery.New[discovery.Metadata](s.A, s.Path)
	s.Require(err)
	r, err := a.Register(s.Ctx, discovery.Spring("orders", "10.0.0.1", 80, nil))
	s.Require(err)
	defer r.Close()
	s.Middle()
	present(s, r)
	b, err := discovery.New[discovery.Metadata](s.B, s.Path)
	s.RequireOther(err)
	s.Require(s.CatchUp())
	list, err := b.Lookup(s.Peer, "orders")
	s.RequireOther(err)
	s.Check(slices.ContainsFunc(list, func(i discovery.Instance[discovery.Metadata]) bool { return i.Address == "10.0.0.1" }) || s.Forced() || r.Err() != nil, "Lookup has %v", list)
	return r.Close()
}

func writes(s *matrix.Scene) error {
	a, err := discovery.New[meta](s.A, s.Path)
	s.Require(err)
	id := s.Name("a")
	defer func() {
		b, err := discovery.New[meta](s.B, s.Path)
		if err == nil {
			_ = b.Unregister(s.Peer, "orders", id) // the first error is returned
		}
	}()
	_, err = a.Write(s.Ctx, discovery.Instance[meta]{Name: "orders", ID: id, Address: "10.0.0.1", Port: 80})
	s.Require(err)
	s.Middle()
	_, found, err := a.Get(s.Ctx, "orders", id)
	s.Require(err)
	s.Check(found || s.Forced(), "the written instance is missing")
	return a.Unregister(s.Ctx, "orders", id)
}

var httpclientStories = []matrix.Story{{Name: "HTTP client", Run: calls, Dirs: serviceDirs, Lookalikes: serviceAlike, Join: instance}}

// servers is a RoundTripper that answers for addresses without a network.
type servers struct{}

func (servers) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		r.Body.Close()
	}
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(r.URL.Host)), Request: r}, nil
}

// calls has B register and A call.
func calls(s *matrix.Scene) error {
	b, err := discovery.New[meta](s.B, s.Path)
	s.RequireOther(err)
	r, err := b.Register(s.Peer, discovery.Instance[meta]{Name: "orders", ID: s.Name("b"), Address: "10.0.0.1", Port: 80})
	s.RequireOther(err)
	defer r.Close()
	a, err := discovery.New[meta](s.A, s.Path)
	s.Require(err)
	w, err := a.Watch(s.Ctx, "orders")
	s.Require(err)
	defer w.Close()
	transport, err := httpclient.New(w, discovery.RoundRobin, httpclient.WithBase(servers{}))
	s.Require(err)
	client := &http.Client{Transport: transport}
	call := func() error {
		request, err := http.NewRequestWithContext(s.Ctx, http.MethodGet, "http://orders/7", nil)
		s.Require(err)
		response, err := client.Do(request)
		s.Require(err)
		return response.Body.Close()
	}
	s.Require(call())
	s.Middle()
	s.RequireOther(s.Eventually(s.Peer, "the registration", func() bool {
		there, _ := r.Present()
		return there || r.Err() != nil
	}))
	if ok, changed := w.Current(); !ok {
		select {
		case <-changed:
		case <-s.Ctx.Done():
		case <-time.After(time.Minute):
		}
	}
	s.Require(call())
	s.Require(s.Expire())
	s.Require(call())
	s.RequireOther(r.Drain(s.Peer, time.Second))
	err = s.Eventually(s.Ctx, "no instance", func() bool { return len(w.Instances()) == 0 || w.Err() != nil })
	if slices.ContainsFunc(w.Instances(), func(i discovery.Instance[meta]) bool { return i.ID == s.Name("b") }) {
		s.Require(err)
	}
	return w.Close()
}

var dubboStories = []matrix.Story{{
	Name: "Dubbo", Run: dubs, Dirs: []string{"/services/orders", "/dubbo/metadata/orders", "/dubbo/orders", "/dubbo/mapping"}, Lookalikes: []string{"/services/orders/other"},
	Values: []string{"/dubbo/mapping/x.Greeter"}, Remains: []string{"/dubbo/mapping/x.Greeter"},
}}

// dubs has A and B register one application.
func dubs(s *matrix.Scene) error {
	app := dubbo.Application{Name: "orders", Host: "10.0.0.1", Port: 1, Services: []dubbo.Service{{Name: "x.Greeter", Methods: []string{"Hello"}}}}
	// The nodes are below the root of the client.
	first, second := both(s, func(client *framework.Client) (*framework.Client, error) {
		return client.Namespace(strings.TrimPrefix(s.Real(""), "/"))
	})
	a, err := dubbo.Register(s.Ctx, first, app)
	s.Require(err)
	closed := false
	defer func() {
		if !closed {
			_ = a.Close() // the first error is returned
		}
	}()
	s.Middle()
	app.Host = "10.0.0.2"
	b, err := dubbo.Register(s.Peer, second, app)
	s.RequireOther(err)
	defer b.Close()
	s.Require(s.Expire())
	if err := s.Eventually(s.Ctx, "the registration", func() bool { return a.Problem() == nil || a.Err() != nil }); err != nil {
		return errors.Join(err, a.Problem())
	}
	if err := a.Err(); err != nil && !errors.Is(err, framework.ErrEnded) {
		return err
	}
	closed = true
	s.Require(a.Close())
	return s.Other(b.Close())
}
