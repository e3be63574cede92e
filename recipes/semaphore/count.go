package semaphore

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/clientapi"
	"github.com/gocurator/curator/internal/engine"
	"github.com/gocurator/curator/internal/wait"
	"github.com/gocurator/curator/recipes/lock"
	"github.com/gocurator/curator/retry"
)

// ErrBadCount means that the node of a [Count] holds no number of leases: not four bytes, or a negative number.
// [Count.Set] repairs it.
var ErrBadCount = errors.New("not a number of leases")

// Count is a number of leases that all processes share: a node with four bytes, the most significant first. It
// is Curator's SharedCount. It is safe for concurrent use, and several semaphores may share it. A count of 0 drains a
// semaphore: holders keep their leases, and nobody acquires another one until the count is higher.
type Count struct {
	client *framework.Client
	path   string
	seed   int
}

// NewCount makes a count at path, which should not be below the path of a semaphore. seed is its value until
// somebody sets it, at least 0: a missing node is created with it at the first use. Nothing is sent. Errors are
// [lock.ErrBadPath] and [lock.ErrBadArgument].
func NewCount(client *framework.Client, path string, seed int) (*Count, error) {
	if client == nil {
		return nil, fmt.Errorf("count: %w: nil client", lock.ErrBadArgument)
	}
	if err := framework.ValidatePath(path); err != nil {
		return nil, fmt.Errorf("count: %w", err)
	}
	if path == "/" {
		return nil, fmt.Errorf("count: %w: the root cannot be a count", lock.ErrBadPath)
	}
	if err := validCount(seed); err != nil {
		return nil, fmt.Errorf("count: %w", err)
	}
	return &Count{client, path, seed}, nil
}

func validCount(n int) error {
	if n < 0 || n > math.MaxInt32 {
		return fmt.Errorf("%w: %d leases", lock.ErrBadArgument, n)
	}
	return nil
}

// Path is the path of the node.
func (c *Count) Path() string { return c.path }

// Get reads the count from the servers; a missing node is created. Errors are [ErrBadCount] and those of
// [framework.Client.Get] and [framework.Client.Create].
func (c *Count) Get(ctx context.Context) (int, error) {
	r, err := c.read(ctx)
	return r.max, err
}

// Set changes the count for everyone. n must not be negative, or the error is [lock.ErrBadArgument]. If several
// processes set it, the last one wins.
func (c *Count) Set(ctx context.Context, n int) error {
	if err := validCount(n); err != nil {
		return c.opError("set count", err)
	}
	for {
		_, err := c.client.Set(ctx, c.path, encode(n), -1)
		if !errors.Is(err, zk.ErrNoNode) {
			return err
		}
		if err := c.create(ctx, n); !errors.Is(err, zk.ErrNodeExists) {
			return err
		}
	}
}

// reading is the result of a read of the count.
type reading struct {
	max   int
	zxid  int64 // higher for what was written later
	watch *framework.Watch
}

func (c *Count) read(ctx context.Context) (reading, error) {
	for {
		data, stat, watch, err := c.client.GetW(ctx, c.path)
		if errors.Is(err, zk.ErrNoNode) {
			if err := c.create(ctx, c.seed); err != nil && !errors.Is(err, zk.ErrNodeExists) {
				return reading{}, err
			}
			continue
		}
		if err != nil {
			return reading{}, err
		}
		max, err := decode(data)
		return reading{max, stat.Mzxid, watch}, c.opError("get count", err)
	}
}

func (c *Count) create(ctx context.Context, n int) error {
	_, err := c.client.Create(ctx, c.path, encode(n), framework.ContainerParents())
	return err
}

func encode(n int) []byte { return binary.BigEndian.AppendUint32(nil, uint32(n)) }

func decode(data []byte) (int, error) {
	if len(data) != 4 {
		return 0, fmt.Errorf("%w: %d bytes", ErrBadCount, len(data))
	}
	n := int(int32(binary.BigEndian.Uint32(data)))
	if n < 0 {
		return 0, fmt.Errorf("%w: %d", ErrBadCount, n)
	}
	return n, nil
}

func (c *Count) opError(op string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s %s: %w", op, c.path, err)
}

// refresh reads how many leases there are, and fails if n is more.
func (s *Semaphore) refresh(ctx context.Context, n int) error {
	if s.count != nil {
		r, err := s.count.read(ctx)
		if err != nil {
			return err
		}
		s.adopt(r)
	}
	return s.admit(n)
}

// confirm has us know every change of a shared count that came before the last change of the leases that we know. It fails if n is
// more than there are.
func (s *Semaphore) confirm(ctx context.Context, n int) error {
	if s.count == nil || engine.Of(s.count.client).Values() == engine.Of(s.client).Values() {
		// The connection tells of a change of the count before it tells of later changes of the leases.
		if current, _ := s.known(); current {
			return nil
		}
		return s.refresh(ctx, n)
	}
	// The count has a connection of its own, whose server may be behind. In another session it could be again after it has
	// caught up.
	session, err := s.count.client.Session(ctx)
	if err != nil {
		return err
	}
	ctx = framework.InSession(ctx, session)
	if err = s.count.client.CatchUp(ctx); err == nil {
		err = s.refresh(ctx, n)
	}
	if errors.Is(err, framework.ErrSessionLost) {
		return &entryLost{err}
	}
	return err
}

// follow adopts every change of a shared count until ctx is done. An error means that waiting for n leases is
// useless.
func (s *Semaphore) follow(ctx context.Context, n int) error {
	for s.count != nil {
		r, err := s.count.read(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case retry.MayPass(err):
			// If ctx ends, the next read says so.
			_ = wait.Sleep(ctx, clientapi.RefusedPause)
			continue // out of reach; whether that is trouble is for the session to say
		case err != nil:
			return err
		}
		s.adopt(r)
		if err := s.admit(n); err != nil {
			return err
		}
		select {
		case <-r.watch.Done():
		case <-ctx.Done():
			return nil
		}
	}
	return nil
}

// adopt uses what was read, unless something newer is known.
func (s *Semaphore) adopt(r reading) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.zxid < s.latest.zxid {
		return
	}
	if r.max < s.latest.max {
		s.falls++
	}
	s.latest = r
	_ = s.leases.SetMaxLeases(r.max) // it is not negative
}

// known reports whether nobody has told of a change of the count since it was adopted, and how often it fell before.
func (s *Semaphore) known() (current bool, falls int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.latest.watch == nil { // max is fixed
		return true, 0
	}
	return !wait.Closed(s.latest.watch.Done()), s.falls
}

// admit fails if n is more than there are. A drained semaphore has none at present, which says nothing.
func (s *Semaphore) admit(n int) error {
	if max := s.leases.MaxLeases(); max > 0 && n > max {
		return fmt.Errorf("%w: %d of %d", ErrTooMany, n, max)
	}
	return nil
}
