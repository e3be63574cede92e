package main

import (
	"context"
	"errors"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/connstate"
	"github.com/gocurator/curator/framework"
)

// Once has f succeed once for all processes that call Once with the same path: one of them calls it, the others wait. If that
// process dies, or f fails, the next one calls it. Once returns nil when f has succeeded somewhere.
//
// path/done is a persistent node: f has succeeded. path/running is an ephemeral node of the process that calls f. f's context ends
// before another process can call f.
func Once(ctx context.Context, client *framework.Client, path string, f func(ctx context.Context) error) error {
	var failed error // why f failed
	err := client.Follow(ctx, func(ctx context.Context) (<-chan struct{}, error) {
		_, err := client.Create(ctx, path+"/running", nil, framework.As(framework.Ephemeral), framework.PersistentParents())
		if err != nil && !errors.Is(err, zk.ErrNodeExists) {
			return nil, err
		}
		session, err := client.Session(ctx)
		if err != nil {
			return nil, err
		}
		running, stat, watch, err := client.ExistsW(ctx, path+"/running")
		switch {
		case err != nil:
			return nil, err
		case !running:
			return again, nil // it has just ended
		case stat.EphemeralOwner != session.ID():
			return watch.Done(), nil // another process works
		}
		// The node is ours. Only now it is certain that nobody else makes done.
		if done, _, err := client.Exists(ctx, path+"/done"); err != nil || done {
			_, gone := client.DeleteGuaranteed(ctx, path+"/running")
			return nil, errors.Join(err, gone)
		}
		work, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		stop, err := session.Depend(connstate.Session, func(cause error) { cancel(cause) })
		if err != nil {
			return nil, err
		}
		defer stop()
		failed = run(work, client, path, f)
		return nil, nil
	})
	return errors.Join(failed, err)
}

// again is closed: look again at once.
var again = func() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// run calls f, and then notes that it has succeeded, in one transaction with the end of running.
func run(ctx context.Context, client *framework.Client, path string, f func(ctx context.Context) error) error {
	if err := f(ctx); err != nil {
		_, gone := client.DeleteGuaranteed(context.WithoutCancel(ctx), path+"/running") // now another process may try
		return errors.Join(err, gone)
	}
	_, err := client.Multi(ctx, &zk.DeleteRequest{Path: path + "/running", Version: -1}, &zk.CreateRequest{Path: path + "/done"})
	return err
}
