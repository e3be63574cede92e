package retry_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/retry"
	"github.com/gocurator/curator/zktest"
)

func ExampleUnknown() {
	server, err := zktest.Start() // a ZooKeeper server in this process
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	client, err := framework.New(server.Servers(), framework.WithRetryPolicy(retry.NTimes(1, time.Millisecond)))
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	for range 2 {
		server.Inject(zktest.LoseReply, 0, zktest.OnOp("setData"))
	}
	ctx := context.Background()
	if _, err := client.Create(ctx, "/balance", []byte("1")); err != nil {
		log.Fatal(err)
	}
	_, err = client.Set(ctx, "/balance", []byte("2"))
	fmt.Println("retried in vain:", errors.Is(err, retry.ErrExhausted))
	fmt.Println("perhaps written:", retry.Unknown(err))
	// Output:
	// retried in vain: true
	// perhaps written: true
}

// A health check reports a lost connection at once.
func ExampleNever() {
	server, err := zktest.Start() // a ZooKeeper server in this process
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	client, err := framework.New(server.Servers(), framework.WithRetryPolicy(retry.Never()))
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	server.Inject(zktest.LoseReply, 0, zktest.OnOp("exists"))
	_, _, err = client.Exists(context.Background(), "/billing")
	fmt.Println("healthy:", err == nil)
	// Output:
	// healthy: false
}
