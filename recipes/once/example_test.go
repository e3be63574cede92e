package once_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/once"
	"github.com/gocurator/curator/zktest"
)

func Example() {
	server, err := zktest.Start() // instead of a real ensemble
	if err != nil {
		fmt.Println(err)
		return
	}
	defer server.Close()
	client, err := framework.New([]string{server.Addr()})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()

	// Cron starts this program on three machines at 02:00.
	for range 3 {
		if err := nightly(context.Background(), client); err != nil {
			fmt.Println(err)
		}
	}
	// Output:
	// invoices of 2026-11-28 sent
	// 2026-11-28: done here
	// 2026-11-28: done before
	// 2026-11-28: done before
}

func nightly(ctx context.Context, client *framework.Client) error {
	job, err := once.New(client, "/billing/invoices")
	if err != nil {
		return err
	}
	day := "2026-11-28" // names the firing
	done, err := job.Do(ctx, day, func(ctx context.Context) error {
		fmt.Println("invoices of", day, "sent") // ctx ends if the lock may be lost
		return nil
	})
	if err != nil {
		return err // the next machine, or the next start of cron, tries again
	}
	if done.Ran {
		fmt.Println(done.Key+":", "done here")
	} else {
		fmt.Println(done.Key+":", "done before") // by done.By, at done.At
	}
	return nil
}

// A service with several instances runs a job each hour, in one of them.
func ExampleOnce_Run() {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second) // instead of a signal
	defer cancel()
	client, stop := newClient()
	defer stop()

	job, err := once.New(client, "/billing/cleanup", once.WithMissed(30*time.Minute))
	if err != nil {
		fmt.Println(err)
		return
	}
	// A schedule of robfig/cron fits as well: its method Next.
	err = job.Run(ctx, once.Every(time.Hour), func(ctx context.Context, firing time.Time) error {
		log.Println("cleaning up, as planned for", firing)
		return nil
	})
	fmt.Println(err)
	// Output: run /billing/cleanup: context deadline exceeded
}

// A transfer that is part of the transaction of the record happens exactly once.
func ExampleCommit() {
	client, stop := newClient()
	defer stop()
	ctx := context.Background()
	if _, err := client.Create(ctx, "/balance", []byte("100")); err != nil {
		fmt.Println(err)
		return
	}

	job, err := once.New(client, "/transfers")
	if err != nil {
		fmt.Println(err)
		return
	}
	for range 2 { // the message is delivered twice
		_, err = job.Do(ctx, "message-4711", func(ctx context.Context) error {
			_, stat, err := client.Get(ctx, "/balance")
			if err != nil {
				return err
			}
			return once.Commit(ctx, framework.SetOp("/balance", []byte("150"), framework.IfVersion(stat.Version)))
		})
		if err != nil {
			fmt.Println(err)
			return
		}
	}
	balance, stat, err := client.Get(ctx, "/balance")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(string(balance), "after", stat.Version, "write")
	// Output: 150 after 1 write
}

// Reports are sent at most once an hour, whichever process requests one, and the last 100 are remembered.
func ExampleWithMinInterval() {
	client, stop := newClient()
	defer stop()

	reports, err := once.New(client, "/billing/reports", once.WithMinInterval(time.Hour), once.WithKeep(100))
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, request := range []string{"request-1", "request-2"} {
		_, err := reports.Do(context.Background(), request, func(context.Context) error {
			fmt.Println("sent for", request)
			return nil
		})
		if errors.Is(err, once.ErrTooSoon) {
			fmt.Println(request, "is too soon")
		} else if err != nil {
			fmt.Println(err)
			return
		}
	}
	// Output:
	// sent for request-1
	// request-2 is too soon
}

// newClient returns a client of a server in this process.
func newClient() (client *framework.Client, stop func()) {
	server, err := zktest.Start()
	if err != nil {
		log.Fatal(err)
	}
	client, err = framework.New(server.Servers())
	if err != nil {
		log.Fatal(err)
	}
	return client, func() { client.Close(); server.Close() }
}
