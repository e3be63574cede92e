package testbed

import (
	"context"
	"fmt"
	"time"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/zktest"
)

// Example runs an example with a client of an in-process server, and prints the error that it returns.
func Example(f func(ctx context.Context, client *framework.Client) error) {
	if err := example(f); err != nil {
		fmt.Println(err)
	}
}

func example(f func(ctx context.Context, client *framework.Client) error) error {
	server, err := zktest.Start()
	if err != nil {
		return err
	}
	defer server.Close()
	client, err := framework.New(server.Servers())
	if err != nil {
		return err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return f(ctx, client)
}
