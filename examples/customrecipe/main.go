// Customrecipe is a recipe of your own that is no lock: a job that is done once by a fleet (see once.go). It is written with
// Client.Follow, which reads, waits for a change, and reads again, and with Session.Depend, which ends the work before
// another process can begin it.
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
	workers := flag.Int("workers", 5, "number of processes that want the job done, each with its own session")
	path := flag.String("path", "/curator-once", "where to note what is done")
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

// migrate has each of some workers wait until the database is migrated, which the first of them fails to do.
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
		return errors.Join(append(failed, errors.New("the job was not done once"))...)
	}
	return nil
}
