package zktest_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/zktest"
)

// A client of go-zookeeper connects in memory, as a test with testing/synctest needs it.
func ExampleServer_Dial() {
	server, err := zktest.Start(zktest.WithInMemory())
	must(err)
	defer server.Close()
	conn, _, err := zk.Connect(server.Servers(), 10*time.Second, zk.WithDialer(server.Dial), zk.WithLogger(quiet{}))
	must(err)
	defer conn.Close()

	path, err := conn.Create("/order", nil, 0, zk.WorldACL(zk.PermAll))
	fmt.Println(path, err)
	// Output: /order <nil>
}

// A client of a cluster connects in memory, and reads old data from a member that lags behind.
func ExampleCluster_Lag() {
	cluster, err := zktest.StartCluster(3, zktest.WithInMemory())
	must(err)
	defer cluster.Close()
	leader, err := cluster.WaitLeader(ctx)
	must(err)
	follower := cluster.Members()[0]
	if follower == leader {
		follower = cluster.Members()[1]
	}
	writer, err := framework.New(leader.Servers(), framework.WithDialer(cluster.DialContext))
	must(err)
	defer writer.Close()
	reader, err := framework.New(follower.Servers(), framework.WithDialer(cluster.DialContext))
	must(err)
	defer reader.Close()
	_, _, err = reader.Exists(ctx, "/order") // the reader has a session
	must(err)

	must(cluster.Lag(follower, time.Hour))
	_, err = writer.Create(ctx, "/order", nil)
	must(err)
	found, _, err := reader.Exists(ctx, "/order")
	fmt.Println("the reader sees the order:", found, err)
	// Output: the reader sees the order: false <nil>
}

// A removed member is no longer part of the cluster.
func ExampleCluster_Remove() {
	cluster, err := zktest.StartCluster(3)
	must(err)
	defer cluster.Close()
	leader, err := cluster.WaitLeader(ctx)
	must(err)

	must(cluster.Remove(ctx, leader))
	fmt.Println("removed:", errors.Is(cluster.Partition(leader), zktest.ErrNotMember))
	_, err = cluster.WaitLeader(ctx) // the others have elected one
	fmt.Println("another leader, error:", err)
	// Output:
	// removed: true
	// another leader, error: <nil>
}

// A listener gives one client a separate address, so that the test can freeze that client in
// whichever session it has.
func ExampleListener_Freeze() {
	server, err := zktest.Start()
	must(err)
	defer server.Close()
	listener, err := server.Listen("127.0.0.1:0", nil)
	must(err)
	client, err := framework.New([]string{listener.Addr()})
	must(err)
	defer client.Close()
	_, err = client.Create(ctx, "/order", nil)
	must(err)

	listener.Freeze()
	short, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
	defer cancel()
	_, _, err = client.Get(short, "/order")
	fmt.Println("frozen:", errors.Is(err, context.DeadlineExceeded))
	listener.Thaw()
	_, _, err = client.Get(ctx, "/order")
	fmt.Println("thawed, error:", err)
	// Output:
	// frozen: true
	// thawed, error: <nil>
}

// A server answers as an overloaded one does. go-zookeeper does not know the code.
func ExampleServer_Rewrite() {
	server, err := zktest.Start()
	must(err)
	defer server.Close()
	conn, _, err := zk.Connect(server.Servers(), 10*time.Second, zk.WithLogger(quiet{}))
	must(err)
	defer conn.Close()

	stop := server.Rewrite(func(_ zktest.Request, answer []byte) []byte {
		const header = 4 + 4 + 8 + 4 // the length; the number, zxid and code of the reply
		reply := append([]byte{}, answer[:header]...)
		binary.BigEndian.PutUint32(reply, header-4)
		binary.BigEndian.PutUint32(reply[header-4:], 1<<32-127) // -127: throttled
		return reply
	}, zktest.OnOp("create"))
	_, err = conn.Create("/order", nil, 0, zk.WorldACL(zk.PermAll))
	fmt.Println(err)
	stop()
	_, err = conn.Create("/order", nil, 0, zk.WorldACL(zk.PermAll))
	fmt.Println(err)
	// Output:
	// unknown error: -127
	// zk: node already exists
}

// The super user reads a node that is closed to everybody.
func ExampleDigest() {
	server, err := zktest.Start(zktest.WithProperties(map[string]string{
		"DigestAuthenticationProvider.superDigest": zktest.Digest("super:secret"),
	}))
	must(err)
	defer server.Close()
	client, err := framework.New(server.Servers(), framework.WithAuth("digest", []byte("super:secret")))
	must(err)
	defer client.Close()

	closed := []zk.ACL{{Perms: zk.PermRead, Scheme: "digest", ID: zktest.Digest("somebody:else")}}
	_, err = client.Create(ctx, "/salaries", []byte("42"), framework.ACL(closed))
	must(err)
	data, _, err := client.Get(ctx, "/salaries")
	fmt.Println(string(data), err)
	// Output: 42 <nil>
}
