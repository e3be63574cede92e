package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/lock"
	"github.com/gocurator/curator/recipes/revocable"
)

// revoke asks holders to release their lock.
type revoke struct {
	connection
	force time.Duration
}

func (r *revoke) flags(fs *flag.FlagSet) {
	r.connection.flags(fs)
	r.force = -1
	fs.Func("force", "delete the nodes that are still there after this `time`, as in 30s; the default is to ask only", func(text string) error {
		d, err := time.ParseDuration(text)
		if err == nil && d < 0 {
			err = errors.New("negative")
		}
		r.force = d
		return err
	})
}

func (r *revoke) main(t *tool, args []string) error {
	path, err := pathOf(args)
	if err != nil {
		return err
	}
	ctx, stop := interrupted()
	defer stop()
	client, err := r.connect(ctx, t)
	if err != nil {
		return interruption(ctx, err)
	}
	defer client.Close()
	n, err := r.ask(ctx, client, path)
	if err != nil {
		return interruption(ctx, err)
	}
	if n == 0 {
		fmt.Fprintf(t.out, "%s: nobody holds\n", path)
		return nil
	}
	fmt.Fprintf(t.out, "%s: asked %d to release\n", path, n)
	return nil
}

// ask asks the holder whose node this is, or all that hold the lock at this path.
func (r *revoke) ask(ctx context.Context, client *framework.Client, path string) (int, error) {
	var opts []revocable.Option
	if r.force >= 0 {
		opts = append(opts, revocable.WithForce(r.force))
	}
	found, stat, err := client.Exists(ctx, path)
	if err != nil {
		return 0, err
	}
	if found && stat.EphemeralOwner != 0 {
		if _, name := framework.Split(path); kindOf(name) == "" {
			if _, lease := lock.Sequence(name, leaseName); !lease {
				return 0, noLock("%s is no node of a lock", path)
			}
		}
		if err := r.checkListens(ctx, client, path); err != nil {
			return 0, err
		}
		err := revocable.Revoke(ctx, client, path, opts...)
		if errors.Is(err, zk.ErrNoNode) {
			return 0, nil
		}
		return 1, err
	}
	q, err := look(ctx, client, path)
	if err != nil {
		return 0, err
	}
	for _, p := range q.all {
		if p.Holds {
			if err := r.checkListens(ctx, client, p.Path); err != nil {
				return 0, err
			}
		}
	}
	return revocable.RevokeHolders(ctx, client, q, opts...)
}

// checkListens refuses to ask a leader that is no zklock. It would not hear that, and the message would replace its id, which is
// what others know it by. A zklock has a shadow while its command runs.
func (r *revoke) checkListens(ctx context.Context, client *framework.Client, node string) error {
	dir, name := framework.Split(node)
	if kindOf(name) != kindElection || r.force >= 0 {
		return nil
	}
	found, _, err := client.Exists(ctx, framework.Join(shadowsOf(client, dir).dir, name))
	if err != nil || found {
		return err
	}
	return conflict("the leader at %s is no zklock, and does not hear that it is asked; -force deletes its node", node)
}
