//go:build linux

package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/gocurator/curator/connstate"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/leader"
	"github.com/gocurator/curator/recipes/shard"
)

func TestShard(t *testing.T) { run(t, "shard") }

// newMember joins a group of two shards, with another id each time. The first shard is the lock.
func newMember(client *framework.Client, _ connstate.ErrorPolicy) (acquirer, error) {
	return func(ctx context.Context, random *rand.Rand) (held, bool, error) {
		for {
			patience := time.Second + rand.N(4*time.Second)
			id := fmt.Sprintf("%016x", random.Uint64())
			h, err := ownFirst(ctx, client, id, patience, random.IntN(2) == 0)
			if h != nil || err != nil {
				return h, false, err
			}
		}
	}, nil
}

// errNotConfirmed is the result of Release: Run does not report whether the node of a shard has
// been deleted.
var errNotConfirmed = errors.New("not confirmed")

// owns is the ownership of the first shard.
type owns struct {
	*leader.Term
	ctx     context.Context
	release func()
}

func (o *owns) SessionID() int64         { return o.Session().ID() }
func (o *owns) Context() context.Context { return o.ctx }
func (o *owns) Done() <-chan struct{}    { return o.ctx.Done() }

func (o *owns) Release() error {
	o.release()
	return errNotConfirmed
}

func (o *owns) Err() error {
	if o.ctx.Err() != nil {
		return context.Cause(o.ctx)
	}
	return nil
}

// ownFirst runs a member until it owns the first shard, and returns while its function continues.
// It returns nil if another member owns it for as long as patience.
func ownFirst(ctx context.Context, client *framework.Client, id string, patience time.Duration, drains bool) (held, error) {
	member, err := shard.New(client, "/chaos/shards", id, 2)
	if err != nil {
		return nil, err
	}
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	begun := make(chan *owns)
	over := make(chan struct{})
	ended := make(chan error, 1)
	stop := func() {
		if drains {
			draining, cancel := context.WithTimeout(context.Background(), 10*time.Second)
			_ = member.Drain(draining)
			cancel()
		}
		cancel()
		<-ended
	}
	go func() { // ends with stop
		ended <- member.Run(running, func(ctx context.Context, index int) error {
			if index == 0 {
				select {
				case begun <- &owns{Term: shard.Term(ctx), ctx: ctx, release: func() { close(over); stop() }}:
					<-over
				case <-ctx.Done():
				}
			}
			<-ctx.Done()
			return nil
		})
	}()
	select {
	case h := <-begun:
		return h, nil
	case <-time.After(patience):
		stop()
		return nil, nil
	case <-ctx.Done():
		stop()
		return nil, context.Cause(ctx)
	case err := <-ended:
		cancel()
		return nil, err
	}
}
