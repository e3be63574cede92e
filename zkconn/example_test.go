package zkconn_test

import (
	"fmt"
	"log"
	"time"

	zk "github.com/gocurator/curator/zkconn"
	"github.com/gocurator/curator/zktest"
)

// A program that used go-zookeeper, with another import.
func Example() {
	server, err := zktest.Start() // a ZooKeeper server in this process, for a try
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()

	conn, _, err := zk.Connect(server.Servers(), 10*time.Second, zk.WithLogInfo(false))
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()

	if _, err := conn.Create("/config", []byte("a"), zk.FlagPersistent, zk.WorldACL(zk.PermAll)); err != nil && err != zk.ErrNodeExists {
		log.Fatal(err)
	}
	data, stat, changed, err := conn.GetW("/config")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(string(data), stat.Version)
	if _, err := conn.Set("/config", []byte("b"), stat.Version); err != nil {
		log.Fatal(err)
	}
	fmt.Println((<-changed).Type)
	// Output:
	// a 0
	// EventNodeDataChanged
}
