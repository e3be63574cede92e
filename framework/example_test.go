package framework_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/connstate"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/retry"
	"github.com/gocurator/curator/zktest"
)

func Example() {
	server, err := zktest.Start() // instead of a real ensemble
	if err != nil {
		fmt.Println(err)
		return
	}
	defer server.Close()

	client, err := framework.New([]string{server.Addr()},
		framework.WithSessionTimeout(15*time.Second),
		framework.WithRetryPolicy(retry.ExponentialBackoff(100*time.Millisecond, 5)),
		framework.WithNamespace("billing"))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()

	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	path, err := client.Create(ctx, "/invoices/next", []byte("1"), framework.ContainerParents())
	fmt.Println(path, err)
	data, stat, err := client.Get(ctx, path)
	fmt.Println(string(data), stat.Version, err)
	_, err = client.Set(ctx, path, []byte("2"), framework.IfVersion(7))
	fmt.Println(err, errors.Is(err, zk.ErrBadVersion))
	// Output:
	// /invoices/next <nil>
	// 1 0 <nil>
	// set /invoices/next: zk: version conflict true
}

// A listener hears every state, one after the other. It may take its time, and may call the client.
func ExampleClient_Listen() {
	server, err := zktest.Start()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer server.Close()
	client, err := framework.New(server.Servers())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()
	if err := client.WaitConnected(context.Background()); err != nil {
		fmt.Println(err)
		return
	}
	heard := make(chan connstate.State, 2)
	remove, err := client.Listen(func(s connstate.State) { heard <- s })
	if err != nil {
		fmt.Println(err)
		return
	}
	defer remove()
	server.CutConnections()
	fmt.Println(<-heard)
	fmt.Println(<-heard)
	// Output:
	// suspended
	// reconnected
}

// A protected node is found again when the reply to its creation is lost: there is one, not two.
func ExampleClient_Create_protected() {
	server, err := zktest.Start()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer server.Close()
	client, err := framework.New(server.Servers())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()
	server.Inject(zktest.LoseReply, 1, zktest.OnCreate())
	path, err := client.Create(context.Background(), "/job-", nil,
		framework.Protected(), framework.As(framework.EphemeralSequential))
	if err != nil {
		fmt.Println(err)
		return
	}
	_, name := framework.Split(path)
	name, _ = framework.Unprotected(name)
	fmt.Println(name)
	// Output:
	// job-0000000000
}

func ExampleUnprotected() {
	for _, child := range []string{"_c_4bd9b3ea-5e1c-4e3a-8a3f-0a2f9d9b6c11-lock-0000000007", "lock-0000000008"} {
		name, id := framework.Unprotected(child)
		fmt.Printf("%s %q\n", name, id)
	}
	// Output:
	// lock-0000000007 "4bd9b3ea-5e1c-4e3a-8a3f-0a2f9d9b6c11"
	// lock-0000000008 ""
}
