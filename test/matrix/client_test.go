package matrix_test

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/framework/compressed"
	"github.com/gocurator/curator/internal/test/matrix"
	"github.com/gocurator/curator/zkconn"
)

var clientStories = []matrix.Story{
	{Name: "client", Run: operates, Lookalikes: []string{lookalike + "e"}, Remains: []string{"/n"}},
	{Name: "client that follows", Run: followsNode, Remains: []string{"/n"}},
}

// operates has A create, read, write and delete nodes of all kinds.
func operates(s *matrix.Scene) error {
	path := s.Path + "/n"
	defer s.B.Delete(s.Peer, path, framework.WithChildren(), framework.IfExists()) // the first error is returned
	_, err := s.A.Create(s.Ctx, path, []byte("1"), framework.PersistentParents(), framework.OrSet())
	s.Require(err)
	e, err := s.A.Create(s.Ctx, s.Path+"/e", []byte("e"), framework.As(framework.EphemeralSequential), framework.Protected())
	s.Require(err)
	defer s.A.Delete(context.Background(), e, framework.Guaranteed())
	data, stat, watch, err := s.A.GetW(s.Ctx, path)
	s.Require(err)
	s.Check(string(data) == "1" || s.Forced(), "the node has %q", data)
	s.Middle()
	if _, err := s.A.Set(s.Ctx, path, []byte("2"), framework.IfVersion(stat.Version), framework.Idempotent()); err != nil && !errors.Is(err, zk.ErrBadVersion) {
		return err
	}
	select {
	case <-watch.Done():
	case <-s.Ctx.Done():
		return context.Cause(s.Ctx)
	case <-time.After(time.Minute):
		s.Check(false, "the watch has not fired")
	}
	_, _, err = s.A.Children(s.Ctx, s.Path)
	s.Require(err)
	_, err = s.A.Multi(s.Ctx, &zk.CheckVersionRequest{Path: path, Version: -1})
	s.Require(err)
	s.Require(s.A.Sync(s.Ctx))
	s.Require(s.A.Delete(s.Ctx, e, framework.Guaranteed(), framework.IfExists()))
	return s.A.Delete(s.Ctx, path, framework.Idempotent())
}

// followsNode has A follow a node that B writes.
func followsNode(s *matrix.Scene) error {
	path := s.Path + "/n"
	_, err := s.B.Create(s.Peer, path, []byte("1"), framework.PersistentParents(), framework.OrSet())
	s.RequireOther(err)
	defer s.B.Delete(context.Background(), path, framework.IfExists())
	seen := ""
	follower := s.Go(func() error {
		return s.A.Follow(s.Ctx, func(ctx context.Context, in *framework.Client) (<-chan struct{}, error) {
			found, _, watch, err := in.ExistsW(ctx, path)
			if err != nil {
				return nil, err
			}
			if !found {
				return watch.Done(), nil
			}
			data, _, err := in.Get(ctx, path)
			if errors.Is(err, zk.ErrNoNode) {
				return framework.Again, nil
			}
			if seen = string(data); seen == "end" || err != nil {
				return nil, err
			}
			return watch.Done(), nil
		})
	})
	s.Sleep(time.Second)
	s.Middle()
	s.Require(s.Expire())
	_, err = s.B.Create(s.Peer, path, []byte("end"), framework.OrSet())
	s.RequireOther(err)
	return follower.Wait()
}

var compressedStories = []matrix.Story{{Name: "compressed data", Remains: []string{"/n"}, Run: func(s *matrix.Scene) error {
	path := s.Path + "/n"
	_, err := compressed.Create(s.Ctx, s.A, path, []byte("1"), framework.PersistentParents(), framework.OrSet())
	s.Require(err)
	defer s.B.Delete(s.Peer, path, framework.IfExists())
	s.Middle()
	_, err = compressed.Set(s.Ctx, s.A, path, []byte("2"))
	s.Require(err)
	s.Require(s.CatchUp())
	data, _, err := compressed.Get(s.Peer, s.B, path)
	s.RequireOther(err)
	s.Check(string(data) == "2", "the node has %q", data)
	return s.A.Delete(s.Ctx, path, framework.Idempotent())
}}}

var zkconnStories = []matrix.Story{{
	Name: "lock of zkconn", Run: zkLocks, OwnClient: true, Lookalikes: []string{lookalike + "lock-0000000000"}, Remains: []string{""},
}}

type silent struct{}

func (silent) Printf(string, ...any) {}

// zkLocks has one Conn lock, another wait, and the first lose its session.
func zkLocks(s *matrix.Scene) error {
	conn := func() (*zkconn.Conn, error) {
		servers, dial := s.Dial()
		c, _, err := zkconn.Connect(servers, 10*time.Second, zkconn.WithLogger(silent{}), zkconn.WithDialer(func(network, address string, timeout time.Duration) (net.Conn, error) {
			ctx, cancel := context.WithTimeout(context.Background(), timeout)
			defer cancel()
			return dial(ctx, network, address)
		}))
		return c, err
	}
	a, err := conn()
	s.Require(err)
	defer a.Close()
	b, err := conn()
	s.RequireOther(err)
	defer b.Close()
	// LockWithData has no context: Close ends it.
	stop := context.AfterFunc(s.Ctx, func() { a.Close() })
	defer stop()
	stopPeer := context.AfterFunc(s.Peer, func() { b.Close() })
	defer stopPeer()
	reason := func(err error) error {
		if err != nil && s.Ctx.Err() != nil {
			return errors.Join(context.Cause(s.Ctx), err)
		}
		return err
	}
	first, second := zkconn.NewLock(a, s.Path, zkconn.WorldACL(zkconn.PermAll)), zkconn.NewLock(b, s.Path, zkconn.WorldACL(zkconn.PermAll))
	s.Require(reason(first.Lock()))
	hold := first.Hold()
	s.Middle()
	waiting := s.Go(func() error {
		s.Require(second.Lock())
		alone(s, hold)
		return second.Unlock()
	})
	s.Sleep(time.Second)
	s.Require(reason(first.Unlock()))
	s.RequireOther(reason(waiting.Wait()))
	return reason(errors.Join(first.Lock(), first.Unlock()))
}
