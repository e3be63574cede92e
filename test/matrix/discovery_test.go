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
		a, err := discovery.New[meta](s.A, s.Path)
		if err != nil {
			return err
		}
		b, err := discovery.New[meta](s.B, s.Path)
		if err != nil {
			return s.Other(err)
		}
		w, err := b.Watch(s.Peer, "orders")
		if err != nil {
			return s.Other(err)
		}
		defer w.Close()
		var r *discovery.Registration[meta]
		at := func(address string) func() bool {
			return func() bool {
				return r != nil && r.Err() != nil || slices.ContainsFunc(w.Instances(), func(i discovery.Instance[meta]) bool { return i.Address == address })
			}
		}
		i := discovery.Instance[meta]{Name: "orders", ID: s.Name("a"), Address: "10.0.0.1", Port: 80, Type: kind, Payload: meta{"zone": s.Name("z")}}
		if r, err = a.Register(s.Ctx, i); err != nil {
			return err
		}
		defer r.Close()
		if err := s.Eventually(s.Peer, "the instance", at("10.0.0.1")); err != nil {
			return matrix.First(r.Err(), s.Other(err))
		}
		if err := r.Err(); err != nil {
			return err
		}
		s.Middle()
		if _, err := b.Lookup(s.Peer, "orders"); err != nil {
			return s.Other(err)
		}
		i.Address = "10.0.0.2"
		if err := r.Update(s.Ctx, i); err != nil {
			return err
		}
		if err := s.Eventually(s.Peer, "the changed instance", at("10.0.0.2")); err != nil {
			return matrix.First(r.Err(), s.Other(err))
		}
		if err := r.Err(); err != nil {
			return err
		}
		if err := s.Expire(); err != nil {
			return err
		}
		if err := s.Eventually(s.Ctx, "the registration", func() bool { there, _ := r.Present(); return there || r.Err() != nil }); err != nil {
			return errors.Join(err, r.Problem())
		}
		if err := s.Eventually(s.Peer, "the instance again", at("10.0.0.2")); err != nil {
			return matrix.First(r.Err(), s.Other(err))
		}
		if err := r.Err(); err != nil {
			return err
		}
		if err := r.Drain(s.Ctx, time.Second); err != nil {
			return err
		}
		if err := s.Eventually(s.Peer, "the end of the instance", func() bool {
			return !slices.ContainsFunc(w.Instances(), func(i discovery.Instance[meta]) bool { return i.Address == "10.0.0.2" })
		}); err != nil {
			return s.Other(err)
		}
		return nil
	}
}

func springs(s *matrix.Scene) error {
	a, err := discovery.New[discovery.Metadata](s.A, s.Path)
	if err != nil {
		return err
	}
	r, err := a.Register(s.Ctx, discovery.Spring("orders", "10.0.0.1", 80, nil))
	if err != nil {
		return err
	}
	defer r.Close()
	s.Middle()
	if err := s.Eventually(s.Ctx, "the registration", func() bool { there, _ := r.Present(); return there || r.Err() != nil }); err != nil {
		return errors.Join(err, r.Problem())
	}
	b, err := discovery.New[discovery.Metadata](s.B, s.Path)
	if err != nil {
		return s.Other(err)
	}
	if err := s.CatchUp(); err != nil {
		return err
	}
	list, err := b.Lookup(s.Peer, "orders")
	if err != nil {
		return s.Other(err)
	}
	s.Check(slices.ContainsFunc(list, func(i discovery.Instance[discovery.Metadata]) bool { return i.Address == "10.0.0.1" }) || s.Forced() || r.Err() != nil, "Lookup has %v", list)
	return r.Close()
}

func writes(s *matrix.Scene) error {
	a, err := discovery.New[meta](s.A, s.Path)
	if err != nil {
		return err
	}
	id := s.Name("a")
	defer func() {
		b, err := discovery.New[meta](s.B, s.Path)
		if err == nil {
			_ = b.Unregister(s.Peer, "orders", id) // the first error is returned
		}
	}()
	if _, err := a.Write(s.Ctx, discovery.Instance[meta]{Name: "orders", ID: id, Address: "10.0.0.1", Port: 80}); err != nil {
		return err
	}
	s.Middle()
	_, found, err := a.Get(s.Ctx, "orders", id)
	if err != nil {
		return err
	}
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
	if err != nil {
		return s.Other(err)
	}
	r, err := b.Register(s.Peer, discovery.Instance[meta]{Name: "orders", ID: s.Name("b"), Address: "10.0.0.1", Port: 80})
	if err != nil {
		return s.Other(err)
	}
	defer r.Close()
	a, err := discovery.New[meta](s.A, s.Path)
	if err != nil {
		return err
	}
	w, err := a.Watch(s.Ctx, "orders")
	if err != nil {
		return err
	}
	defer w.Close()
	transport, err := httpclient.New(w, discovery.RoundRobin, httpclient.WithBase(servers{}))
	if err != nil {
		return err
	}
	client := &http.Client{Transport: transport}
	call := func() error {
		request, err := http.NewRequestWithContext(s.Ctx, http.MethodGet, "http://orders/7", nil)
		if err != nil {
			return err
		}
		response, err := client.Do(request)
		if err != nil {
			return err
		}
		return response.Body.Close()
	}
	if err := call(); err != nil {
		return err
	}
	s.Middle()
	if err := s.Eventually(s.Peer, "the registration", func() bool { there, _ := r.Present(); return there || r.Err() != nil }); err != nil {
		return s.Other(err)
	}
	if ok, changed := w.Current(); !ok {
		select {
		case <-changed:
		case <-s.Ctx.Done():
		case <-time.After(time.Minute):
		}
	}
	if err := call(); err != nil {
		return err
	}
	if err := s.Expire(); err != nil {
		return err
	}
	if err := call(); err != nil {
		return err
	}
	if err := r.Drain(s.Peer, time.Second); err != nil {
		return s.Other(err)
	}
	if err := s.Eventually(s.Ctx, "no instance", func() bool { return len(w.Instances()) == 0 || w.Err() != nil }); err != nil && len(w.Instances()) > 0 {
		for _, i := range w.Instances() {
			if i.ID == s.Name("b") {
				return err
			}
		}
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
	first, err := s.A.Namespace(strings.TrimPrefix(s.Real(""), "/"))
	if err != nil {
		return err
	}
	second, err := s.B.Namespace(strings.TrimPrefix(s.Real(""), "/"))
	if err != nil {
		return s.Other(err)
	}
	a, err := dubbo.Register(s.Ctx, first, app)
	if err != nil {
		return err
	}
	closed := false
	defer func() {
		if !closed {
			_ = a.Close() // the first error is returned
		}
	}()
	s.Middle()
	app.Host = "10.0.0.2"
	b, err := dubbo.Register(s.Peer, second, app)
	if err != nil {
		return s.Other(err)
	}
	defer b.Close()
	if err := s.Expire(); err != nil {
		return err
	}
	if err := s.Eventually(s.Ctx, "the registration", func() bool { return a.Problem() == nil || a.Err() != nil }); err != nil {
		return errors.Join(err, a.Problem())
	}
	if err := a.Err(); err != nil && !errors.Is(err, framework.ErrEnded) {
		return err
	}
	closed = true
	if err := a.Close(); err != nil {
		return err
	}
	return s.Other(b.Close())
}
