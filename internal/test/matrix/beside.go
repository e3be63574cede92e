package matrix

import (
	"context"

	"github.com/gocurator/curator/discovery"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/cache"
	"github.com/gocurator/curator/recipes/leader"
	"github.com/gocurator/curator/recipes/lock"
	"github.com/gocurator/curator/recipes/mutex"
	"github.com/gocurator/curator/recipes/node"
	"github.com/gocurator/curator/recipes/rwlock"
	"github.com/gocurator/curator/recipes/semaphore"
	"github.com/gocurator/curator/recipes/shared"
)

// others are recipes that another client uses at the path of the story. They end with stop.
var others = map[string]func(ctx context.Context, client *framework.Client, path string) (stop func(), err error){
	"a mutex": held(func(client *framework.Client, path string) (lock.Locker, error) { return mutex.New(client, path) }),
	"a write lock": held(func(client *framework.Client, path string) (lock.Locker, error) {
		l, err := rwlock.New(client, path)
		if err != nil {
			return nil, err
		}
		return l.Write(), nil
	}),
	"a semaphore": held(func(client *framework.Client, path string) (lock.Locker, error) {
		return semaphore.New(client, path, 1)
	}),
	"an election": func(ctx context.Context, client *framework.Client, path string) (func(), error) {
		e, err := leader.New(client, path, leader.WithID("other"))
		if err != nil {
			return nil, err
		}
		term, err := e.Campaign(ctx)
		if err != nil {
			return nil, err
		}
		return func() { _ = term.Release() }, nil // the condition may have deleted it
	},
	"a group": func(ctx context.Context, client *framework.Client, path string) (func(), error) {
		m, err := node.Join(ctx, client, path, "other", []byte("x"))
		if err != nil {
			return nil, err
		}
		return func() { _ = m.Close() }, nil // as above
	},
	"a shared number": func(ctx context.Context, client *framework.Client, path string) (func(), error) {
		v, err := shared.Int64(client, path+"/number")
		if err != nil {
			return nil, err
		}
		return func() { _ = client.Delete(context.Background(), path+"/number", framework.IfExists()) }, v.Set(ctx, 7)
	},
	"a cache": func(ctx context.Context, client *framework.Client, path string) (func(), error) {
		c, err := cache.New(client, path)
		if err != nil {
			return nil, err
		}
		return func() { c.Close() }, nil
	},
	"a service": func(ctx context.Context, client *framework.Client, path string) (func(), error) {
		d, err := discovery.New[string](client, path)
		if err != nil {
			return nil, err
		}
		r, err := d.Register(ctx, discovery.Instance[string]{Name: "stock", ID: "other", Address: "10.0.0.8", Port: 88})
		if err != nil {
			return nil, err
		}
		return func() { _ = r.Close() }, nil // as above
	},
}

func held(create func(client *framework.Client, path string) (lock.Locker, error)) func(context.Context, *framework.Client, string) (func(), error) {
	return func(ctx context.Context, client *framework.Client, path string) (func(), error) {
		l, err := create(client, path)
		if err != nil {
			return nil, err
		}
		hold, err := l.Acquire(ctx)
		if err != nil {
			return nil, err
		}
		return func() { _ = hold.Release() }, nil // as above
	}
}

// beside are conditions in which another client uses a recipe at the path.
func beside() (list []Condition) {
	for name, start := range others {
		list = append(list, Condition{Name: "beside " + name, Ready: func(s *Scene) {
			client, err := s.Client("C")
			s.must(err)
			if client == nil {
				return
			}
			stop, err := start(s.Peer, client, s.Path)
			s.must(err)
			if stop != nil {
				s.tasks.Go(func() { <-s.Peer.Done(); stop() })
			}
		}, Noisy: true})
	}
	return list
}
