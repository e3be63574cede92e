package main

import (
	"context"
	"errors"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/connstate"
	"github.com/gocurator/curator/framework"
)

// Once runs f until it has succeeded once among all processes that call Once with the same path. If
// f fails or its process crashes, another process runs f. Once returns nil when f has succeeded in
// any process.
//
// The persistent node path/done records the success. The ephemeral node path/running belongs to the
// process that runs f. The context of f is canceled before another process can run f.
func Once(ctx context.Context, client *framework.Client, path string, f func(ctx context.Context) error) error {
	var failed error // why f failed
	err := client.Follow(ctx, func(ctx context.Context, in *framework.Client) (<-chan struct{}, error) {
		_, err := in.Create(ctx, path+"/running", nil, framework.As(framework.Ephemeral), framework.PersistentParents())
		if err != nil && !errors.Is(err, zk.ErrNodeExists) {
			return nil, err
		}
		session, err := in.Session(ctx)
		if err != nil {
			return nil, err
		}
		running, stat, watch, err := in.ExistsW(ctx, path+"/running")
		switch {
		case err != nil:
			return nil, err
		case !running:
			return framework.Again, nil // it has just ended
		case stat.EphemeralOwner != session.ID():
			return watch.Done(), nil // another process works
		}
		// The node is this client's. Only now it is certain that no other client creates done.
		if done, _, err := in.Exists(ctx, path+"/done"); err != nil || done {
			gone := in.Delete(ctx, path+"/running", framework.IfExists(), framework.Guaranteed())
			return nil, errors.Join(err, gone)
		}
		work, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		stop, err := session.Depend(connstate.LostEndsHold, func(cause error) { cancel(cause) })
		if err != nil {
			return nil, err
		}
		defer stop()
		failed = run(work, in, path, f)
		return nil, nil
	})
	return errors.Join(failed, err)
}

// run calls f. If f succeeds, one transaction creates done and deletes running.
func run(ctx context.Context, client *framework.Client, path string, f func(ctx context.Context) error) error {
	if err := f(ctx); err != nil {
		gone := client.Delete(context.WithoutCancel(ctx), path+"/running", framework.IfExists(), framework.Guaranteed()) // now another process may try
		return errors.Join(err, gone)
	}
	_, err := client.Multi(ctx, framework.DeleteOp(path+"/running"), framework.CreateOp(path+"/done", nil))
	return err
}
