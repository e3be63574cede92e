package grpcresolver_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	"github.com/gocurator/curator/discovery"
	"github.com/gocurator/curator/discovery/grpcresolver"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/test/testbed"
	"github.com/gocurator/curator/zktest"
)

// serverEnv makes this test program a gRPC server, in a process that a test can kill. It has the id
// and the address of ZooKeeper.
const serverEnv = "CURATOR_GRPC_TEST_SERVER"

func init() {
	id, zookeeper, found := strings.Cut(os.Getenv(serverEnv), " ")
	if !found {
		return
	}
	if err := serveUntilEOF(id, zookeeper); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	os.Exit(0)
}

// serveUntilEOF serves until standard input ends, as it does with the test.
func serveUntilEOF(id, zookeeper string) error {
	client, err := framework.New([]string{zookeeper})
	if err != nil {
		return err
	}
	d, err := discovery.New[zone](client, "/services")
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	go newServer(id).Serve(listener) // ends with the process
	if _, err := registered(context.Background(), d, id, listener); err != nil {
		return err
	}
	fmt.Println("registered")
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

// startProcess starts a gRPC server in a separate process, and returns a function that kills it (SIGKILL).
func startProcess(t *testing.T, server *zktest.Server, id string) (kill func()) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), serverEnv+"="+id+" "+server.Addr())
	require.NoError(t, testbed.Err(cmd.StdinPipe()))
	out := testbed.Must(cmd.StdoutPipe())
	require.NoError(t, cmd.Start())
	kill = sync.OnceFunc(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed
	})
	t.Cleanup(kill)
	line := testbed.Must(bufio.NewReader(out).ReadString('\n'))
	require.Equal(t, "registered\n", line)
	return kill
}

// sees waits until a resolver has passed on these instances.
func (r *recorder) sees(t *testing.T, want ...string) {
	t.Helper()
	for ctx := testbed.Context(t); ; {
		var ids []string
		select {
		case state := <-r.states:
			for _, e := range state.Endpoints {
				i, _ := grpcresolver.Instance[zone](e)
				ids = append(ids, i.ID)
			}
		case <-ctx.Done():
			require.FailNow(t, "waited in vain", "for the instances %v", want)
		}
		if slices.Equal(ids, want) {
			return
		}
	}
}

// TestNoCallIsLostWhileServersAreDrainedAndKilled calls all the time, and gRPC repeats what failed
// because of a connection.
func TestNoCallIsLostWhileServersAreDrainedAndKilled(t *testing.T) {
	const repeats = `{"loadBalancingConfig":[{"round_robin":{}}],"methodConfig":[{"name":[{}],"retryPolicy":{
		"maxAttempts":5,"initialBackoff":"0.01s","maxBackoff":"1s","backoffMultiplier":4,"retryableStatusCodes":["UNAVAILABLE"]}}]}`
	server := zktest.NewServer(t)
	d := newDiscovery(t, server)
	b := builder(t, d)
	serve(t, d, "stays")
	drained, service := serve(t, d, "drained")
	kill := startProcess(t, server, "killed")
	conn := connect(t, b, grpc.WithDefaultServiceConfig(repeats))
	lists, built, _ := build(t, b, "curator:///orders")
	defer built.Close()
	lists.sees(t, "drained", "killed", "stays")
	until(t, conn, "drained", "killed", "stays")

	over := make(chan struct{})
	var callers sync.WaitGroup
	end := sync.OnceFunc(func() {
		close(over)
		callers.Wait()
	})
	defer end()
	for range 4 {
		callers.Go(func() {
			for again := time.Tick(time.Millisecond); ; <-again {
				select {
				case <-over:
					return
				default:
				}
				if _, err := call(t.Context(), conn); !assert.NoError(t, err) {
					return
				}
			}
		})
	}
	require.NoError(t, drained.Drain(t.Context(), 100*time.Millisecond))
	lists.sees(t, "killed", "stays")
	until(t, conn, "killed", "stays")
	service.GracefulStop()

	stat := testbed.ServerStat(t, server, "/services/orders/killed")
	kill() // it is in the list as long as its session lives
	until(t, conn, "stays")
	require.True(t, server.Exists("/services/orders/killed"))
	require.NoError(t, server.ExpireSession(stat.EphemeralOwner))
	lists.sees(t, "stays")
	until(t, conn, "stays")

	startProcess(t, server, "killed") // at another port
	lists.sees(t, "killed", "stays")
	until(t, conn, "killed", "stays")
	end()
}
