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

// ownFirst runs a member until it owns the first shard, and returns while its function continues.
// It returns nil if another member owns it for as long as patience.
func ownFirst(ctx context.Context, client *framework.Client, id string, patience time.Duration, drains bool) (held, error) {
	member, err := shard.New(client, "/chaos/shards", id, 2)
	if err != nil {
		return nil, err
	}
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	begun := make(chan leads)
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
	release := func() error {
		close(over)
		stop()
		return errNotConfirmed
	}
	go func() { // ends with stop
		ended <- member.Run(running, func(ctx context.Context, index int) error {
			if index == 0 {
				select {
				case begun <- leads{Term: shard.Term(ctx), ctx: ctx, release: release}:
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
