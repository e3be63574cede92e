package framework_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-zookeeper/zk"

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
	path, err := client.Create(ctx, "/invoices/next", []byte("1"), framework.Parents())
	fmt.Println(path, err)
	data, stat, err := client.Get(ctx, path)
	fmt.Println(string(data), stat.Version, err)
	_, err = client.Set(ctx, path, []byte("2"), 7)
	fmt.Println(err, errors.Is(err, zk.ErrBadVersion))
	// Output:
	// /invoices/next <nil>
	// 1 0 <nil>
	// set /invoices/next: zk: version conflict true
}
