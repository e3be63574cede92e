package zktest_test

import (
	"errors"
	"fmt"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/zktest"
)

// In a test, use zktest.NewServer(t), which ends with the test.
func Example() {
	server, err := zktest.Start()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer server.Close()

	// The code under test only has the address.
	conn, _, err := zk.Connect([]string{server.Addr()}, 10*time.Second, zk.WithLogger(quiet{}))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer conn.Close()

	// The next create is carried out, and its reply is lost.
	injected := server.Inject(zktest.LoseReply, 0, zktest.OnOp("create"))
	_, err = conn.Create("/order", []byte("42"), 0, zk.WorldACL(zk.PermAll))
	fmt.Println("connection lost:", errors.Is(err, zk.ErrConnectionClosed))
	fmt.Println(injected)
	fmt.Print(server.Tree())
	// Output:
	// connection lost: true
	// lose reply: create /order
	// /order "42"
}
