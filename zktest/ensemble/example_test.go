package ensemble_test

import (
	"context"
	"errors"
	"log"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/zktest/ensemble"
)

// A test writes while one of three servers is down.
func ExampleNew() {
	_ = func(t *testing.T) { // TestWrite_WithoutALeader
		e := ensemble.New(t)
		leader, err := e.Leader(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		conn, _, err := zk.Connect(e.Servers(), 10*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()

		if err := e.StopServer(leader); err != nil {
			t.Fatal(err)
		}
		if err := e.WaitForQuorum(t.Context()); err != nil { // the others elect a leader
			t.Fatal(err)
		}
		if _, err := conn.Create("/order", []byte("42"), 0, zk.WorldACL(zk.PermAll)); err != nil {
			t.Error(err)
		}
		if err := e.StartServer(leader); err != nil {
			t.Fatal(err)
		}
	}
}

// A program starts an ensemble with short sessions, outside a test.
func ExampleStart() {
	ctx := context.Background()
	e, err := ensemble.Start(ctx,
		ensemble.WithServers(3),
		ensemble.WithProperties(map[string]string{"tickTime": "500", "minSessionTimeout": "500"}),
		ensemble.WithEnv("ZOO_SYNC_LIMIT", "10"),
		ensemble.WithFile("/conf/extra.properties", "team=billing\n"))
	if errors.Is(err, ensemble.ErrNoDocker) || errors.Is(err, ensemble.ErrNoImage) {
		log.Fatal("start Docker, and run scripts/zookeeper-image.sh: ", err)
	}
	if err != nil {
		log.Fatal(err)
	}
	defer e.Close()
	for i := range e.Size() {
		mode, err := e.Mode(ctx, i)
		log.Println(e.Servers()[i], mode, err)
	}
}

// A test partitions a follower, which still accepts connections and serves no requests.
func ExampleEnsemble_Partition() {
	_ = func(t *testing.T) {
		e := ensemble.New(t)
		leader, err := e.Leader(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := e.Partition((leader + 1) % e.Size()); err != nil {
			t.Fatal(err)
		}
		// The code under test works with the other two.
		if err := e.Heal(); err != nil {
			t.Fatal(err)
		}
		if err := e.WaitForQuorum(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// A test freezes the link to a server. The client notices only that replies are missing.
func ExampleEnsemble_Freeze() {
	_ = func(t *testing.T) {
		e := ensemble.New(t, ensemble.WithServers(1))
		if err := e.Freeze(0); err != nil {
			t.Fatal(err)
		}
		// The code under test must not take a missing reply for a success.
		if err := e.Heal(); err != nil {
			t.Fatal(err)
		}
	}
}

// A test cuts the connections to a server, and its client reconnects to another.
func ExampleEnsemble_CutConnections() {
	_ = func(t *testing.T) {
		e := ensemble.New(t)
		if err := e.RefuseConnections(0); err != nil {
			t.Fatal(err)
		}
		if err := e.CutConnections(0); err != nil {
			t.Fatal(err)
		}
		// The session of the code under test continues on another server.
		if err := e.Heal(); err != nil {
			t.Fatal(err)
		}
	}
}

// A test suspends the process of a server, as a long garbage collection does.
func ExampleEnsemble_PauseServer() {
	_ = func(t *testing.T) {
		e := ensemble.New(t)
		leader, err := e.Leader(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := e.PauseServer(leader); err != nil {
			t.Fatal(err)
		}
		// The others elect a leader. The old one believes that it leads until it runs again.
		if err := e.ResumeServer(leader); err != nil {
			t.Fatal(err)
		}
	}
}
