package lock_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/lock"
	"github.com/gocurator/curator/recipes/mutex"
	"github.com/gocurator/curator/zktest"
)

// A printer checks neither a guard nor a token. A host that loses its session may still print for a
// moment, so the next one begins later.
func ExampleWithLockDelay() {
	server, err := zktest.Start() // a ZooKeeper server in this process
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	hosts := make([]*mutex.Mutex, 2)
	for i := range hosts {
		client, err := framework.New(server.Servers())
		if err != nil {
			log.Fatal(err)
		}
		defer client.Close()
		if hosts[i], err = mutex.New(client, "/printer", lock.WithLockDelay(300*time.Millisecond)); err != nil {
			log.Fatal(err)
		}
	}
	ctx := context.Background()
	hold, err := hosts[0].Acquire(ctx)
	if err != nil {
		log.Fatal(err)
	}
	died := time.Now()
	if err := server.ExpireSession(hold.Session().ID()); err != nil { // the first host dies
		log.Fatal(err)
	}
	err = hosts[1].Do(ctx, func(context.Context) error {
		fmt.Println("the next host prints after the delay:", time.Since(died) >= 300*time.Millisecond)
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output: the next host prints after the delay: true
}
