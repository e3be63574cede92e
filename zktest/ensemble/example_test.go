package ensemble_test

import (
	"context"
	"errors"
	"log"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/zktest/ensemble"
)

// A test writes while one of three servers is down.
func ExampleNew() {
	_ = func(t *testing.T) { // TestWrite_WithoutALeader
		e := ensemble.New(t)
		leader, err := e.Leader(t.Context())
		require.NoError(t, err)
		conn, _, err := zk.Connect(e.Servers(), 10*time.Second)
		require.NoError(t, err)
		defer conn.Close()

		require.NoError(t, e.StopServer(leader))
		require.NoError(t, e.WaitForQuorum(t.Context())) // the others elect a leader
		_, err = conn.Create("/order", []byte("42"), 0, zk.WorldACL(zk.PermAll))
		require.NoError(t, err)
		require.NoError(t, e.StartServer(leader))
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
		require.NoError(t, err)
		require.NoError(t, e.Partition((leader+1)%e.Size()))
		// The code under test works with the other two.
		require.NoError(t, e.Heal())
		require.NoError(t, e.WaitForQuorum(t.Context()))
	}
}

// A test freezes the link to a server. The client notices only that replies are missing.
func ExampleEnsemble_Freeze() {
	_ = func(t *testing.T) {
		e := ensemble.New(t, ensemble.WithServers(1))
		require.NoError(t, e.Freeze(0))
		// The code under test must not take a missing reply for a success.
		require.NoError(t, e.Heal())
	}
}

// A test cuts the connections to a server, and its client reconnects to another.
func ExampleEnsemble_CutConnections() {
	_ = func(t *testing.T) {
		e := ensemble.New(t)
		require.NoError(t, e.RefuseConnections(0))
		require.NoError(t, e.CutConnections(0))
		// The session of the code under test continues on another server.
		require.NoError(t, e.Heal())
	}
}

// A test suspends the process of a server, as a long garbage collection does.
func ExampleEnsemble_PauseServer() {
	_ = func(t *testing.T) {
		e := ensemble.New(t)
		leader, err := e.Leader(t.Context())
		require.NoError(t, err)
		require.NoError(t, e.PauseServer(leader))
		// The others elect a leader. The old one believes that it leads until it runs again.
		require.NoError(t, e.ResumeServer(leader))
	}
}
