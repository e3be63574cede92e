package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/spf13/pflag"

	"github.com/gocurator/curator/cmd/internal/cli"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/lock"
	"github.com/gocurator/curator/recipes/revocable"
)

// revoke asks holders to release their lock.
type revoke struct {
	cli.Connection
	force time.Duration
}

func (r *revoke) flags(a *cli.App, fs *pflag.FlagSet) {
	r.Connection.Flags(a, fs)
	cli.Duration(fs, &r.force, "force", "", cli.Unset, "delete nodes that still exist after this `time`, such as 30s; by default only ask")
}

func (r *revoke) main(ctx context.Context, t *cli.App, out io.Writer, args []string) error {
	path, err := pathOf(args)
	if err != nil {
		return err
	}
	ctx, stop := cli.Interrupted(ctx)
	defer stop()
	client, err := r.Connect(ctx, t)
	if err != nil {
		return cli.Interruption(ctx, err)
	}
	defer client.Close()
	n, err := r.ask(ctx, client, path)
	if err != nil {
		return cli.Interruption(ctx, err)
	}
	if n == 0 {
		fmt.Fprintf(out, "%s: no holders\n", path)
		return nil
	}
	fmt.Fprintf(out, "%s: holders asked to release: %d\n", path, n)
	return nil
}

// ask asks the holder of a node, or all holders of the lock at a path.
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
				return 0, noLock("%s is not a node of a lock", path)
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
	return revocable.RevokeAll(ctx, q, opts...)
}

// checkListens returns an error for a leader that is not zklock: it does not listen, and the
// message would replace its id. A zklock has a shadow while its command runs.
func (r *revoke) checkListens(ctx context.Context, client *framework.Client, node string) error {
	dir, name := framework.Split(node)
	if kindOf(name) != kindElection || r.force >= 0 {
		return nil
	}
	found, _, err := client.Exists(ctx, framework.Join(shadowsOf(client, dir).dir, name))
	if err != nil || found {
		return err
	}
	return conflict("the leader at %s is not zklock, and does not listen for requests; --force deletes its node", node)
}
