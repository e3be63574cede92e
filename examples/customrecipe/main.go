// Customrecipe is a custom recipe that is not a lock: a fleet of processes does a job once (see
// once.go). Client.Follow reads, waits for a change, and reads again. Session.Depend cancels the
// work before another process can begin it.
//
//	go run ./examples/customrecipe
//	go run ./examples/customrecipe -servers host:port,... -workers 5
//
// It exits with 1 if the job was done twice, or not at all.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"

	"github.com/gocurator/curator/examples/internal/demo"
	"github.com/gocurator/curator/framework"
)

func main() {
	servers := demo.Servers()
	workers := flag.Int("workers", 5, "number of processes that call Once, each with its own session")
	path := flag.String("path", "/curator-once", "`path` of the record")
	flag.Parse()
	demo.Main(func(ctx context.Context) error {
		list, stop, err := demo.Connect(ctx, os.Stdout, *servers)
		if err != nil {
			return err
		}
		defer stop()
		return migrate(ctx, os.Stdout, list, *path, *workers)
	})
}

// migrate starts workers that wait until the database is migrated. The first attempt to migrate it
// fails.
func migrate(ctx context.Context, out io.Writer, servers []string, path string, workers int) error {
	var tries, migrations atomic.Int32
	var all sync.WaitGroup
	failed := make([]error, workers)
	for i := range workers {
		all.Go(func() { // ends with its Once
			client, err := framework.New(servers)
			if err != nil {
				failed[i] = err
				return
			}
			defer client.Close()
			failed[i] = Once(ctx, client, path, func(ctx context.Context) error {
				if tries.Add(1) == 1 {
					return errors.New("the database is busy")
				}
				migrations.Add(1)
				return ctx.Err()
			})
		})
	}
	all.Wait()
	busy := 0
	for _, err := range failed {
		if err != nil {
			busy++
		}
	}
	fmt.Fprintf(out, "workers     %d\nfailed      %d\nmigrations  %d\n", workers, busy, migrations.Load())
	if migrations.Load() != 1 || busy != 1 {
		return errors.Join(append(failed, errors.New("the job was not run exactly once"))...)
	}
	return nil
}
